package archive

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"

	"github.com/parquet-go/parquet-go"
)

// Table describes a Parquet file with images, as known without reading them.
type Table struct {
	Names              []string            // of all rows, as [Scan] has them
	Image, Mask, Label string              // columns; "": there is none
	Others             []string            // columns without bytes that may be images
	Classes            map[string][]string // that numbers in a column are those of, as Hugging Face notes them
}

// usualMasks are names of columns that may have the masks of images, as images. Except for the
// first, they often hold something else.
var usualMasks = []string{"mask", "annotation", "segmentation", "label"}

// ReadTable reads the Table of a Parquet file. Errors are those of Scan.
func ReadTable(ctx context.Context, r io.ReaderAt, size int64, o Options) (*Table, error) {
	var has Table
	_, err := scanWith(ctx, r, size, o, func(s *scanner) error {
		t, err := openTable(s)
		if err != nil {
			return err
		}
		s.Samples = make([]Sample, t.file.NumRows())
		t.image, t.label = nil, nil
		if err = t.groups(); err == nil && t.first < len(s.Samples) {
			err = errRows
		}
		t.nameRows(t.paths)
		has = t.chosen
		for _, sample := range s.Samples {
			has.Names = append(has.Names, sample.Name)
		}
		return err
	})
	return &has, err
}

// features parses Hugging Face's notes about columns, and skips unknown ones.
func features(text string) map[string]feature {
	var note struct {
		Info struct {
			Features map[string]any `json:"features"`
		} `json:"info"`
	}
	if json.Unmarshal([]byte(text), &note) != nil {
		return nil
	}
	found := map[string]feature{}
	for name, of := range note.Info.Features {
		f := feature{classes: classesOf(of)}
		if fields, ok := of.(map[string]any); ok {
			f.kind, _ = fields["_type"].(string)
		}
		found[name] = f
	}
	return found
}

// classesOf returns the class names in a note about a column: the column's own, those of a list's
// items, or those of the field that says what objects are.
func classesOf(note any) (names []string) {
	switch n := note.(type) {
	case []any:
		if len(n) == 1 {
			return classesOf(n[0])
		}
	case map[string]any:
		if n["_type"] == "ClassLabel" {
			list, _ := n["names"].([]any)
			for _, name := range list {
				text, _ := name.(string)
				names = append(names, text)
			}
			return names
		}
		for _, field := range []string{"feature", "category", "category_id", "categories", "label", "labels"} {
			if names = classesOf(n[field]); names != nil {
				return names
			}
		}
	}
	return nil
}

// holdsImages says whether a column may hold the bytes of images.
func holdsImages(c *parquet.Column) bool {
	return c.Column("bytes") != nil || c.Leaf() && HoldsBytes(c)
}

// HoldsBytes says whether some column holds bytes other than text, such as images.
func HoldsBytes(c *parquet.Column) bool {
	if c.Leaf() {
		return c.Type().Kind() == parquet.ByteArray && c.Type().LogicalType() == nil
	}
	return slices.ContainsFunc(c.Columns(), HoldsBytes)
}

// columns chooses the columns of images, of their names, of masks and of labels. Where another
// column is asked for, names begin with those of the images, so that both are found together.
func (t *table) columns() error {
	if text, ok := t.file.Lookup("huggingface"); ok {
		t.features = features(text)
	}
	image, err := t.chooseImage()
	if err == nil && image == "" && t.Image == "" {
		err = errors.New("no column holds the bytes of images, or more than one does; name it")
	}
	named := image
	if t.Image != "" {
		image, err = t.choose("image", t.Image, "", nil, holdsImages)
		if named == "" {
			named = image
		}
	}
	if err != nil {
		return err
	}
	path := []string{image}
	if t.file.Root().Column(image).Column("bytes") != nil {
		path = append(path, "bytes")
	}
	if t.image, err = t.leaf(path, parquet.ByteArray); err != nil {
		return err
	}
	if t.file.Root().Column(named).Column("path") != nil {
		// Where no image has a path, the column may be of any type; then names are numbers.
		if path, err := t.leaf([]string{named, "path"}, parquet.ByteArray); err == nil {
			t.path, t.paths = path, true
		}
	}
	t.chosen = Table{Image: named, Mask: t.chooseMask(named), Classes: map[string][]string{}}
	for name, f := range t.features {
		if f.classes != nil {
			t.chosen.Classes[name] = f.classes
		}
	}
	if err = t.chooseLabel(); err != nil {
		err = fmt.Errorf("%w: %w", ErrLabels, err)
	}
	for _, c := range t.file.Root().Columns() {
		if name := c.Name(); name != named && name != t.chosen.Mask && name != t.chosen.Label && !HoldsBytes(c) {
			t.chosen.Others = append(t.chosen.Others, name)
		}
	}
	return err
}

