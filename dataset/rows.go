package dataset

import (
	"encoding/binary"
	"errors"
	"fmt"
	"iter"

	"github.com/batchfs/batchfs/internal/archive"
)

// Rows are written in blocks, each a record of [facts]. A number is a varint, and a text its length
// and its bytes. Times and offsets are differences to the row before, and a path is how many of its
// bytes are those of the path before, and the rest, so that a row takes 20 to 40 bytes.
//
//	rows in the block, what follows each (withPlace, withVersion)
//	for each row: path, label, height, width, orientation and format, size, time
//	              withPlace: offset, length, coding and kind of checksum, checksum, pixels,
//	                         and unless it is plain, where it is in what that unpacks to, and how long that is
//	              withVersion: version
//	how many rows have a problem; for each, how many rows after the one before it is, and the problem

const (
	withPlace = 1 << iota
	withVersion
)

const blockBytes = 256 << 10 // in which a block ends

// encoder appends to a payload.
type encoder struct{ b []byte }

func (e *encoder) int(n int64) { e.b = binary.AppendVarint(e.b, n) }

func (e *encoder) text(s string) {
	e.int(int64(len(s)))
	e.b = append(e.b, s...)
}

// decoder reads a payload. What it reads beyond the end, or of what makes no sense, is zero, and
// then it is bad.
type decoder struct {
	b   []byte
	bad bool
}

func (d *decoder) int() int64 {
	n, size := binary.Varint(d.b)
	if size <= 0 {
		d.b, d.bad = nil, true
		return 0
	}
	d.b = d.b[size:]
	return n
}

// within is a number from 0 to most.
func (d *decoder) within(most int64) int64 {
	n := d.int()
	if n < 0 || n > most {
		d.bad = true
		return 0
	}
	return n
}

// text shares the payload's memory.
func (d *decoder) text() []byte {
	n := d.within(int64(len(d.b)))
	text := d.b[:n]
	d.b = d.b[n:]
	return text
}

// A rowBlock is what is being encoded of a block.
type rowBlock struct {
	rows, problems encoder
	n, bad         int
	lastBad        int    // row of the last problem
	path           string // of the row before, as are the following
	time, end      int64
}

// blocks encodes rows of a table, in their order, and calls emit for each block.
func (s *table) blocks(rows iter.Seq[int], emit func(payload []byte)) {
	flags := int64(0)
	if s.members != nil {
		flags |= withPlace
	}
	if s.versions.at != nil {
		flags |= withVersion
	}
	var b rowBlock
	end := func() {
		if b.n == 0 {
			return
		}
		all := encoder{make([]byte, 0, len(b.rows.b)+len(b.problems.b)+32)}
		all.int(int64(b.n))
		all.int(flags)
		all.b = append(all.b, b.rows.b...)
		all.int(int64(b.bad))
		emit(append(all.b, b.problems.b...))
		b = rowBlock{rows: encoder{b.rows.b[:0]}, problems: encoder{b.problems.b[:0]}}
	}
	for i := range rows {
		b.add(s, i)
		if len(b.rows.b) > blockBytes {
			end()
		}
	}
	end()
}

// add appends row i of a table.
func (b *rowBlock) add(s *table, i int) {
	path, row, e := s.path(i), &s.row[i], &b.rows
	shared := 0
	for shared < min(len(path), len(b.path)) && path[shared] == b.path[shared] {
		shared++
	}
	e.int(int64(shared))
	e.text(path[shared:])
	e.int(int64(max(-1, row.label)))
	e.int(int64(row.height))
	e.int(int64(row.width))
	e.b = append(e.b, row.orient|row.format<<4)
	e.int(row.id.Size)
	e.int(row.id.ModTime - b.time)
	b.path, b.time = path, row.id.ModTime
	if s.members != nil {
		m := &s.members[i]
		e.int(m.Offset - b.end)
		e.int(m.Length)
		e.b = append(e.b, byte(m.Coding), byte(m.Sum))
		e.int(int64(m.CRC))
		e.int(int64(m.Height))
		e.int(int64(m.Width))
		if m.Coding != archive.Plain {
			e.int(m.From)
			e.int(m.Block)
		}
		b.end = m.Offset + m.Length
	}
	if s.versions.at != nil {
		e.text(s.versions.get(i))
	}
	if bad, is := s.bad[uint32(i)]; is {
		b.problems.int(int64(b.n - b.lastBad))
		b.problems.text(bad.reason.Value())
		b.lastBad = b.n
		b.bad++
	}
	b.n++
}

