package annotation

import (
	"encoding/json"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/cespare/xxhash/v2"
	"github.com/go-faster/jx"

	"github.com/batchfs/batchfs/dataset"
	"github.com/batchfs/batchfs/internal/target"
)

// Columns of a manifest, or of Parquet with images. All others are text, or paths of arrays.
const (
	maskColumn   = "mask"
	boxColumn    = "boxes"
	pointsColumn = "keypoints"
	arrayExt     = ".npy" // of the values of any other column

	// objectsColumn is what Hugging Face calls boxes. Where there are boxes, it is text.
	objectsColumn = "objects"
)

// findManifest reads the columns of the manifest that the dataset is, or has, or of the Parquet
// files that hold its images.
func (f *finder) findManifest() (bool, error) {
	if _, err := f.mark(columns, f.Images, ""); err != nil {
		return false, err
	}
	rows, err := f.rows(f.Images)
	if rows == nil || err != nil {
		return false, err
	}
	m := &manifest{finder: f, rows: rows, labels: map[string]int32{}, arrays: map[string]int{}}
	if rows.Packed {
		if err := m.look(); err != nil {
			return false, err
		}
	}
	progress := func(more int64) { f.progress(more, 0) }
	f.progress(0, rows.Bytes())
	if (f.Kinds[target.Boxes] || f.Kinds[target.Keypoints]) && !m.numbered {
		f.progress(0, rows.Bytes()) // they are read twice
		named := func(column string) bool {
			return kindOf(column) == target.Boxes && slices.Contains(rows.Table.Texts, column)
		}
		if err := rows.Each(f.ctx, named, progress, m.name); err != nil {
			return false, err
		}
		m.order()
	}
	f.part(rows.Name)
	wanted := func(column string) bool {
		kind := kindOf(column)
		return f.Kinds[kind] || kind == target.Boxes && f.Kinds[target.Keypoints] ||
			column == objectsColumn && f.Kinds[target.Text] || column == "height" || column == "width"
	}
	return true, rows.Each(f.ctx, wanted, progress, m.row)
}

// kindOf is what a column of Parquet has besides images and masks.
func kindOf(column string) target.Kind {
	switch column {
	case boxColumn, objectsColumn:
		return target.Boxes
	case pointsColumn:
		return target.Keypoints
	}
	return target.Text
}

// manifest is a manifest, or Parquet with images, while it is read.
type manifest struct {
	*finder
	rows     *dataset.Rows
	labels   map[string]int32 // of classes by name
	numbered bool             // Classes are known beforehand
	arrays   map[string]int   // numbers of columns of arrays by name; -1: it is none
	json     jsonReader
	sums     []uint64 // of the values of each image's first row
}

// look takes what Parquet says of its columns. Masks are found when they are opened; see TakeMasks.
func (m *manifest) look() error {
	if err := m.rows.Look(m.ctx); err != nil {
		return err
	}
	m.Layout = "Parquet"
	t := m.rows.Table
	if t == nil { // there are no rows
		return nil
	}
	if m.Has[target.Masks] = t.Mask != ""; m.Has[target.Masks] && m.Kinds[target.Masks] {
		m.Masks = &Masks{Path: m.Images, Field: t.Mask, Ending: "." + t.Mask}
	}
	for _, column := range t.Others {
		if kind := kindOf(column); !m.Kinds[kind] { // others show when they are read
			m.Has[kind] = true
		}
	}
	column := boxColumn
	if !slices.Contains(t.Others, column) {
		column = objectsColumn
	}
	if m.numbered = t.Classes[column] != nil; m.numbered {
		m.Classes = t.Classes[column]
		m.order()
	}
	return nil
}

// given is a value of a row; "": there is none.
func given(r *dataset.Row, column string) string {
	if value := r.Columns[column]; value != `""` {
		return value
	}
	return ""
}

// takeObjects makes objects the boxes of a row, if they are some, and there are no others.
func takeObjects(r *dataset.Row) {
	objects := given(r, objectsColumn)
	if given(r, boxColumn) == "" && (objects == "[]" || strings.Contains(objects, "bbox")) {
		r.Columns[boxColumn] = objects
		delete(r.Columns, objectsColumn)
	}
}

// name takes the names of the classes of a row's boxes.
func (m *manifest) name(r *dataset.Row) error {
	takeObjects(r)
	if boxes := given(r, boxColumn); boxes != "" { // what is wrong with them shows when they are taken
		_ = m.parse(boxColumn, boxes, func() error {
			return m.boxes(func(_ target.Object, class string) {
				if class != "" {
					m.labels[class] = 0
				}
			})
		})
	}
	return nil
}

