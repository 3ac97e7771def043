package dataset

import (
	"errors"
	"fmt"
	"iter"

	"github.com/batchfs/batchfs/internal/archive"
	"github.com/batchfs/batchfs/internal/facts"
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

// A rowBlock is what is being encoded of a block.
type rowBlock struct {
	rows, problems facts.Encoder
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
		all := facts.Encoder{Bytes: make([]byte, 0, len(b.rows.Bytes)+len(b.problems.Bytes)+32)}
		all.Int(int64(b.n))
		all.Int(flags)
		all.Bytes = append(all.Bytes, b.rows.Bytes...)
		all.Int(int64(b.bad))
		emit(append(all.Bytes, b.problems.Bytes...))
		b = rowBlock{rows: facts.Encoder{Bytes: b.rows.Bytes[:0]}, problems: facts.Encoder{Bytes: b.problems.Bytes[:0]}}
	}
	for i := range rows {
		b.add(s, i)
		if len(b.rows.Bytes) > blockBytes {
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
	e.Int(int64(shared))
	e.Text(path[shared:])
	e.Int(int64(max(-1, row.label)))
	e.Int(int64(row.height))
	e.Int(int64(row.width))
	e.Byte(row.orient | row.format<<4)
	e.Int(row.id.Size)
	e.Int(row.id.ModTime - b.time)
	b.path, b.time = path, row.id.ModTime
	if s.members != nil {
		m := &s.members[i]
		e.Int(m.Offset - b.end)
		e.Int(m.Length)
		e.Byte(byte(m.Coding))
		e.Byte(byte(m.Sum))
		e.Int(int64(m.CRC))
		e.Int(int64(m.Height))
		e.Int(int64(m.Width))
		if m.Coding != archive.Plain {
			e.Int(m.From)
			e.Int(m.Block)
		}
		b.end = m.Offset + m.Length
	}
	if s.versions.at != nil {
		e.Text(s.versions.get(i))
	}
	if bad, is := s.bad[uint32(i)]; is {
		b.problems.Int(int64(b.n - b.lastBad))
		b.problems.Text(bad.reason.Value())
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
	d := facts.Decoder{Bytes: payload}
	n, flags := d.Within(int64(len(payload)/8)), d.Within(withPlace|withVersion)
	if (flags&withPlace != 0) != (object >= 0) {
		return errRows
	}
	first, start, before, time, end := len(s.row), len(s.paths), 0, int64(0), int64(0)
	for k := range int(n) {
		shared, rest := d.Within(int64(before)), d.Text()
		from := len(s.paths)
		s.paths = append(append(s.paths, s.paths[start:start+int(shared)]...), rest...)
		start, before = from, len(s.paths)-from
		row := sample{start: int64(from), label: int32(d.Int()), height: int32(d.Int()), width: int32(d.Int())}
		bits := d.Byte()
		row.orient, row.format = bits&15, bits>>4
		row.id.Size = d.Int()
		time += d.Int()
		row.id.ModTime = time
		if before > maxPath || row.label < -1 || row.height < 0 || row.width < 0 || row.orient > 8 || int(row.format) >= len(formats) || row.id.Size < 0 {
			d.Bad = true
		}
		s.row = append(s.row, row)
		if object >= 0 {
			m := memberOf(&d, int32(object), row.id.Size, end)
			end = m.Offset + m.Length
			s.members = append(s.members, m)
			if d.Bad = d.Bad || !m.Within(s.objects[object].id.Size); d.Bad {
				return fmt.Errorf("%w: row %d", errRows, first+k)
			}
		}
		if flags&withVersion != 0 {
			if err := s.versions.set(first+k, string(d.Text())); err != nil {
				return err
			}
		}
		if d.Bad {
			return fmt.Errorf("%w: row %d", errRows, first+k)
		}
		if err := check(s.path(first + k)); err != nil {
			return err
		}
	}
	at := first
	for range d.Within(n) {
		at += int(d.Within(n))
		if text := string(d.Text()); !d.Bad && at < len(s.row) {
			s.addBad(at, reason(errors.New(text)), false)
		}
	}
	if d.Bad || len(d.Bytes) > 0 {
		return errRows
	}
	return nil
}

// memberOf is where a sample of a size is in an object; the row before ends at an offset.
func memberOf(d *facts.Decoder, object int32, size, end int64) member {
	p := archive.Place{Offset: end + d.Int(), Length: d.Int(), Size: size}
	p.Coding, p.Sum = archive.Coding(d.Byte()), archive.Sum(d.Byte())
	p.CRC, p.Height, p.Width = uint32(d.Int()), uint16(d.Within(1<<16-1)), uint16(d.Within(1<<16-1))
	if p.Coding != archive.Plain {
		p.From, p.Block = d.Int(), d.Int()
	}
	return member{object, p}
}
