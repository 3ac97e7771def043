package dataset

import (
	"errors"
	"fmt"
	"io"
	"unsafe"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/format"

	"github.com/batchfs/batchfs/internal/archive"
)

var errCounts = errors.New("its counts do not fit its size")

// openParquet opens a file.
func openParquet(f io.ReaderAt, size int64) (*parquet.File, error) {
	if err := archive.CheckFooter(f, size); err != nil {
		return nil, err
	}
	return parquet.OpenFile(f, size, parquet.SkipPageIndex(true),
		parquet.SkipBloomFilters(true), parquet.ReadBufferSize(256<<10))
}

// A column is a Parquet column of single values.
type column struct {
	name   string
	leaf   parquet.LeafColumn
	values parquet.ColumnChunkValueReader
	batch  [512]parquet.Value
	rest   []parquet.Value // of batch: read, but not yet used
}

var errNested = errors.New("a list or another nested type")

// findColumn returns a file's column, nil if it has none of that name.
func findColumn(file *parquet.File, name string) (*column, error) {
	if file.Root().Column(name) == nil {
		return nil, nil
	}
	leaf, ok := file.Schema().Lookup(name)
	if !ok || leaf.MaxRepetitionLevel > 0 {
		return nil, errNested
	}
	if err := checkChunks(file, leaf); err != nil {
		return nil, err
	}
	return &column{name: name, leaf: leaf}, nil
}

// mostUnpacked is how many bytes a column of a row group may always unpack to.
const mostUnpacked = 64 << 20

// checkChunks checks what a file says about leaves of its schema: the library believes it.
func checkChunks(file *parquet.File, leaves ...parquet.LeafColumn) error {
	rows := file.NumRows()
	for _, group := range file.Metadata().RowGroups {
		rows -= group.NumRows
		for _, leaf := range leaves {
			if leaf.ColumnIndex >= len(group.Columns) {
				return errCounts
			}
			data := group.Columns[leaf.ColumnIndex].MetaData
			differs := data.NumValues != group.NumRows
			if leaf.MaxRepetitionLevel > 0 { // equal ones take next to nothing, but not here
				differs = data.NumValues > file.Size()
			}
			if differs || group.NumRows < 0 || data.TotalCompressedSize > file.Size() {
				return errCounts
			}
			if most := max(mostUnpacked, 1000*data.TotalCompressedSize); data.TotalUncompressedSize > most {
				return fmt.Errorf("column %q: %d bytes that unpack to %d", leaf.Path[0], data.TotalCompressedSize, data.TotalUncompressedSize)
			}
			switch codec := data.Codec; codec {
			case format.Uncompressed, format.Snappy, format.Gzip, format.Brotli, format.Zstd:
			default: // the library's decoder of LZ4 doubles its buffer on any error, until memory runs out
				return fmt.Errorf("column %q: compressed with %s; write it with snappy or zstd", leaf.Path[0], codec)
			}
		}
	}
	if rows != 0 {
		return errCounts
	}
	return nil
}

func (c *column) kind() parquet.Kind { return c.leaf.Node.Type().Kind() }

// eachRow calls emit for each row of a file, with the values of the columns. They are valid only
// during the call.
func eachRow(file *parquet.File, columns []*column, emit func(row []parquet.Value) error) error {
	for _, group := range file.RowGroups() {
		if err := eachRowOf(group, columns, emit); err != nil {
			return err
		}
	}
	return nil
}

func eachRowOf(group parquet.RowGroup, columns []*column, emit func(row []parquet.Value) error) error {
	chunks := group.ColumnChunks()
	for _, c := range columns {
		c.values, c.rest = parquet.NewColumnChunkValueReader(chunks[c.leaf.ColumnIndex]), nil
		defer c.values.Close()
	}
	row := make([]parquet.Value, len(columns))
	for range group.NumRows() {
		for k, c := range columns {
			if len(c.rest) == 0 {
				if err := c.fill(); err != nil {
					return fmt.Errorf("column %q: %w", c.name, err)
				}
			}
			row[k], c.rest = c.rest[0], c.rest[1:]
		}
		if err := emit(row); err != nil {
			return err
		}
	}
	return nil
}

// fill reads more values, of one page, whose memory they share.
func (c *column) fill() error {
	n, err := c.values.ReadValues(c.batch[:])
	c.rest = c.batch[:n]
	switch {
	case n > 0:
		return nil
	case err == nil || err == io.EOF:
		return io.ErrUnexpectedEOF
	}
	return err
}

// text is the text of a value, in the memory of its page.
func text(v parquet.Value) string {
	b := v.ByteArray()
	return unsafe.String(unsafe.SliceData(b), len(b))
}
