package annotation

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/cespare/xxhash/v2"
	"github.com/go-faster/jx"

	"github.com/batchfs/batchfs/internal/dataset"
	"github.com/batchfs/batchfs/internal/target"
)

// findManifest reads the columns of the dataset's manifest, or of the Parquet files with its
// images.
func (f *finder) findManifest() (bool, error) {
	if _, err := f.mark(columns, f.Images, ""); err != nil {
		return false, err
	}
	rows, err := f.rows(f.Images)
	if rows == nil || err != nil {
		return false, err
	}
	m := &manifest{finder: f, rows: rows, arrays: map[string]int{}}
	if rows.Packed {
		if err := m.look(); err != nil {
			return false, err
		}
	}
	f.part(rows.Name)
	f.progress(0, rows.Bytes())
	wanted := func(column string) bool {
		kind := kindOf(column)
		return f.Kinds[kind] || kind == target.Boxes && f.Kinds[target.Keypoints] ||
			column == target.ObjectsColumn && f.Kinds[target.Text] || column == "height" || column == "width"
	}
	return true, rows.Each(f.ctx, wanted, func(more int64) { f.progress(more, 0) }, m.row)
}

// kindOf is the kind of target in a Parquet column other than images and masks.
func kindOf(column string) target.Kind {
	switch column {
	case target.BoxColumn, target.ObjectsColumn:
		return target.Boxes
	case target.PointsColumn:
		return target.Keypoints
	}
	return target.Text
}

// manifest is the state of reading a manifest, or Parquet with images.
type manifest struct {
	*finder
	rows    *dataset.Rows
	numbers map[string]int32 // of classes by name, if known beforehand; nil: unknown
	arrays  map[string]int   // numbers of array columns by name; -1: not an array
	json    jsonReader
	sums    []uint64 // hash of the first row of each image
}

// look takes what Parquet says of its columns. Masks are found when they are opened; see takeMasks.
func (m *manifest) look() error {
	if err := m.rows.Look(m.ctx); err != nil {
		return err
	}
	m.Layout = "Parquet"
	t := m.rows.Table
	if t == nil { // the files have no rows
		return nil
	}
	if m.Has[target.Masks] = t.Mask != ""; m.Has[target.Masks] && m.Kinds[target.Masks] {
		m.Masks = &Masks{Path: m.Images, Field: t.Mask, Ending: "." + t.Mask}
	}
	for _, column := range t.Others {
		if kind := kindOf(column); !m.Kinds[kind] { // other kinds are found while rows are read
			m.Has[kind] = true
		}
	}
	column := target.BoxColumn
	if !slices.Contains(t.Others, column) {
		column = target.ObjectsColumn
	}
	if m.Classes = t.Classes[column]; m.Classes != nil {
		m.numbers = map[string]int32{}
	}
	for number, name := range m.Classes {
		m.numbers[name] = int32(number)
	}
	return nil
}

// given is a value of a row; "": none.
func given(r *dataset.Row, column string) string {
	if value := r.Columns[column]; value != `""` {
		return value
	}
	return ""
}

// takeObjects uses the objects column as boxes, if it has boxes and the row has no others.
func takeObjects(r *dataset.Row) {
	objects := given(r, target.ObjectsColumn)
	if given(r, target.BoxColumn) == "" && (objects == "[]" || strings.Contains(objects, "bbox")) {
		r.Columns[target.BoxColumn] = objects
		delete(r.Columns, target.ObjectsColumn)
	}
}

// row adds the targets of a row.
func (m *manifest) row(r *dataset.Row) error {
	image, twice := m.image(stored(r.Path), r.Height, r.Width, false)
	bad := func(rule string) { m.Builder.Bad(image, r.Place+": "+rule) }
	sum := xxhash.Sum64String(fmt.Sprint(r.Columns)) // fmt prints maps in the order of their keys
	if twice {
		if m.sums[image] != sum {
			bad("an earlier row has the same path, and other values")
		}
		return nil
	}
	m.sums = append(m.sums, sum)
	if r.Bad != "" {
		bad(r.Bad)
	}
	if !m.rows.Packed {
		if mask := given(r, target.MaskColumn); mask != "" {
			m.maskOf(image, mask, bad)
		}
		delete(r.Columns, target.MaskColumn)
		m.arraysOf(image, r, bad)
	}
	m.fields(image, r, bad)
	return nil
}

