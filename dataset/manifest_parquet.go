package dataset

import (
	"cmp"
	"fmt"
	"io"
	"math"
	"strconv"

	"github.com/parquet-go/parquet-go"

	"github.com/batchfs/batchfs/internal/archive"
)

// readParquet reads a manifest with one row per sample.
func readParquet(f *io.SectionReader, rec *record, emit func() error) (err error) {
	defer caught(&err)
	file, err := openParquet(f, f.Size())
	if err != nil {
		return err
	}
	columns, targets, err := manifestColumns(file, rec)
	if err != nil {
		return err
	}
	rec.line, rec.unit = 1, "row"
	return eachRow(file, columns, func(row []parquet.Value) (err error) {
		for k, value := range row {
			if *targets[k], err = valueText(value); err != nil {
				return fmt.Errorf("column %q: %w", columns[k].name, err)
			}
		}
		if err := emit(); err != nil {
			return err
		}
		rec.line++
		return nil
	})
}

// manifestColumns returns the columns that a manifest has, and the fields of rec for their
// values.
func manifestColumns(file *parquet.File, rec *record) (columns []*column, targets []*string, err error) {
	path := "path"
	if file.Root().Column(path) == nil && file.Root().Column("file_name") != nil {
		path = "file_name"
	}
	wanted := []struct{ name, kind string }{
		{cmp.Or(rec.paths, path), "text"}, {rec.column, "text or numbers"}, {"height", "numbers"}, {"width", "numbers"}, {"format", "text"},
	}
	if rec.paths != "" {
		wanted = wanted[:1]
	}
	for _, want := range wanted {
		c, err := findColumn(file, want.name)
		switch {
		case err == errNested:
			return nil, nil, fmt.Errorf("column %q must be %s, but is %w", want.name, want.kind, err)
		case err != nil:
			return nil, nil, err
		case c == nil && want.name == wanted[0].name:
			return nil, nil, errNoPath
		case c == nil:
			continue
		case want.kind == "text" && c.kind() != parquet.ByteArray:
			return nil, nil, fmt.Errorf("column %q must be text, but is %s", want.name, c.kind())
		case want.name == rec.column && c.kind() == parquet.ByteArray:
			rec.kind = labelName
		case want.name == rec.column:
			rec.kind = labelNumber
		}
		columns, targets = append(columns, c), append(targets, rec.field(want.name))
	}
	return columns, targets, nil
}

// holdsImages says whether a Parquet file holds images, rather than the names of their files. A
// damaged file counts as a manifest, which will be refused.
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

// valueText formats a value as CSV would hold it; null, and NaN, which tables of numbers use for
// a missing value, are empty. Text shares the page's memory, which the library reuses, so a
// caller that keeps it must copy it.
func valueText(v parquet.Value) (string, error) {
	f := math.NaN()
	switch v.Kind() {
	case parquet.ByteArray:
		return text(v), nil
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
