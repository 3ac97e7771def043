package dataset

import (
	"errors"
	"fmt"
	"iter"

	"github.com/batchfs/batchfs/internal/archive"
	"github.com/batchfs/batchfs/internal/facts"
)

// Rows are written in blocks, each a record of [facts]. Numbers and texts are encoded by
// [facts.Encoder]. Times, offsets and object numbers are stored as differences to the previous row,
// and a path as the length of the prefix it shares with the previous path, and the rest. So a row
// takes 20 to 40 bytes.
//
//	rows in the block, what follows each (withPlace, withVersion)
//	for each row: path, label, height, width, orientation and format, time,
//	              size, or if it has a problem, the complement of the size, and the problem
//	              withPlace: object, offset, length, coding and kind of checksum, checksum, pixels,
//	                         and unless it is plain, offset in the unpacked bytes, and their length
//	              withVersion: version

const (
	withPlace = 1 << iota
	withVersion
)

const blockBytes = 256 << 10 // a block ends when it exceeds this

// A rowBefore is the row that the next row is encoded relative to.
type rowBefore struct {
	path      string
	time, end int64
	object    int32
}

// blocks encodes rows of a table, in the given order, and calls emit for each block.
func (s *table) blocks(rows iter.Seq[int], emit func(payload []byte)) {
	flags := int64(0)
	if s.members != nil {
		flags |= withPlace
	}
	if s.versions.at != nil {
		flags |= withVersion
	}
	var b facts.Encoder
	var before rowBefore
	n := 0
	end := func() {
		if n > 0 {
			head := facts.Encoder{Bytes: make([]byte, 0, len(b.Bytes)+16)}
			head.Int(int64(n))
			head.Int(flags)
			emit(append(head.Bytes, b.Bytes...))
		}
		b.Bytes, before, n = b.Bytes[:0], rowBefore{}, 0
	}
	for i := range rows {
		before.encode(&b, s, i)
		if n++; len(b.Bytes) > blockBytes {
			end()
		}
	}
	end()
}

// encode appends row i of a table.
func (b *rowBefore) encode(e *facts.Encoder, s *table, i int) {
	path, row := s.path(i), &s.row[i]
	shared := 0
	for shared < min(len(path), len(b.path)) && path[shared] == b.path[shared] {
		shared++
	}
	e.Int(int64(shared))
	e.Text(path[shared:])
	e.Int(int64(row.label))
	e.Int(int64(row.height))
	e.Int(int64(row.width))
	e.Byte(row.orient | row.format<<4)
	e.Int(row.id.ModTime - b.time)
	if bad, is := s.bad[uint32(i)]; is {
		e.Int(^row.id.Size)
		e.Text(bad.reason.Value())
	} else {
		e.Int(row.id.Size)
	}
	b.path, b.time = path, row.id.ModTime
	if s.members != nil {
		m := &s.members[i]
		e.Int(int64(m.object - b.object))
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
		b.object, b.end = m.object, m.Offset+m.Length
	}
	if s.versions.at != nil {
		e.Text(s.versions.get(i))
	}
}

var errRows = errors.New("rows that make no sense")

// appendBlock appends the rows of a block. It checks everything that the rest of the package relies
// on, except for paths. After an error, the table has the rows before the bad one.
func (s *table) appendBlock(payload []byte) error {
	d := facts.Decoder{Bytes: payload}
	n, flags := d.Within(int64(len(payload)/8)), d.Within(withPlace|withVersion)
	if (flags&withPlace != 0) != (s.objects != nil) {
		return errRows
	}
	var before rowBefore
	for range n {
		i, bytes := len(s.row), len(s.paths)
		problem := before.decode(&d, s)
		if flags&withPlace != 0 {
			m := before.member(&d, s.row[i].id.Size)
			s.members = append(s.members, m)
			d.Bad = d.Bad || m.object < 0 || int(m.object) >= len(s.objects) || !m.Within(s.objects[m.object].id.Size)
		}
		version := ""
		if flags&withVersion != 0 {
			version = string(d.Text())
		}
		if d.Bad || len(version) > maxVersion {
			s.row, s.paths, s.members = s.row[:i], s.paths[:bytes], s.members[:min(i, len(s.members))]
			return fmt.Errorf("%w: row %d", errRows, i)
		}
		if flags&withVersion != 0 {
			_ = s.versions.set(i, version) // cannot fail: the length was checked
		}
		if problem != nil {
			s.addBad(i, reason(errors.New(string(problem))), false)
		}
	}
	if d.Bad || len(d.Bytes) > 0 {
		return errRows
	}
	return nil
}

// decode appends the next row to a table, without its place and version. It returns the row's
// problem; nil: none.
func (b *rowBefore) decode(d *facts.Decoder, s *table) (problem []byte) {
	shared, rest := d.Within(int64(len(b.path))), d.Text()
	from := len(s.paths)
	s.paths = append(append(s.paths, b.path[:shared]...), rest...)
	row := sample{start: int64(from), label: int32(d.Int()), height: int32(d.Int()), width: int32(d.Int())}
	bits := d.Byte()
	row.orient, row.format = bits&15, bits>>4
	b.time += d.Int()
	row.id = Identity{Size: d.Int(), ModTime: b.time}
	if row.id.Size < 0 {
		row.id.Size, problem = ^row.id.Size, d.Text()
	}
	if len(s.paths)-from > maxPath || row.label < -1 || row.height < 0 || row.width < 0 || row.orient > 8 || int(row.format) >= len(formats) {
		d.Bad = true
	}
	s.row = append(s.row, row)
	b.path = s.path(len(s.row) - 1)
	return problem
}

// member decodes where a sample of a size is in an object.
func (b *rowBefore) member(d *facts.Decoder, size int64) member {
	b.object += int32(d.Int())
	p := archive.Place{Offset: b.end + d.Int(), Length: d.Int(), Size: size}
	p.Coding, p.Sum = archive.Coding(d.Byte()), archive.Sum(d.Byte())
	p.CRC, p.Height, p.Width = uint32(d.Int()), uint16(d.Within(1<<16-1)), uint16(d.Within(1<<16-1))
	if p.Coding != archive.Plain {
		p.From, p.Block = d.Int(), d.Int()
	}
	b.end = p.Offset + p.Length
	return member{b.object, p}
}
