package archive

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/format"
)

// table is a Parquet file with images, each in the bytes of one row.
type table struct {
	*scanner
	file               *parquet.File
	features           map[string]feature // by column
	chosen             Table
	image, path, label *parquet.LeafColumn
	paths              bool // all rows so far have a usable path
	first              int  // position of the row group's first row in Samples
	end                int64
}

// feature is Hugging Face's note about a column.
type feature struct {
	kind    string
	classes []string // class names, if the column or its parts hold labels
}

var errRows = errors.New("the numbers of rows contradict each other")

// parquet scans a Parquet file.
func (s *scanner) parquet() error {
	s.Kind, s.Ordered = "parquet", true
	t, err := openTable(s)
	if err == nil {
		err = t.groups()
	}
	if err == nil && int64(len(t.Samples)) != t.file.NumRows() {
		err = errRows
	}
	if err != nil {
		return err
	}
	t.nameRows(t.paths)
	if t.Image != "" {
		for i := range t.Samples {
			t.Samples[i].Name += "." + t.Image
		}
		t.Keep(func(i int) bool { return t.Problems[i] != rowWithout })
	}
	return nil
}

// openTable opens a Parquet file, and chooses its columns.
func openTable(s *scanner) (*table, error) {
	if err := CheckFooter(&kept{s.window, 4}, s.size); err != nil {
		return nil, err
	}
	t := &table{scanner: s}
	if err := caught(func() (err error) {
		footer := &kept{s.window, 14}
		t.file, err = parquet.OpenFile(footer, s.size, parquet.SkipPageIndex(true), parquet.SkipBloomFilters(true))
		if footer.times = 0; err == nil && t.file.NumRows() != 0 { // without rows, columns may have any type
			err = t.columns()
		}
		return err
	}); err != nil {
		return nil, err
	}
	if t.file.NumRows() < 0 {
		return nil, errRows
	}
	if t.file.NumRows() > s.size { // a run of equal rows takes almost no space
		return nil, fmt.Errorf("it claims %d rows in %d bytes", t.file.NumRows(), s.size)
	}
	return t, nil
}

// groups reads the columns of all rows.
func (t *table) groups() error {
	for i := range t.file.Metadata().RowGroups {
		g := &t.file.Metadata().RowGroups[i]
		if err := t.group(g); err != nil {
			return fmt.Errorf("row group %d: %w", i, err)
		}
		t.first += int(g.NumRows)
	}
	return nil
}

func (t *table) group(g *format.RowGroup) error {
	if g.NumRows < 0 || g.NumRows > t.file.NumRows()-int64(t.first) {
		return errRows
	}
	for _, c := range []struct {
		leaf *parquet.LeafColumn
		row  func(row int, v *value) error
	}{{t.image, t.addRow}, {t.path, t.setPath}, {t.label, t.setLabel}} {
		if c.leaf == nil {
			continue
		}
		if c.leaf.ColumnIndex >= len(g.Columns) {
			return errors.New("columns are missing")
		}
		k, err := t.chunk(c.leaf, &g.Columns[c.leaf.ColumnIndex])
		if err == nil {
			err = k.eachRow(g.NumRows, c.row)
			k.close()
		}
		if err != nil {
			return fmt.Errorf("column %q: %w", strings.Join(c.leaf.Path, "."), err)
		}
	}
	return nil
}

const rowWithout = "the row has no image"

func (t *table) addRow(row int, v *value) error {
	if v == nil {
		t.addProblem("", rowWithout)
		return nil
	}
	t.add("", v.place())
	return nil
}

func (t *table) setPath(row int, v *value) error {
	if v == nil || !t.paths || v.span.size > maxName {
		t.paths = false
		return nil
	}
	b, err := v.bytes(maxName)
	if err != nil {
		return err
	}
	name, err := clean(string(b))
	t.Samples[t.first+row].Name, t.paths = name, err == nil
	return nil
}

func (t *table) setLabel(row int, v *value) error {
	if v == nil {
		return nil
	}
	sample := &t.Samples[t.first+row]
	b, err := v.bytes(maxClass)
	switch {
	case err != nil:
		return err
	case t.label.Node.Type().Kind() == parquet.ByteArray:
		return t.setClass(sample, string(b))
	}
	n, given, err := number(t.label.Node.Type().Kind(), b)
	switch {
	case err == nil && !given:
		return nil
	case err == nil && t.Classes != nil && n >= int64(len(t.Classes)):
		err = fmt.Errorf("label %d, but there are %d classes", n, len(t.Classes))
	case err == nil:
		err = setNumber(sample, n)
	}
	if err != nil {
		return fmt.Errorf("row %d: %w: %w", t.first+row, ErrLabels, err)
	}
	return nil
}

// number reads the value of a label. Programs that know missing values of floating-point numbers
// only, such as pandas, write whole numbers as such: a NaN is no label.
func number(kind parquet.Kind, b []byte) (n int64, given bool, err error) {
	var f float64
	switch kind {
	case parquet.Int32:
		return int64(int32(le32(b))), true, nil
	case parquet.Int64:
		return int64(le64(b)), true, nil
	case parquet.Float:
		f = float64(math.Float32frombits(le32(b)))
	default:
		f = math.Float64frombits(le64(b))
	}
	switch {
	case math.IsNaN(f):
		return 0, false, nil
	case f != math.Trunc(f) || math.Abs(f) > math.MaxInt32:
		return 0, false, fmt.Errorf("label %v is not a whole number from 0 to %d (or -1: none)", f, math.MaxInt32)
	}
	return int64(f), true, nil
}

// leaf returns a column of single values of one of the given kinds.
func (t *table) leaf(path []string, kinds ...parquet.Kind) (*parquet.LeafColumn, error) {
	leaf, ok := t.file.Schema().Lookup(path...)
	name := strings.Join(path, ".")
	if !ok || leaf.MaxRepetitionLevel > 0 {
		return nil, fmt.Errorf("column %q is a list or another nested type", name)
	}
	if !slices.Contains(kinds, leaf.Node.Type().Kind()) {
		return nil, fmt.Errorf("column %q is %s, which is of no use here", name, leaf.Node.Type())
	}
	return &leaf, nil
}