// order numbers the classes, by name if they are not known beforehand.
func (m *manifest) order() {
	if !m.numbered {
		m.Classes = slices.Sorted(maps.Keys(m.labels))
	}
	for label, name := range m.Classes {
		m.labels[name] = int32(label)
	}
}

// row takes what a row says.
func (m *manifest) row(r *dataset.Row) error {
	image, twice := m.image(stored(r.Path), r.Height, r.Width, false)
	bad := func(rule string) { m.to.Bad(image, r.Place+": "+rule) }
	sum := xxhash.Sum64String(fmt.Sprint(r.Columns)) // which is in the order of their names
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
		if mask := given(r, maskColumn); mask != "" {
			m.maskOf(image, mask, bad)
		}
		delete(r.Columns, maskColumn)
		m.arraysOf(image, r, bad)
	}
	m.fields(image, r, bad)
	return nil
}

// arraysOf takes the paths of arrays. A column has some if its first value is one; then it is no
// text.
func (m *manifest) arraysOf(image int, r *dataset.Row, bad func(rule string)) {
	for _, name := range slices.Sorted(maps.Keys(r.Columns)) {
		value, path := given(r, name), ""
		notPath := json.Unmarshal([]byte(value), &path) != nil || path == ""
		column, known := m.arrays[name]
		if !known && value != "" {
			column = -1
			isArray := strings.EqualFold(filepath.Ext(path), arrayExt)
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
			bad(name + " is no path of a " + arrayExt)
		default:
			m.array(image, column, m.rows.Clean(path))
		}
	}
}