var errRows = errors.New("rows that make no sense")

// appendBlock appends the rows of a block, those of an archive with the number of its object, and
// otherwise -1. Everything that the rest of the package relies on is checked, except for paths,
// which check is called for. After an error, the table is as before.
func (s *table) appendBlock(payload []byte, object int, check func(path string) error) error {
	rows, bytes, members := len(s.row), len(s.paths), len(s.members)
	err := s.decodeBlock(payload, object, check)
	if err != nil {
		for i := rows; i < len(s.row); i++ {
			delete(s.bad, uint32(i))
		}
		s.row, s.paths, s.members = s.row[:rows], s.paths[:bytes], s.members[:members]
		s.versions.at = s.versions.at[:min(rows, len(s.versions.at))]
	}
	return err
}

func (s *table) decodeBlock(payload []byte, object int, check func(path string) error) error {
	d := decoder{b: payload}
	n, flags := d.within(int64(len(payload)/8)), d.within(withPlace|withVersion)
	if (flags&withPlace != 0) != (object >= 0) {
		return errRows
	}
	first, start, before, time, end := len(s.row), len(s.paths), 0, int64(0), int64(0)
	for k := range int(n) {
		shared, rest := d.within(int64(before)), d.text()
		from := len(s.paths)
		s.paths = append(append(s.paths, s.paths[start:start+int(shared)]...), rest...)
		start, before = from, len(s.paths)-from
		row := sample{start: int64(from), label: int32(d.int()), height: int32(d.int()), width: int32(d.int())}
		bits := d.byte()
		row.orient, row.format = bits&15, bits>>4
		row.id.Size = d.int()
		time += d.int()
		row.id.ModTime = time
		if before > maxPath || row.label < -1 || row.height < 0 || row.width < 0 || row.orient > 8 || int(row.format) >= len(formats) || row.id.Size < 0 {
			d.bad = true
		}
		s.row = append(s.row, row)
		if object >= 0 {
			m := d.member(int32(object), row.id.Size, end)
			end = m.Offset + m.Length
			s.members = append(s.members, m)
			if d.bad = d.bad || !m.Within(s.objects[object].id.Size); d.bad {
				return fmt.Errorf("%w: row %d", errRows, first+k)
			}
		}
		if flags&withVersion != 0 {
			if err := s.versions.set(first+k, string(d.text())); err != nil {
				return err
			}
		}
		if d.bad {
			return fmt.Errorf("%w: row %d", errRows, first+k)
		}
		if err := check(s.path(first + k)); err != nil {
			return err
		}
	}
	at := first
	for range d.within(n) {
		at += int(d.within(n))
		if text := string(d.text()); !d.bad && at < len(s.row) {
			s.addBad(at, reason(errors.New(text)), false)
		}
	}
	if d.bad || len(d.b) > 0 {
		return errRows
	}
	return nil
}

func (d *decoder) byte() byte {
	if len(d.b) == 0 {
		d.bad = true
		return 0
	}
	c := d.b[0]
	d.b = d.b[1:]
	return c
}

// member is where a sample of a size is in an object; the row before ends at an offset.
func (d *decoder) member(object int32, size, end int64) member {
	p := archive.Place{Offset: end + d.int(), Length: d.int(), Size: size}
	p.Coding, p.Sum = archive.Coding(d.byte()), archive.Sum(d.byte())
	p.CRC, p.Height, p.Width = uint32(d.int()), uint16(d.within(1<<16-1)), uint16(d.within(1<<16-1))
	if p.Coding != archive.Plain {
		p.From, p.Block = d.int(), d.int()
	}
	return member{object, p}
}
