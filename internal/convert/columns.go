package convert

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path"
	"slices"
	"strings"

	"github.com/batchfs/batchfs/internal/dataset"
	"github.com/batchfs/batchfs/internal/fault"
	"github.com/batchfs/batchfs/internal/target"
)

const labelColumn = "label"

// drawn are the columns about the pixels of the stored image. They fit a file with other pixels no
// more.
var drawn = []string{target.MaskColumn, target.BoxColumn, target.PointsColumn, target.ObjectsColumn}

// A column is one of the source's manifest, or of its Parquet files, that the result's manifest has
// as well.
type column struct {
	name   string
	isText bool // all values are strings
	isFile bool // they are paths of files, which the result has, too
}

// A table is what the result's manifest says of samples besides their paths.
type table struct {
	ds     *dataset.Dataset
	names  *names
	tree   *tree
	report *Report
	open   func(ctx context.Context) (*dataset.Rows, error) // nil: labels are all there is

	named   bool // labels are names of classes, not numbers
	carried []column
	sizes   bool   // heights and widths, too: they say in which pixels coordinates are
	sum     string // of all carried values in the source; "": there are none
}

// has says whether one of some columns is carried.
func (t *table) has(names ...string) bool {
	return slices.ContainsFunc(t.carried, func(c column) bool { return slices.Contains(names, c.name) })
}

// survey finds out which columns the result's manifest gets, if raw images are resized or not.
func (t *table) survey(ctx context.Context, resized bool) error {
	if t.open == nil || t.names.manifest == "" {
		return nil
	}
	all, sum, sizes := map[string]*column{}, sha256.New(), false
	rows, err := t.eachRow(ctx, func(_ int, rows *dataset.Rows, r *dataset.Row) error {
		fmt.Fprintf(sum, "%q %d %d %q\n", r.Path, r.Height, r.Width, r.Columns) // maps in the order of their keys
		sizes = sizes || r.Height > 0 || r.Width > 0
		for name, value := range r.Columns {
			if value == "" {
				continue
			}
			text, isText := textOf(value)
			if all[name] == nil {
				isArray := target.IsArray(text)
				all[name] = &column{name, true, !rows.Packed && (name == target.MaskColumn || isArray)}
			}
			all[name].isText = all[name].isText && isText
			if all[name].isFile && isText {
				if err := rows.Allows(text); err != nil {
					return fmt.Errorf("%s: %s %q: %w", r.Place, name, text, err)
				}
			}
		}
		return nil
	})
	if rows == nil || err != nil {
		return err
	}
	leave := func(why string, is func(column) bool) {
		var names []string
		for _, name := range slices.Sorted(maps.Keys(all)) {
			if is(*all[name]) {
				names = append(names, name)
				delete(all, name)
			}
		}
		if names != nil {
			t.report.LeftOut = append(t.report.LeftOut, LeftOut{names, why})
		}
	}
	isDrawn := func(k column) bool { return slices.Contains(drawn, k.name) }
	leave("the labels are from another column", func(k column) bool { return k.name == labelColumn })
	leave("the files that they name are in a store", func(k column) bool { return k.isFile && t.ds.Remote })
	if resized {
		leave("raw images have another size", isDrawn)
	}
	if rows.Packed && rows.Table != nil && rows.Table.Mask != "" {
		t.report.LeftOut = append(t.report.LeftOut, LeftOut{[]string{rows.Table.Mask}, "the masks are in the files of the images"})
	}
	for _, name := range slices.Sorted(maps.Keys(all)) {
		t.carried = append(t.carried, *all[name])
		t.report.Carried = append(t.report.Carried, name)
	}
	if t.carried != nil {
		t.sum, t.sizes = hex.EncodeToString(sum.Sum(nil)), sizes && t.has(drawn...)
	}
	return nil
}

// eachRow calls take for the row of each sample, in order. Without such rows it returns nil, nil.
func (t *table) eachRow(ctx context.Context, take func(i int, rows *dataset.Rows, r *dataset.Row) error) (rows *dataset.Rows, err error) {
	rows, err = t.open(ctx)
	if rows == nil || err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	rows.InOrder = true
	if rows.Packed {
		if err := rows.Look(ctx); err != nil {
			return rows, err
		}
	}
	i, every := 0, func(string) bool { return true }
	err = rows.Each(ctx, every, nil, func(r *dataset.Row) error {
		if i == t.ds.Len() || r.Path != t.ds.Path(i) {
			return fmt.Errorf("%s: %w", r.Place, ErrSource)
		}
		i++
		return take(i-1, rows, r)
	})
	if err == nil && i < t.ds.Len() {
		err = fmt.Errorf("%s: %w: it has %d rows for %d samples", rows.Name, ErrSource, i, t.ds.Len())
	}
	return rows, err
}

// textOf returns the text in a JSON string; isText is false for other values.
func textOf(value string) (text string, isText bool) {
	isText = strings.HasPrefix(value, `"`) && json.Unmarshal([]byte(value), &text) == nil
	return text, isText
}

// isTurned says whether an upright copy of sample i would not fit what columns say of the stored
// pixels.
func (t *table) isTurned(i int) bool { return t.ds.Orientation(i) > 1 && t.has(drawn...) }

// values are a row's values in the carried columns, as JSON; "": none. The files that they name
// become files of the result.
func (t *table) values(rows *dataset.Rows, r *dataset.Row) (values []string, err error) {
	for _, k := range t.carried {
		value := r.Columns[k.name]
		if text, isText := textOf(value); k.isFile && isText && text != "" {
			clean := rows.Clean(text)
			name := t.names.placed(clean)
			if err := t.bring(name, t.names.sourceOf(clean)); err != nil {
				return nil, err
			}
			quoted, _ := json.Marshal(name) // a string always encodes
			value = string(quoted)
		}
		values = append(values, value)
	}
	return values, nil
}

// bring makes a file of the source, other than a sample, a file of the result, unless it is there.
// What is missing in the source, or cannot be read, is missing in the result.
func (t *table) bring(name, source string) error {
	if first := t.names.reserved(name); first != "" {
		return fmt.Errorf("%s: %w: %s is reserved", name, ErrName, first)
	}
	is, err := os.Stat(source)
	if err != nil && fault.Of(err) == fault.File {
		return nil
	}
	if err != nil {
		return err
	}
	if there, err := t.tree.root.Stat(name); err == nil {
		if identityOf(there) != identityOf(is) {
			return fmt.Errorf("%s: %w: a sample has that name", source, ErrName)
		}
		return nil
	}
	if err := t.tree.root.MkdirAll(path.Dir(name), 0o755); err != nil {
		return err
	}
	temp := t.tree.temporary(t.ds.Len() + 1)
	if _, err = t.tree.keep(temp, source, &t.report.Plan); fault.Of(err) == fault.File {
		return nil
	}
	if err != nil {
		return err
	}
	t.report.ColumnFiles++
	return t.tree.place(temp, name)
}
