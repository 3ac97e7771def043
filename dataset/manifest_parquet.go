package dataset

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"unsafe"

	"github.com/parquet-go/parquet-go"
)

// readParquet reads a manifest with one row a sample.
func readParquet(f *os.File, emit func(*record) error) (err error) {
	rec := record{unit: "row"}
	// The library checks much, but not all, of what a damaged file can say.
	defer func() {
		if p := recover(); p != nil {
			err = lineError(rec.unit, rec.line+1, fmt.Errorf("damaged: %v", p))
		}
	}()
	file, err := openParquet(f)
	if err != nil {
		return err
	}
	columns, err := parquetColumns(file.Schema(), &rec)
	if err != nil {
		return err
	}
	for _, group := range file.RowGroups() {
		if err := readGroup(group, columns, &rec, emit); err != nil {
			return err
		}
	}
	return nil
}

// openParquet opens a file after checking that its footer lies in it, since the
// library would first allocate whatever length is written there.
func openParquet(f *os.File) (*parquet.File, error) {
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if _, _, err := footer(f, info.Size()); err != nil {
		return nil, err
	}
	return parquet.OpenFile(f, info.Size(), parquet.SkipPageIndex(true),
		parquet.SkipBloomFilters(true), parquet.ReadBufferSize(256<<10))
}

// parquetColumn reads one column of interest into a record.
type parquetColumn struct {
	index  int
	name   string
	target *string
	values parquet.ColumnChunkValueReader
	batch  []parquet.Value
	next   int
}

func parquetColumns(schema *parquet.Schema, rec *record) ([]*parquetColumn, error) {
	var columns []*parquetColumn
	for _, want := range []struct {
		name   string
		target *string
	}{
		{"path", &rec.path}, {"label", &rec.label},
		{"height", &rec.height}, {"width", &rec.width}, {"format", &rec.format},
	} {
		leaf, ok := schema.Lookup(want.name)
		if !ok && want.name == "path" {
			return nil, errors.New(`no column "path"`)
		}
		if !ok {
			continue
		}
		if leaf.MaxRepetitionLevel > 0 {
			return nil, fmt.Errorf("column %q is a list", want.name)
		}
		text := leaf.Node.Type().Kind() == parquet.ByteArray
		switch {
		case want.name == "path" || want.name == "format":
			if !text {
				return nil, fmt.Errorf("column %q is no text", want.name)
			}
		case want.name == "label" && text:
			rec.kind = labelName
		case want.name == "label":
			rec.kind = labelNumber
		}
		columns = append(columns, &parquetColumn{index: leaf.ColumnIndex, name: want.name, target: want.target})
	}
	return columns, nil
}

// readGroup reads the columns side by side, row by row.
func readGroup(group parquet.RowGroup, columns []*parquetColumn, rec *record, emit func(*record) error) error {
	chunks := group.ColumnChunks()
	for _, c := range columns {
		c.values = parquet.NewColumnChunkValueReader(chunks[c.index])
		defer c.values.Close()
		c.batch, c.next = c.batch[:0], 0
	}
	for range group.NumRows() {
		for _, c := range columns {
			if err := c.read(); err != nil {
				return lineError(rec.unit, rec.line+1, fmt.Errorf("column %q: %w", c.name, err))
			}
		}
		rec.line++
		if err := emit(rec); err != nil {
			return err
		}
	}
	return nil
}

// read sets the record's field to the column's next value.
func (c *parquetColumn) read() error {
	if c.next == len(c.batch) {
		if cap(c.batch) == 0 {
			c.batch = make([]parquet.Value, 256)
		}
		n, err := c.values.ReadValues(c.batch[:cap(c.batch)])
		if n == 0 {
			if err == nil || err == io.EOF {
				err = io.ErrUnexpectedEOF
			}
			return err
		}
		c.batch, c.next = c.batch[:n], 0
	}
	text, err := valueText(c.batch[c.next])
	c.next++
	*c.target = text
	return err
}

// valueText is a value as CSV would hold it. Text shares the page's memory.
func valueText(v parquet.Value) (string, error) {
	if v.IsNull() {
		return "", nil
	}
	switch v.Kind() {
	case parquet.ByteArray:
		b := v.ByteArray()
		return unsafe.String(unsafe.SliceData(b), len(b)), nil
	case parquet.Int32:
		return strconv.FormatInt(int64(v.Int32()), 10), nil
	case parquet.Int64:
		return strconv.FormatInt(v.Int64(), 10), nil
	case parquet.Float:
		return strconv.FormatFloat(float64(v.Float()), 'f', -1, 32), nil
	case parquet.Double:
		return strconv.FormatFloat(v.Double(), 'f', -1, 64), nil
	}
	return "", fmt.Errorf("neither text nor a number: %s", v.Kind())
}