// arraysOf adds the paths of arrays. A column has arrays, and no text, if its first value is the
// path of one.
func (m *manifest) arraysOf(image int, r *dataset.Row, bad func(rule string)) {
	for _, name := range slices.Sorted(maps.Keys(r.Columns)) {
		value, path := given(r, name), ""
		notPath := json.Unmarshal([]byte(value), &path) != nil || path == ""
		column, known := m.arrays[name]
		if !known && value != "" {
			column = -1
			isArray := target.IsArray(path)
			if m.Has[target.Arrays] = m.Has[target.Arrays] || isArray; isArray && m.Kinds[target.Arrays] {
				if m.Arrays == nil {
					m.Arrays = &Arrays{Path: m.Images}
				}
				column = len(m.Arrays.Columns)
				m.Arrays.Columns = append(m.Arrays.Columns, name)
			}
			m.arrays[name], known = column, true
		}
		if !known || column < 0 {
			continue
		}
		delete(r.Columns, name)
		switch {
		case value == "":
		case notPath:
			bad(name + " is no path of a " + target.ArrayExt)
		default:
			m.Builder.Array(image, column, m.rows.Clean(path))
		}
	}
}

// fields adds the boxes, keypoints and text of a row.
func (m *manifest) fields(image int, r *dataset.Row, bad func(rule string)) {
	takeObjects(r)
	if err := m.objects(image, r); err != "" {
		bad(err)
	}
	text := map[string]json.RawMessage{}
	for name, value := range r.Columns {
		if value != "" && name != target.BoxColumn && name != target.PointsColumn {
			text[name] = json.RawMessage(value)
		}
	}
	if len(text) > 0 {
		m.Has[target.Text] = true
	}
	if len(text) > 0 && m.Kinds[target.Text] {
		object, err := json.Marshal(text)
		if err != nil {
			bad(err.Error())
			return
		}
		m.Builder.Text(image, object)
	}
}

// maskOf adds the path of a mask.
func (m *manifest) maskOf(image int, mask string, bad func(rule string)) {
	if m.Has[target.Masks] = true; !m.Kinds[target.Masks] {
		return
	}
	m.Masks = &Masks{Path: m.Images, Column: target.MaskColumn}
	var path string
	if err := json.Unmarshal([]byte(mask), &path); err != nil || path == "" {
		bad("mask is no path")
		return
	}
	m.Builder.Mask(image, m.rows.Clean(path))
}

// objects adds the boxes and keypoints of a row. Equal positions in the two lists belong together.
// Keypoints without boxes belong to the whole image.
func (m *manifest) objects(image int, r *dataset.Row) (bad string) {
	boxes, points := given(r, target.BoxColumn), given(r, target.PointsColumn)
	m.Has[target.Boxes] = m.Has[target.Boxes] || boxes != ""
	m.Has[target.Keypoints] = m.Has[target.Keypoints] || points != ""
	if boxes == "" && points == "" || !m.Kinds[target.Boxes] && !m.Kinds[target.Keypoints] {
		return ""
	}
	var objects []target.Object
	if boxes != "" {
		objects, bad = m.boxes(boxes)
	}
	if points != "" && m.Kinds[target.Keypoints] && bad == "" {
		var all [][]target.Keypoint
		bad = m.parse(points, target.PointsColumn, func() (err error) { all, err = m.points(); return err })
		for k := range all {
			if boxes == "" {
				objects = append(objects, target.Object{Box: target.Box{0, 0, maxCoordinate, maxCoordinate}, ID: int64(k)})
			}
			if k < len(objects) {
				objects[k].Keypoints = all[k]
			}
		}
		if bad == "" && len(all) != len(objects) {
			bad = fmt.Sprintf("there are %d lists of keypoints for %d boxes", len(all), len(objects))
		}
	}
	if bad != "" {
		return bad
	}
	for _, o := range objects {
		m.Builder.Object(image, o)
	}
	return ""
}

