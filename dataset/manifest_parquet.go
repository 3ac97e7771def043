package dataset

import (
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"strconv"
	"unsafe"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/format"
)

// readParquet reads a manifest with one row per sample.
func readParquet(f *os.File, emit func(*record) error) (err error) {
	rec := record{unit: "row"}
	// The library catches most, but not all, of what can be wrong in a damaged file.
	defer func() {
		if p := recover(); p != nil {
			err = lineError(rec.unit, rec.line+1, fmt.Errorf("damaged: %v", p))
		}
	}()
	file, err := openParquet(f)
	if err != nil {
		return err
	}
	columns, err := parquetColumns(file, &rec)
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

// openParquet opens a file after checking that its footer lies within it, because the library
// would allocate whatever length the file claims.
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

// checkCodec rejects LZ4: the library's decoder takes any error for a buffer that is too small,
// and doubles the buffer until memory runs out.
func checkCodec(file *parquet.File, column int) error {
	for _, group := range file.Metadata().RowGroups {
		if column >= len(group.Columns) {
			return errFooter
		}
		switch codec := group.Columns[column].MetaData.Codec; codec {
		case format.Uncompressed, format.Snappy, format.Gzip, format.Brotli, format.Zstd:
		default:
			return fmt.Errorf("compressed with %s; write it with snappy or zstd", codec)
		}
	}
	return nil
}

// parquetColumn reads one column into a field of a record.
type parquetColumn struct {
	index  int
	name   string
	target *string
	values parquet.ColumnChunkValueReader
	batch  []parquet.Value
	next   int
}

func parquetColumns(file *parquet.File, rec *record) ([]*parquetColumn, error) {
	var columns []*parquetColumn
	for _, want := range []struct {
		name   string
		target *string
		kind   string
	}{
		{"path", &rec.path, "text"}, {"label", &rec.label, "text or numbers"},
		{"height", &rec.height, "numbers"}, {"width", &rec.width, "numbers"}, {"format", &rec.format, "text"},
	} {
		column := file.Root().Column(want.name)
		if column == nil && want.name == "path" {
			return nil, errors.New(`no column "path"`)
		}
		if column == nil {
			continue
		}
		leaf, ok := file.Schema().Lookup(want.name)
		if !ok || leaf.MaxRepetitionLevel > 0 {
			return nil, fmt.Errorf("column %q must be %s, but is a list or another nested type", want.name, want.kind)
		}
		if err := checkCodec(file, leaf.ColumnIndex); err != nil {
			return nil, fmt.Errorf("column %q: %w", want.name, err)
		}
		text := leaf.Node.Type().Kind() == parquet.ByteArray
		switch {
		case want.name == "path" || want.name == "format":
			if !text {
				return nil, fmt.Errorf("column %q must be text, but is %s", want.name, leaf.Node.Type().Kind())
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

// readGroup reads the columns in parallel, row by row.
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

// valueText formats a value as CSV would hold it. Text shares the page's memory, which the
// library reuses, so a caller that keeps it must copy it.
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
		return floatText(float64(v.Float())), nil
	case parquet.Double:
		return floatText(v.Double()), nil
	}
	return "", fmt.Errorf("neither text nor a number: %s", v.Kind())
}

// floatText formats a number. Tables of numbers use NaN for a missing value.
func floatText(f float64) string {
	if math.IsNaN(f) {
		return ""
	}
	return strconv.FormatFloat(f, 'f', -1, 64)
}
