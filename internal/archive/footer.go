package archive

import (
	"encoding/binary"
	"errors"
	"io"

	"github.com/parquet-go/parquet-go/encoding/thrift"
	"github.com/parquet-go/parquet-go/format"
)

// CheckFooter checks that the footer of a Parquet file lies within the file and makes sense,
// because the library trusts what it claims.
func CheckFooter(r io.ReaderAt, size int64) error {
	var tail [8]byte
	if size < 12 {
		return errNoParquet
	}
	if _, err := r.ReadAt(tail[:], size-8); err != nil && err != io.EOF {
		return err
	}
	length := int64(le32(tail[:]))
	switch {
	case string(tail[4:]) == "PARE":
		return errors.New("it is encrypted; write it without encryption")
	case string(tail[4:]) != "PAR1" || length > min(size-12, maxBlock):
		return errNoParquet
	}
	footer := make([]byte, length)
	if _, err := r.ReadAt(footer, size-8-length); err != nil {
		return err
	}
	if err := checkThrift(footer); err != nil {
		return err
	}
	return checkColumns(footer)
}

var errNoParquet = errors.New("no Parquet file, or it is cut short")

// checkColumns checks that the columns form a tree that is not too deep, and that each row group
// has all of them: the library makes room for each column's path, and for all columns in all row
// groups.
func checkColumns(footer []byte) error {
	var of struct {
		Schema []struct {
			Type     thrift.Null[int32] `thrift:"1,optional"`
			Children int32              `thrift:"5,optional"`
		} `thrift:"2,required"`
		Groups []struct {
			Columns []struct {
				At int64 `thrift:"2,optional"`
			} `thrift:"1,required"`
		} `thrift:"4,required"`
	}
	var protocol thrift.CompactProtocol
	decoder := thrift.NewDecoder(protocol.NewReaderFromBytes(footer))
	if err := caught(func() error { return decoder.Decode(&of) }); err != nil {
		return err
	}
	leaves, left := 0, []int32{} // children that are to come, by level
	for i, column := range of.Schema {
		if i > 0 && len(left) == 0 || column.Children < 0 || int(column.Children) >= len(of.Schema)-i {
			return errDamaged
		}
		if column.Type.Valid {
			leaves++
		}
		if column.Children > 0 {
			left = append(left, column.Children)
		} else {
			for k := len(left) - 1; k >= 0; k-- {
				if left[k]--; left[k] > 0 {
					break
				}
				left = left[:k]
			}
		}
		if len(left) > deepest {
			return errors.New("its columns are nested too deeply")
		}
	}
	for _, group := range of.Groups {
		if len(group.Columns) != leaves {
			return errDamaged
		}
	}
	return nil
}

// CheckPages is CheckFooter for the headers of a column's pages, which begin at an offset and have
// a number of values.
func CheckPages(r io.ReaderAt, from, end, values int64) error {
	head := make([]byte, 64<<10) // more than any program writes
	for from < end && values > 0 {
		b := head[:min(int64(len(head)), end-from)]
		if _, err := r.ReadAt(b, from); err != nil && err != io.EOF {
			return err
		}
		if err := checkThrift(b); err != nil {
			return err
		}
		var protocol thrift.CompactProtocol
		var h format.PageHeader
		in := protocol.NewReaderFromBytes(b)
		if err := caught(func() error { return thrift.NewDecoder(in).Decode(&h) }); err != nil {
			return err
		}
		if h.CompressedPageSize < 0 {
			return errDamaged
		}
		from += int64(in.BytesRead()) + int64(h.CompressedPageSize)
		if h.Type == format.DataPage || h.Type == format.DataPageV2 {
			values -= int64(max(h.DataPageHeader.V.NumValues, h.DataPageHeaderV2.V.NumValues))
		}
	}
	return nil
}

// deepest is how many levels columns, and the metadata itself, may have.
const deepest = 64

// checkThrift checks the metadata at the beginning of b: the library makes room for what a list or
// text claims, up to 2^31 items, and calls itself for each level.
func checkThrift(b []byte) error {
	c := compact{b}
	return c.value(compactStruct, 0)
}

// compact is what is left of a value in Thrift's compact encoding.
type compact struct{ b []byte }

// The types of values. Those in between are numbers of varying length.
const (
	compactStop = iota
	compactTrue
	compactFalse
	compactByte
	compactDouble = 7
	compactBinary = 8
	compactList   = 9
	compactSet    = 10
	compactMap    = 11
	compactStruct = 12
	compactUUID   = 13
)

func (c *compact) skip(n uint64) error {
	if n > uint64(len(c.b)) {
		return io.ErrUnexpectedEOF
	}
	c.b = c.b[n:]
	return nil
}

func (c *compact) number() (uint64, error) {
	v, n := binary.Uvarint(c.b)
	if n <= 0 {
		return 0, io.ErrUnexpectedEOF
	}
	c.b = c.b[n:]
	return v, nil
}

func (c *compact) byte() (byte, error) {
	if len(c.b) == 0 {
		return 0, io.ErrUnexpectedEOF
	}
	v := c.b[0]
	c.b = c.b[1:]
	return v, nil
}

// value skips a value of a type. Each item of a list takes a byte at least.
func (c *compact) value(kind byte, depth int) error {
	switch kind {
	case compactTrue, compactFalse, compactByte:
		return c.skip(1)
	case compactDouble:
		return c.skip(8)
	case compactUUID:
		return c.skip(16)
	case compactBinary:
		n, err := c.number()
		if err == nil {
			err = c.skip(n)
		}
		return err
	case compactList, compactSet:
		head, err := c.byte()
		n := uint64(head >> 4)
		if err == nil && n == 15 {
			n, err = c.number()
		}
		return c.items(n, depth, err, head&15)
	case compactMap:
		n, err := c.number()
		if n == 0 || err != nil {
			return err
		}
		kinds, err := c.byte()
		return c.items(n, depth, err, kinds>>4, kinds&15)
	case compactStruct:
		return c.fields(depth)
	case compactByte + 1, compactByte + 2, compactByte + 3:
		_, err := c.number()
		return err
	}
	return errDamaged
}

// items skips n items, each of which consists of values of the given types.
func (c *compact) items(n uint64, depth int, err error, kinds ...byte) error {
	if err == nil && n > uint64(len(c.b)) {
		err = io.ErrUnexpectedEOF
	}
	if depth == deepest {
		err = errDamaged
	}
	for range n {
		for _, kind := range kinds {
			if err != nil {
				return err
			}
			err = c.value(kind, depth+1)
		}
	}
	return err
}

// fields skips the rest of a struct.
func (c *compact) fields(depth int) error {
	for {
		head, err := c.byte()
		if err != nil || head == compactStop {
			return err
		}
		if head>>4 == 0 { // the field's number follows
			_, err = c.number()
		}
		// In a struct, the type of true and false is the value.
		if kind := head & 15; err == nil && kind != compactTrue && kind != compactFalse {
			if depth == deepest {
				return errDamaged
			}
			err = c.value(kind, depth+1)
		}
		if err != nil {
			return err
		}
	}
}
