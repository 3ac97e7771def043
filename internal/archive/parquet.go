package archive

import (
	"encoding/json"
	"errors"
	"fmt"
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
	image, path, label *parquet.LeafColumn
	paths              bool // all rows so far have a usable path
	first              int  // position in Samples of the row group's first row
	end                int64
}

// feature is what Hugging Face notes about a column.
type feature struct {
	Type  string   `json:"_type"`
	Names []string `json:"names"`
}

var errRows = errors.New("the numbers of rows contradict each other")

// parquet scans a Parquet file.
func (s *scanner) parquet() error {
	s.Kind, s.Ordered = "parquet", true
	tail, err := s.bytes(s.size-8, 8)
	if err != nil {
		return errors.New("no Parquet file, or it is cut short")
	}
	// The library would allocate whatever length the file claims.
	if length := int64(le32(tail)); string(tail[4:]) == "PARE" {
		return errors.New("it is encrypted; write it without encryption")
	} else if string(tail[4:]) != "PAR1" || length > s.size-12 {
		return errors.New("no Parquet file, or it is cut short")
	}
	t := &table{scanner: s}
	if err := caught(func() (err error) {
		footer := &kept{s.window, 14}
		t.file, err = parquet.OpenFile(footer, s.size, parquet.SkipPageIndex(true), parquet.SkipBloomFilters(true))
		if footer.times = 0; err == nil && t.file.NumRows() != 0 { // columns without rows may have any type
			err = t.columns()
		}
		return err
	}); err != nil {
		return err
	}
	if t.file.NumRows() > s.size { // a run of equal rows takes next to nothing
		return fmt.Errorf("it claims %d rows in %d bytes", t.file.NumRows(), s.size)
	}
	for i := range t.file.Metadata().RowGroups {
		if err := t.group(&t.file.Metadata().RowGroups[i]); err != nil {
			return fmt.Errorf("row group %d: %w", i, err)
		}
	}
	return t.finish()
}

func (t *table) group(g *format.RowGroup) error {
	if t.first = len(t.Samples); g.NumRows < 0 || g.NumRows > t.file.NumRows()-int64(t.first) {
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

func (t *table) addRow(row int, v *value) error {
	if v == nil {
		t.addProblem("", "the row has no image")
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
	n := int64(int32(le32(b)))
	if len(b) == 8 {
		n = int64(le64(b))
	}
	if t.Classes != nil && n >= int64(len(t.Classes)) {
		return fmt.Errorf("row %d: label %d, but there are %d classes", t.first+row, n, len(t.Classes))
	}
	return setNumber(sample, n)
}

func (t *table) finish() error {
	if int64(len(t.Samples)) != t.file.NumRows() {
		return errRows
	}
	t.nameRows(t.paths)
	return nil
}

// features parses what Hugging Face notes about columns, and skips what it does not know.
func features(text string) map[string]feature {
	var note struct {
		Info struct {
			Features map[string]json.RawMessage `json:"features"`
		} `json:"info"`
	}
	if json.Unmarshal([]byte(text), &note) != nil {
		return nil
	}
	found := map[string]feature{}
	for name, raw := range note.Info.Features {
		var f feature
		if json.Unmarshal(raw, &f) == nil {
			found[name] = f
		}
	}
	return found
}

// columns chooses the columns of images, of their names and of labels.
func (t *table) columns() error {
	if text, ok := t.file.Lookup("huggingface"); ok {
		t.features = features(text)
	}
	image, err := t.choose("image", t.Image, "Image", usualImages, func(c *parquet.Column) bool {
		return c.Column("bytes") != nil || c.Leaf() && c.Type().Kind() == parquet.ByteArray && c.Type().LogicalType() == nil
	})
	if err != nil {
		return err
	}
	if image == "" {
		return errors.New("no column holds the bytes of images, or more than one does; name it")
	}
	path := []string{image}
	if t.file.Root().Column(image).Column("bytes") != nil {
		path = append(path, "bytes")
	}
	if t.image, err = t.leaf(path, parquet.ByteArray); err != nil {
		return err
	}
	if t.file.Root().Column(image).Column("path") != nil {
		if t.path, err = t.leaf([]string{image, "path"}, parquet.ByteArray); err != nil {
			return err
		}
		t.paths = true
	}
	label, err := t.choose("label", t.Label, "ClassLabel", usualLabels, (*parquet.Column).Leaf)
	if err == nil && label == "" {
		for _, c := range t.file.Root().Columns() {
			if c.Leaf() && !c.Repeated() && (c.Type().Kind() == parquet.Int32 || c.Type().Kind() == parquet.Int64) {
				t.Numbers = append(t.Numbers, c.Name())
			}
		}
	}
	if err != nil || label == "" {
		return err
	}
	t.Classes = t.features[label].Names
	distinct := slices.Compact(slices.Sorted(slices.Values(t.Classes)))
	if len(distinct) != len(t.Classes) || slices.Contains(distinct, "") {
		return fmt.Errorf("the names of the classes of column %q are empty or not distinct", label)
	}
	t.label, err = t.leaf([]string{label}, parquet.ByteArray, parquet.Int32, parquet.Int64)
	return err
}

// choose finds a column: the one that is asked for, or that Hugging Face calls by that type, or
// that has a usual name, or that is the only one that fits.
func (t *table) choose(what, asked, hfType string, usual []string, fits func(*parquet.Column) bool) (string, error) {
	var typed, fitting []string
	for _, c := range t.file.Root().Columns() {
		if t.features[c.Name()].Type == hfType {
			typed = append(typed, c.Name())
		}
		if fits(c) {
			fitting = append(fitting, c.Name())
		}
	}
	if asked != "" {
		if !slices.Contains(fitting, asked) {
			return "", fmt.Errorf("there is no column %q for the %s; the file has %q", asked, what, fitting)
		}
		return asked, nil
	}
	for _, among := range [][]string{typed, fitting} {
		for _, name := range usual {
			if slices.Contains(among, name) {
				return name, nil
			}
		}
		if len(typed) > 1 {
			return "", fmt.Errorf("more than one column could be the %s: %s; name one", what, strings.Join(typed, ", "))
		}
		if len(typed) == 1 {
			return typed[0], nil
		}
	}
	if hfType == "Image" && len(fitting) == 1 {
		return fitting[0], nil
	}
	return "", nil
}

// leaf returns a column of single values of one of the kinds.
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