// chooseImage returns the column of images; "" if there is none, or more than one candidate.
func (t *table) chooseImage() (string, error) {
	image, err := t.choose("image", "", "Image", usualImages, func(c *parquet.Column) bool {
		return holdsImages(c) && !slices.Contains(usualMasks, c.Name())
	})
	if err == nil && image == "" {
		image, err = t.choose("image", "", "Image", usualImages, holdsImages)
	}
	return image, err
}

// chooseMask returns the column of the masks for the images in a column; "": none.
func (t *table) chooseMask(image string) string {
	for _, name := range usualMasks {
		c := t.file.Root().Column(name)
		if c != nil && name != image && holdsImages(c) && (name == "mask" || !c.Leaf() || t.beginsWithImage(name)) {
			return name
		}
	}
	return ""
}

// beginsWithImage says whether the first value in a column of bytes is an image.
func (t *table) beginsWithImage(column string) (is bool) {
	leaf, err := t.leaf([]string{column}, parquet.ByteArray)
	found := false
	for i := 0; err == nil && !found && i < len(t.file.Metadata().RowGroups); i++ {
		g := &t.file.Metadata().RowGroups[i]
		if leaf.ColumnIndex >= len(g.Columns) {
			return false
		}
		k, e := t.chunk(leaf, &g.Columns[leaf.ColumnIndex])
		if e != nil {
			return false
		}
		err = k.eachRow(g.NumRows, func(_ int, v *value) error {
			if v == nil {
				return nil
			}
			b, err := v.block.bytes(int64(v.from), min(int64(v.span.size), 16))
			found, is = true, strings.HasPrefix(http.DetectContentType(b), "image/")
			return errors.Join(err, io.EOF) // one value is enough
		})
		k.close()
	}
	return is
}

func (t *table) chooseLabel() error {
	if t.Label == NoLabel && t.file.Root().Column(NoLabel) == nil {
		return nil
	}
	label, err := t.choose("label", t.Label, "ClassLabel", usualLabels, func(c *parquet.Column) bool {
		return c.Leaf() && c.Name() != t.chosen.Mask
	})
	if err == nil && label == "" {
		for _, c := range t.file.Root().Columns() {
			whole := c.Leaf() && !c.Repeated() && (c.Type().Kind() == parquet.Int32 || c.Type().Kind() == parquet.Int64)
			if whole && c.Name() != "height" && c.Name() != "width" { // these are of the images
				t.Numbers = append(t.Numbers, c.Name())
			}
		}
	}
	if err != nil || label == "" {
		return err
	}
	t.chosen.Label, t.Classes = label, t.features[label].classes
	distinct := slices.Compact(slices.Sorted(slices.Values(t.Classes)))
	if len(distinct) != len(t.Classes) || slices.Contains(distinct, "") {
		return fmt.Errorf("the names of the classes of column %q are empty or not distinct", label)
	}
	t.label, err = t.leaf([]string{label}, parquet.ByteArray, parquet.Int32, parquet.Int64, parquet.Float, parquet.Double)
	return err
}

// choose finds a column: the requested one, or one that Hugging Face gives that type, or one with a
// usual name, or the only one that fits.
func (t *table) choose(what, asked, hfType string, usual []string, fits func(*parquet.Column) bool) (string, error) {
	var typed, fitting []string
	for _, c := range t.file.Root().Columns() {
		if fits(c) && t.features[c.Name()].kind == hfType {
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