// fields takes the boxes, the keypoints and the text of a row.
func (m *manifest) fields(image int, r *dataset.Row, bad func(rule string)) {
	takeObjects(r)
	if err := m.objects(image, r); err != "" {
		bad(err)
	}
	text := map[string]json.RawMessage{}
	for name, value := range r.Columns {
		if value != "" && name != boxColumn && name != pointsColumn {
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
		m.text(image, object)
	}
}

// maskOf takes the path of a mask.
func (m *manifest) maskOf(image int, mask string, bad func(rule string)) {
	if m.Has[target.Masks] = true; !m.Kinds[target.Masks] {
		return
	}
	m.Masks = &Masks{Path: m.Images, Column: maskColumn}
	var path string
	if err := json.Unmarshal([]byte(mask), &path); err != nil || path == "" {
		bad("mask is no path")
		return
	}
	m.mask(image, m.rows.Clean(path))
}

// objects takes the boxes and the keypoints of a row, of which those of one place belong together.
// Keypoints alone are those of the whole image.
func (m *manifest) objects(image int, r *dataset.Row) (bad string) {
	boxes, points := given(r, boxColumn), given(r, pointsColumn)
	m.Has[target.Boxes] = m.Has[target.Boxes] || boxes != ""
	m.Has[target.Keypoints] = m.Has[target.Keypoints] || points != ""
	if boxes == "" && points == "" || !m.Kinds[target.Boxes] && !m.Kinds[target.Keypoints] {
		return ""
	}
	var objects []target.Object
	if boxes != "" {
		bad = m.parse(boxColumn, boxes, func() error {
			return m.boxes(func(o target.Object, class string) {
				if o.ID < 0 {
					o.ID = int64(len(objects))
				}
				label, known := m.labels[class]
				switch {
				case class != "" && !known:
					m.json.complain("there is no class %q", class)
				case class != "":
					o.Label = label
				case m.numbered && int(o.Label) >= len(m.Classes):
					m.json.complain("the label is %d, but there are %d classes", o.Label, len(m.Classes))
				}
				objects = append(objects, o)
			})
		})
	}
	if points != "" && m.Kinds[target.Keypoints] && bad == "" {
		var all [][]target.Keypoint
		bad = m.parse(pointsColumn, points, func() (err error) { all, err = m.points(); return err })
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
		m.object(image, o)
	}
	return ""
}

// parse reads the list in a column, and returns the rule that it breaks; "": none. It may be a
// text, as in CSV. Boxes may also be an object of lists.
func (m *manifest) parse(column, text string, list func() error) (bad string) {
	var inner string
	if strings.HasPrefix(text, `"`) && json.Unmarshal([]byte(text), &inner) == nil {
		if bad = m.parse(column, strings.TrimSpace(inner), list); bad != "" {
			bad = column + ": " + bad
		}
		return bad
	}
	if column == boxColumn && strings.HasPrefix(text, "{") {
		if text, bad = transposed(text); bad != "" {
			return bad
		}
	}
	if err := m.json.read([]byte(text), list); err != nil {
		return err.Error()
	}
	return m.json.bad
}

// boxes reads a list of boxes: each is x0, y0, x1, y1, and perhaps a label, in a list, or an object
// with these fields: box, or bbox, which is x, y, width and height as in COCO; label, id, visible,
// crowd, ignore, difficult. Labels are numbers, or names.
func (m *manifest) boxes(take func(o target.Object, class string)) error {
	d := &m.json
	return d.array(func(k int) (err error) {
		o, class := target.Object{ID: -1, Box: target.Box{0, 0, -1, -1}}, "" // which is none
		if d.Next() == jx.Object {
			err = d.object(func(key string) error { return d.boxField(&o, &class, key) })
		} else {
			err = d.array(func(i int) error {
				if i == 4 {
					return d.labelOf(&o, &class)
				}
				return d.corner(&o.Box, i)
			})
		}
		if o.Box[2] < o.Box[0] || o.Box[3] < o.Box[1] {
			d.complain("boxes[%d] is not x0, y0, x1, y1", k)
		}
		take(o, class)
		return err
	})
}

// transposed is a list of objects instead of an object of lists, which have to be of one length.
func transposed(lists string) (list, bad string) {
	var all map[string]json.RawMessage
	if err := json.Unmarshal([]byte(lists), &all); err != nil {
		return "", err.Error()
	}
	objects, first := []map[string]json.RawMessage{}, ""
	for _, field := range slices.Sorted(maps.Keys(all)) {
		var values []json.RawMessage
		switch err := json.Unmarshal(all[field], &values); {
		case err != nil && strings.HasSuffix(field, "box"):
			return "", field + " is no list"
		case err != nil || values == nil:
			continue
		}
		if first == "" {
			first, objects = field, make([]map[string]json.RawMessage, len(values))
		}
		if len(values) != len(objects) {
			return "", fmt.Sprintf("there are %d of %s, but %d of %s", len(objects), first, len(values), field)
		}
		for k, value := range values {
			if objects[k] == nil {
				objects[k] = map[string]json.RawMessage{}
			}
			objects[k][field] = value
		}
	}
	text, err := json.Marshal(objects)
	if err != nil {
		return "", err.Error()
	}
	return string(text), ""
}

// boxField reads a field of a box.
func (d *jsonReader) boxField(o *target.Object, class *string, key string) (err error) {
	flag := func(one target.Flags) {
		var on bool
		if on, err = d.flag(key); on {
			o.Flags |= one
		}
	}
	if d.Next() == jx.Null {
		return d.Skip() // a table has all fields in all rows
	}
	switch key {
	case "box":
		err = d.array(func(i int) error { return d.corner(&o.Box, i) })
	case "bbox":
		o.Box, err = d.box(key)
	case "visible":
		o.Visible = &target.Box{}
		err = d.array(func(i int) error { return d.corner(o.Visible, i) })
	case "label", "labels", "category", "categories", "category_id":
		err = d.labelOf(o, class)
	case "id":
		var ok bool
		if o.ID, ok, err = d.integer(); !ok || o.ID < 0 {
			d.complain("an id is no whole number")
		}
	case "crowd", "iscrowd", "is_crowd":
		flag(target.Crowd)
	case "ignore":
		flag(target.Ignore)
	case "difficult":
		flag(target.Difficult)
	default:
		err = d.Skip()
	}
	return err
}

// corner reads number i of a box.
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
func (d *jsonReader) labelOf(o *target.Object, class *string) (err error) {
	if d.Next() == jx.String {
		*class, err = d.Str()
		return err
	}
	n, ok, err := d.integer()
	if !ok || n < 0 || n > maxLabel {
		d.complain("a label is neither a whole number nor a name")
		n = 0
	}
	o.Label = int32(n)
	return err
}

// maxLabel is the largest label that a table has room for.
const maxLabel = 1<<24 - 1

// points reads a list of keypoints for each box: x, y, v, x, y, v, ..., or lists of x, y, v.
func (m *manifest) points() (all [][]target.Keypoint, err error) {
	d := &m.json
	err = d.array(func(int) error {
		var v []float64
		err := d.array(func(int) (err error) {
			if d.Next() == jx.Array {
				v, err = d.coordinates(pointsColumn, v, 3*maxKeypoints)
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
	})
	return all, err
}

// keypoints are those of numbers, x, y and v of each.
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
