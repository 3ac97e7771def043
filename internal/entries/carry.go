package entries

import (
	"bufio"
	"context"
	"errors"
	"io"
	"io/fs"
	"os"

	"github.com/batchfs/batchfs/internal/owned"
)

// Carry replaces the file of an earlier index with one of a later index. before returns the
// number that a row had, -1 if it had none. What has become of the rows' files does not matter:
// the entry points of a file that changed are no longer found, like those of any other version.
// Without a file, Carry does nothing; until it succeeds, it changes nothing.
func Carry(ctx context.Context, path string, from, to Index, before func(row int) int) error {
	f, size, err := owned.Open(path, os.O_RDONLY)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer f.Close()
	rule, err := readHeader(f, size, from)
	if err != nil {
		return err
	}
	return owned.Replace(path, func(out *os.File) error {
		h := header{rule, to}
		if err := h.write(out); err != nil {
			return err
		}
		c := carrier{
			from: f, end: h.pointsAt(), most: min(maxOffset, h.pointsAt()+size-(&header{rule, from}).pointsAt()),
			rows:   bufio.NewWriterSize(io.NewOffsetWriter(out, rowAt(0)), 256<<10),
			points: bufio.NewWriterSize(io.NewOffsetWriter(out, h.pointsAt()), 256<<10),
		}
		for i := range to.Rows {
			if err := ctx.Err(); err != nil {
				return err
			}
			if err := c.carry(before(i)); err != nil {
				return err
			}
		}
		return errors.Join(c.points.Flush(), c.rows.Flush())
	})
}

type carrier struct {
	from         io.ReaderAt
	rows, points *bufio.Writer
	end          int64 // of the entry points so far
	most         int64 // where they end at most; damaged rows may share some
	buf          Buffer
}

// carry appends the row that had a number.
func (c *carrier) carry(number int) error {
	var r row
	if number >= 0 {
		if n, _ := c.from.ReadAt(c.buf.grow(rowSize), rowAt(number)); n == rowSize {
			r = rowOf(c.buf.b[:rowSize])
		}
	}
	if !r.known() {
		r = row{}
	}
	if r.count > 0 {
		points := c.buf.grow(r.count * pointSize)
		if n, _ := c.from.ReadAt(points, r.offset); n < len(points) || c.end+int64(n) > c.most {
			r = row{}
		} else if _, err := c.points.Write(points); err != nil {
			return err
		} else {
			r.offset = c.end
			c.end += int64(n)
		}
	}
	_, err := c.rows.Write(r.append(c.buf.grow(rowSize)[:0]))
	return err
}