// parse reads the list in a column, and returns the rule that it breaks; "": none. The list may be
// a string, as in CSV.
func (m *manifest) parse(text, column string, list func() error) (bad string) {
	var inner string
	if strings.HasPrefix(text, `"`) && json.Unmarshal([]byte(text), &inner) == nil {
		if bad = m.parse(strings.TrimSpace(inner), column, list); bad != "" {
			bad = column + ": " + bad
		}
		return bad
	}
	if err := m.json.read([]byte(text), list); err != nil {
		return err.Error()
	}
	return m.json.bad
}

// maxBoxes limits the boxes of a row, which may be as long as a page of Parquet.
const maxBoxes = 1 << 18

// boxed is a box that is being read.
type boxed struct {
	target.Object
	class    string // by name; "": by number
	labelled bool   // otherwise the number is 0
	// Ranks of the fields that have said the box, the name of the class and its number.
	boxBy, nameBy, numberBy int
}

// rankedFields are those of which several may say the same. In an object of lists, the last of them
// counts, whatever the order of the keys is.
var rankedFields = strings.Fields("bbox box categories category category_id label labels")

// noBox is one of which nothing is said yet.
var noBox = boxed{Object: target.Object{ID: -1, Box: target.Box{0, 0, -1, -1}}}

// boxes reads a list of boxes: each is a list of x0, y0, x1, y1 and perhaps a label, or an object
// with fields. It also reads an object whose fields are lists of values.
func (m *manifest) boxes(text string) (objects []target.Object, bad string) {
	d := &m.json
	var all []boxed
	bad = m.parse(text, target.BoxColumn, func() error {
		if d.Next() == jx.Object {
			return d.fieldsOfBoxes(&all)
		}
		return d.array(d.most(maxBoxes, func(int) error {
			all = append(all, noBox)
			one := &all[len(all)-1]
			if d.Next() == jx.Object {
				return d.object(func(key string) error { return d.fieldOfBox(one, key, 0) })
			}
			return d.array(func(i int) error {
				if i == 4 {
					return d.labelOf(one, 0)
				}
				return d.corner(&one.Box, i)
			})
		}))
	})
	for k := range all {
		o := &all[k].Object
		if o.ID < 0 {
			o.ID = int64(k)
		}
		if bad == "" && (o.Box[2] < o.Box[0] || o.Box[3] < o.Box[1]) {
			bad = fmt.Sprintf("boxes[%d] is not x0, y0, x1, y1", k)
		}
		if bad == "" && m.numbers != nil && !all[k].labelled {
			bad = fmt.Sprintf("boxes[%d] has no label, but the labels are classes", k)
		}
		label, wrong := m.numberOf(all[k].class, o.Label)
		o.Label, bad = label, cmp.Or(bad, wrong)
		objects = append(objects, *o)
	}
	return objects, bad
}

// numberOf is the label of a class, which has a name, or else a number. Names of boxes that are bad
// are classes, too, so that their repair does not change the labels of others.
func (m *manifest) numberOf(class string, number int32) (label int32, bad string) {
	switch known := false; {
	case class != "" && m.numbers == nil:
		return m.label(class), ""
	case class != "":
		if number, known = m.numbers[class]; !known {
			bad = fmt.Sprintf("there is no class %q", class)
		}
	case m.numbers != nil && int(number) >= len(m.Classes):
		bad = fmt.Sprintf("the label is %d, but there are %d classes", number, len(m.Classes))
	}
	return number, bad
}

// fieldsOfBoxes reads an object of lists, which must have the same length.
func (d *jsonReader) fieldsOfBoxes(all *[]boxed) error {
	first, count := "", 0
	return d.object(func(key string) error {
		if d.Next() != jx.Array {
			if d.Next() != jx.Null && strings.HasSuffix(key, "box") {
				d.complain("%s is no list", key)
			}
			return d.Skip()
		}
		n, rank := 0, slices.Index(rankedFields, key)
		err := d.array(d.most(maxBoxes, func(k int) error {
			if n++; k == len(*all) {
				*all = append(*all, noBox)
			}
			return d.fieldOfBox(&(*all)[k], key, rank)
		}))
		if first == "" {
			first, count = strings.Clone(key), n
		}
		if n != count {
			d.complain("there are %d of %s, but %d of %s", count, first, n, key)
		}
		return err
	})
}

