package dataset

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"

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

// A column is a column of a Parquet file, and where its values go as text.
type column struct {
	*parquet.Column
	to     *string
	leaves []*leaf
	json   *nested           // nil: values are written as in CSV, not as JSON
	row    [][]parquet.Value // by leaf
}

// A leaf is a part of a column that has values.
type leaf struct {
	*parquet.Column
	values parquet.ColumnChunkValueReader
	batch  [512]parquet.Value
	rest   []parquet.Value // the part of batch that is not used yet
	row    []parquet.Value
}

// leavesOf returns the leaves of a column, in their order.
func leavesOf(c *parquet.Column) (all []*leaf) {
	if c.Leaf() {
		return []*leaf{{Column: c}}
	}
	for _, part := range c.Columns() {
		all = append(all, leavesOf(part)...)
	}
	return all
}

// mostUnpacked is how many bytes a column of a row group may unpack to, whatever its stored size.
const mostUnpacked = 64 << 20

// checkChunks checks what a file says about columns, because the library trusts it.
func checkChunks(file *parquet.File, columns []*column) error {
	var leaves []*leaf
	for _, c := range columns {
		leaves = append(leaves, c.leaves...)
	}
	rows := file.NumRows()
	for _, group := range file.Metadata().RowGroups {
		rows -= group.NumRows
		for _, leaf := range leaves {
			if leaf.Index() >= len(group.Columns) {
				return errCounts
			}
			data := group.Columns[leaf.Index()].MetaData
			differs := data.NumValues != group.NumRows
			if leaf.MaxRepetitionLevel() > 0 { // equal values are tiny in the file, but not in memory here
				differs = data.NumValues > file.Size()
			}
			if differs || group.NumRows < 0 || data.TotalCompressedSize > file.Size() {
				return errCounts
			}
			if most := max(mostUnpacked, 1000*data.TotalCompressedSize); data.TotalUncompressedSize > most {
				return fmt.Errorf("column %q: %d bytes that unpack to %d", leaf.Path()[0], data.TotalCompressedSize, data.TotalUncompressedSize)
			}
			switch codec := data.Codec; codec {
			case format.Uncompressed, format.Snappy, format.Gzip, format.Brotli, format.Zstd:
			default: // on any error, the library's LZ4 decoder doubles its buffer until memory runs out
				return fmt.Errorf("column %q: compressed with %s; write it with snappy or zstd", leaf.Path()[0], codec)
			}
			start := data.DataPageOffset
			if d := data.DictionaryPageOffset; d > 0 && d < start {
				start = d
			}
			if err := archive.CheckPages(file, start, start+data.TotalCompressedSize, data.NumValues); err != nil {
				return fmt.Errorf("column %q: %w", leaf.Path()[0], err)
			}
		}
	}
	if rows != 0 {
		return errCounts
	}
	return nil
}

// eachRow calls emit for each row of a group, after storing the texts of the columns. The texts are
// valid only during the call.
func (r *record) eachRow(group parquet.RowGroup, columns []*column, emit func() error) error {
	chunks := group.ColumnChunks()
	for _, c := range columns {
		for _, l := range c.leaves {
			l.values, l.rest = parquet.NewColumnChunkValueReader(chunks[l.Index()]), nil
			defer l.values.Close()
		}
	}
	for range group.NumRows() {
		for _, c := range columns {
			if err := c.next(); err != nil {
				return fmt.Errorf("column %q: %w", c.Name(), err)
			}
		}
		if err := emit(); err != nil {
			return err
		}
		r.line++
	}
	return nil
}

// next reads the next row.
func (c *column) next() (err error) {
	if c.json == nil {
		l := c.leaves[0]
		if err := l.fill(); err != nil {
			return err
		}
		*c.to, err = valueText(l.rest[0])
		l.rest = l.rest[1:]
		return err
	}
	c.row = c.row[:0]
	for _, l := range c.leaves {
		values, err := l.nextRow()
		if err != nil {
			return err
		}
		c.row = append(c.row, values)
	}
	value, err := c.json.value(c.row, level{})
	if err != nil {
		return err
	}
	text, err := json.Marshal(value)
	if *c.to = string(text); *c.to == "null" {
		*c.to = ""
	}
	return err
}

// nextRow returns the values of the next row, which are valid until the following call.
func (l *leaf) nextRow() ([]parquet.Value, error) {
	for l.row = l.row[:0]; ; {
		err := l.fill()
		switch more := len(l.row) > 0; {
		case more && (err == io.ErrUnexpectedEOF || err == nil && l.rest[0].RepetitionLevel() == 0):
			return l.row, nil
		case err != nil:
			return nil, err
		}
		l.row, l.rest = append(l.row, l.rest[0].Clone()), l.rest[1:]
	}
}

// fill reads more values from a page if none are left. They share the page's memory.
func (l *leaf) fill() error {
	if len(l.rest) > 0 {
		return nil
	}
	n, err := l.values.ReadValues(l.batch[:])
	switch l.rest = l.batch[:n]; {
	case n > 0:
		return nil
	case err == nil || err == io.EOF:
		return io.ErrUnexpectedEOF
	}
	return err
}
