package dataset

import (
	"cmp"
	"fmt"
	"io"
	"math"
	"strconv"
	"unsafe"

	"github.com/parquet-go/parquet-go"

	"github.com/batchfs/batchfs/internal/archive"
)

// readParquet reads a file with one row per sample.
func readParquet(f *io.SectionReader, rec *record, emit func() error) (err error) {
	defer caught(&err)
	file, err := openParquet(f, f.Size())
	if err != nil {
		return err
	}
	columns, err := rec.columnsOf(file)
	if err == nil {
		err = checkChunks(file, columns)
	}
	if err != nil {
		return err
	}
	rec.line, rec.unit, rec.rows = 1, "row", int(file.NumRows())
	for _, group := range file.RowGroups() {
		if err := rec.eachRow(group, columns, emit); err != nil {
			return err
		}
	}
	return nil
}

// columnsOf returns the columns of a file that have a field in the record.
func (r *record) columnsOf(file *parquet.File) (columns []*column, err error) {
	root := file.Root()
	path := cmp.Or(r.paths, "path")
	if r.paths == "" && root.Column(path) == nil {
		path = "file_name"
	}
	if !r.inside && root.Column(path) == nil {
		return nil, errNoPath
	}
	kinds := map[string]string{path: "text", "format": "text", r.column: "text or numbers", "height": "numbers", "width": "numbers"}
	for _, c := range root.Columns() {
		name := c.Name()
		to, kind := r.field(name), kinds[name]
		if to == nil && r.whole != nil && c.Leaf() && !c.Repeated() && (c.Type().Kind() == parquet.Int32 || c.Type().Kind() == parquet.Int64) {
			r.whole[name] = true
		}
		second := name == "file_name" && name != path && !r.inside
		if to == nil || second || r.wanted != nil && !r.wanted(name) {
			continue
		}
		one := &column{Column: c, to: to, leaves: leavesOf(c)}
		switch {
		case to == r.others[name]:
			if one.json, err = newNested(c); err != nil {
				return nil, err
			}
		case !c.Leaf() || c.Repeated() || kind == "text" && c.Type().Kind() != parquet.ByteArray:
			return nil, fmt.Errorf("column %q must be %s", name, kind)
		case to == &r.label && c.Type().Kind() == parquet.ByteArray:
			r.kind = labelName
		case to == &r.label:
			r.kind = labelNumber
		}
		columns = append(columns, one)
	}
	return columns, nil
}

// holdsImages says whether a Parquet file holds images rather than the names of image files. A
// damaged file counts as a manifest, which is refused later.
func holdsImages(r io.ReaderAt, size int64) (images bool) {
	var err error
	defer caught(&err)
	file, err := openParquet(r, size)
	if err != nil {
		return false
	}
	root := file.Root()
	return root.Column("path") == nil && root.Column("file_name") == nil && archive.HoldsBytes(root)
}

// valueText formats a value as CSV would. Null is empty, and so is NaN, which tables of numbers use
// for a missing value. The text shares the page's memory, which the library reuses, so a caller
// that keeps the text must copy it.
func valueText(v parquet.Value) (string, error) {
	f := math.NaN()
	switch v.Kind() {
	case parquet.ByteArray:
		b := v.ByteArray()
		return unsafe.String(unsafe.SliceData(b), len(b)), nil
	case parquet.Int32:
		return strconv.FormatInt(int64(v.Int32()), 10), nil
	case parquet.Int64:
		return strconv.FormatInt(v.Int64(), 10), nil
	case parquet.Float:
		f = float64(v.Float())
	case parquet.Double:
		f = v.Double()
	default:
		if !v.IsNull() {
			return "", fmt.Errorf("neither text nor a number: %s", v.Kind())
		}
	}
	if math.IsNaN(f) {
		return "", nil
	}
	return strconv.FormatFloat(f, 'f', -1, 64), nil
}