// fieldOfBox reads a field of a box: box, or bbox, which is x, y, width and height as in COCO;
// label, a number or a name; id, visible, crowd, ignore, difficult. What was said by a field of a
// higher rank stays.
func (d *jsonReader) fieldOfBox(one *boxed, key string, rank int) (err error) {
	if d.Next() == jx.Null {
		return d.Skip() // a table has every field in every row
	}
	box := noBox.Box
	switch key {
	case "box", "bbox":
		if key == "box" {
			err = d.array(func(i int) error { return d.corner(&box, i) })
		} else {
			box, err = d.box(key)
		}
		if rank >= one.boxBy {
			one.Box, one.boxBy = box, rank
		}
	case "visible":
		one.Visible = &target.Box{}
		err = d.array(func(i int) error { return d.corner(one.Visible, i) })
	case "label", "labels", "category", "categories", "category_id":
		err = d.labelOf(one, rank)
	case "id":
		var id whole
		if id, err = d.whole(); !id.ok || id.n < 0 {
			d.complain("an id is no whole number")
		}
		one.ID = id.n
	case "crowd", "iscrowd", "is_crowd":
		err = d.flag(key, &one.Flags, target.Crowd)
	case "ignore":
		err = d.flag(key, &one.Flags, target.Ignore)
	case "difficult":
		err = d.flag(key, &one.Flags, target.Difficult)
	default:
		err = d.Skip()
	}
	return err
}

// corner reads coordinate i of a box.
func (d *jsonReader) corner(box *target.Box, i int) error {
	v, ok, err := d.number()
	if !ok || !isCoordinate(v) || i >= 4 {
		d.complain("a box has something that is no coordinate")
		return err
	}
	box[i] = float32(v)
	return err
}

// labelOf reads a number or the name of a class.
func (d *jsonReader) labelOf(one *boxed, rank int) error {
	one.labelled = true
	if d.Next() == jx.String {
		name, err := d.Str()
		if rank >= one.nameBy {
			one.class, one.nameBy = name, rank
		}
		return err
	}
	w, err := d.whole()
	if !w.ok || w.n < 0 || w.n > maxLabel {
		d.complain("a label is neither a whole number nor a name")
		return err
	}
	if rank >= one.numberBy {
		one.Label, one.numberBy = int32(w.n), rank
	}
	return err
}

// maxLabel is the largest label given as a number.
const maxLabel = firstName - 1

// points reads a list of keypoints for each box: x, y, v, x, y, v, ..., or lists of x, y, v.
func (m *manifest) points() (all [][]target.Keypoint, err error) {
	d := &m.json
	err = d.array(d.most(maxBoxes, func(int) error {
		var v []float64
		err := d.array(func(int) (err error) {
			if d.Next() == jx.Array {
				v, err = d.coordinates(target.PointsColumn, v, 3*maxKeypoints)
				return err
			}
			n, ok, err := d.number()
			if !ok || !isCoordinate(n) || len(v) == 3*maxKeypoints {
				d.complain("keypoints has something that is no coordinate")
				return err
			}
			v = append(v, n)
			return err
		})
		all = append(all, d.keypoints(v))
		return err
	}))
	return all, err
}

// keypoints makes keypoints from numbers: x, y and v of each.
func (d *jsonReader) keypoints(v []float64) (points []target.Keypoint) {
	if len(v)%3 != 0 {
		d.complain("it has %d numbers, which are not x, y and visibility of each keypoint", len(v))
		return nil
	}
	for k := 0; k < len(v); k += 3 {
		if v[k+2] != 0 && v[k+2] != 1 && v[k+2] != 2 {
			d.complain("the visibility of a keypoint is %g, and not 0, 1 or 2", v[k+2])
			return nil
		}
		points = append(points, target.Keypoint{X: float32(v[k]), Y: float32(v[k+1]), V: float32(v[k+2])})
	}
	return points
}
