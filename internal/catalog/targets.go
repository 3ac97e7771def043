package catalog

import (
	"bytes"
	"cmp"
	"fmt"
	"sync"

	"github.com/batchfs/batchfs/internal/dataset"
	"github.com/batchfs/batchfs/internal/fault"
	"github.com/batchfs/batchfs/internal/pixels"
	"github.com/batchfs/batchfs/internal/target"
	"github.com/batchfs/batchfs/layout"
	"github.com/batchfs/batchfs/shard"
)

// TargetOptions are what samples have besides images, labels and masks, and how it is shown. The
// table has the dataset's rows, and must outlive the catalog.
type TargetOptions struct {
	Table     *target.Table
	Rules     target.Rules
	Boxes     bool
	Keypoints bool // of the same objects
	Text      bool
	Classes   []string // of boxes, by label; nil: without names

	catalog *Catalog
	longest int // bytes of the longest text of a sample
	planned *planned
}

// planned remembers the rows of recently requested batches: a reader opens several files of each
// batch, and their sizes depend on the rows, too.
type planned struct {
	mu   sync.Mutex
	next int
	last [4]struct {
		key  Key
		rows *layout.Rows
	}
}

// ErrAnnotation means that a sample's annotations do not fit its image.
var ErrAnnotation = fault.New(fault.File, "bad annotation")

// settings are what the bytes of targets depend on.
func (o *TargetOptions) settings() map[string]any {
	r := o.Rules
	return map[string]any{
		"boxes": o.Boxes, "keypoints": o.Keypoints, "text": o.Text, "classes": len(o.Classes), "digest": o.Table.Digest(),
		"geometry":   2, // changes with the rounding of coordinates
		"box_format": r.Format.String(), "clip": !r.NoClip, "min_box_area": r.MinArea, "min_visibility": r.MinVisibility, "max_boxes": r.Max,
	}
}

// prepared returns the options for a catalog that already has its dataset and plan. o may be nil.
func (o *TargetOptions) prepared(c *Catalog) (*TargetOptions, error) {
	if o == nil {
		return nil, nil
	}
	own := *o
	own.catalog, own.planned = c, &planned{}
	for i := 0; o.Text && i < c.Dataset.Len(); i++ {
		own.longest = max(own.longest, len(o.Table.Text(i)))
	}
	return &own, o.Rules.Validate()
}

// Extent says which targets batches have, without the number of rows of boxes.
func (o *Options) Extent() (t layout.Targets) {
	if o.Masks != nil {
		t.HasMasks, t.Masks = true, o.Masks.dtype()
	}
	if o := o.Targets; o != nil {
		t.Boxes, t.Text, t.Line = o.Boxes || o.Keypoints, o.Text, o.line()
		t.Visible, t.Max = o.Table.HasVisible(), o.Rules.Max
		if o.Keypoints {
			t.Points = o.Table.Keypoints
		}
	}
	t.Arrays = o.arraysOf(nil)
	return t
}

// SpecIn is the shape of a batch in form f, given the shape s of its images.
func (o *Options) SpecIn(s layout.Spec, k Key, f layout.Form) layout.Spec {
	s = o.Masks.Spec(s, f)
	if f != layout.SafeTensors && !f.IsTarget() {
		return s
	}
	t := o.Extent()
	if f.IsArray() { // its size is independent of the images
		s, _ = layout.NewSpec(s.N, 0, 0, 0, layout.Uint8, layout.NHWC)
		t = layout.Targets{Arrays: t.Arrays}
	}
	if t.Boxes {
		t.Rows = o.Targets.rowsOf(k)
	}
	if t.Arrays != nil && (f.IsArray() || f == layout.SafeTensors) {
		t.Arrays = o.arraysOf(&k)
	}
	return s.WithTargets(t)
}

// rowsOf is how many rows of boxes a batch has: the plan's number, even if samples are bad.
func (o *TargetOptions) rowsOf(k Key) int {
	plan := o.catalog.Plan
	if o.Rules.Max > 0 {
		n, _ := plan.Size(k.Shard, k.Epoch, k.Batch)
		return n * o.Rules.Max
	}
	return len(o.plannedRows(k).Labels)
}

// plannedRows are the rows of a batch without bad files. They must not be changed.
func (o *TargetOptions) plannedRows(k Key) *layout.Rows {
	k.Part = Images
	p := o.planned
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, l := range p.last {
		if l.rows != nil && l.key == k {
			return l.rows
		}
	}
	slots, _ := o.catalog.Slots(k)
	l := &p.last[p.next]
	p.next = (p.next + 1) % len(p.last)
	l.key, l.rows = k, o.makeRows(slots, func(i int) (int64, bool) { return slots[i].ID, true })
	return l.rows
}

// eachShown calls f for each object of a sample that is visible in an epoch, with its box there.
func (o *TargetOptions) eachShown(epoch int, id int64, f func(target.Object, target.Box, *target.View)) {
	c, row := o.catalog, int(id)
	h, w := c.SizeOf(id)
	if h == 0 || o.Table.Count(row) == 0 || c.Options.Condemned[id] != "" {
		return
	}
	v, ok := viewOf(c.Dataset, o.Table, row, c.Options.Decoding.IgnoreOrientation)
	if !ok {
		return
	}
	v.Transform = c.Options.Transform.Choose(epoch, id, h, w)
	for _, object := range o.Table.Objects(row) {
		if shown, ok := o.Rules.Show(object.Box, &v); ok {
			f(object, shown, &v)
		}
	}
}

// viewOf finds out which pixels of a row's image its annotations refer to; false: they fit no such
// image.
func viewOf(ds *dataset.Dataset, t *target.Table, row int, ignored bool) (v target.View, ok bool) {
	h, w := ds.Size(row, true)
	orientation := ds.Orientation(row)
	height, width, oriented := t.Size(row)
	uprightH, uprightW := ds.Size(row, false)
	if height == 0 || width == 0 {
		if height, width = h, w; oriented {
			height, width = uprightH, uprightW
		}
	}
	v = target.View{Height: height, Width: width}
	if oriented && height == uprightH && width == uprightW {
		if v.Orientation = 1; ignored {
			v.Orientation = pixels.TurnedBack(orientation)
		}
		return v, true
	}
	v.Orientation, ok = pixels.MaskOrientation(height, width, h, w, orientation, ignored)
	return v, ok
}

// Condemned says which samples of a dataset have annotations that are bad, or cannot belong to
// their images, and why.
func Condemned(ds *dataset.Dataset, t *target.Table) map[int64]string {
	bad := map[int64]string{}
	for row := range ds.Len() {
		why := t.Bad(row)
		if h, w := ds.Size(row, true); why == "" && h > 0 {
			if _, ok := viewOf(ds, t, row, false); !ok {
				height, width, _ := t.Size(row)
				why = fmt.Sprintf("its annotations are of %dx%d pixels, and the image has %dx%d", height, width, h, w)
			}
		}
		if why != "" {
			bad[int64(row)] = why
		}
	}
	return bad
}

// RowsOf returns the objects of a described batch. A slot with a bad sample keeps the rows that the
// plan gives it, but all of them are unused: sizes do not depend on the content of files. If every
// slot has the same number of rows, a replaced slot has the rows of its replacement. An error wraps
// ErrAnnotation: if bad samples make a batch fail, no batch with a bad sample opens, so its key
// describes every batch that does. The rows must not be changed.
func (o *TargetOptions) RowsOf(d Description) (*layout.Rows, error) {
	slots, _ := o.catalog.Slots(d.Key)
	if err := cmp.Or(o.catalog.ShapeKnown(slots, layout.Boxes), refused(o.catalog, slots)); err != nil {
		return nil, err
	}
	if o.catalog.Options.OnError == Fail {
		return o.plannedRows(d.Key), nil
	}
	return o.makeRows(slots, func(i int) (int64, bool) {
		shown := &d.Samples[i]
		if o.Rules.Max > 0 && !o.zeroed(shown) {
			return shown.ID, true
		}
		return slots[i].ID, shown.ID == slots[i].ID && !o.zeroed(shown)
	}), nil
}

// refused returns the error of a batch with a bad annotation, if bad samples make batches fail.
func refused(c *Catalog, slots []shard.Slot) error {
	for _, s := range slots {
		if why := c.Options.Condemned[s.ID]; why != "" && c.Options.OnError == Fail {
			return fmt.Errorf("%s: %w: %s", c.Dataset.Path(int(s.ID)), ErrAnnotation, why)
		}
	}
	return nil
}

// zeroed reports whether a slot shows the fill value, including repetitions of such a slot.
func (o *TargetOptions) zeroed(s *Sample) bool {
	return s.Status == StatusZeroed || o.catalog.Options.OnError == Zero && s.Height == 0
}

// Frames are the boxes for the contact sheet of a described batch. o may be nil.
func (o *TargetOptions) Frames(d Description) (list []layout.Frame, err error) {
	if o == nil || !o.Boxes && !o.Keypoints {
		return nil, nil
	}
	r, err := o.RowsOf(d)
	for slot := 0; err == nil && slot+1 < len(r.Offsets); slot++ {
		for i := r.Offsets[slot]; i < r.Offsets[slot+1]; i++ {
			if r.Labels[i] >= 0 {
				list = append(list, layout.Frame{Slot: slot, Label: r.Labels[i], Corner: o.Rules.Format.Corners(r.Boxes[i])})
			}
		}
	}
	return list, err
}

// makeRows makes the rows of slots; slot i shows the sample that of(i) returns. Rows of an unused
// slot are unused.
func (o *TargetOptions) makeRows(slots []shard.Slot, of func(i int) (id int64, used bool)) *layout.Rows {
	t := o.catalog.Options.Extent()
	r, most := &layout.Rows{Offsets: make([]int64, 1, len(slots)+1), Counts: make([]int32, 0, len(slots))}, 0
	for _, s := range slots {
		most += max(t.Max, o.Table.Count(int(s.ID)))
	}
	r.Boxes, r.Labels = make([][4]float32, 0, most), make([]int64, 0, most)
	r.IDs, r.Flags = make([]int64, 0, most), make([]uint8, 0, most)
	for i, s := range slots {
		n := len(r.Labels)
		id, used := of(i)
		o.eachShown(s.Epoch, id, func(object target.Object, box target.Box, v *target.View) {
			if t.Max == 0 || len(r.Labels) < n+t.Max {
				o.appendRow(r, &t, object, box, v, used)
			}
		})
		count := len(r.Labels) - n
		if !used {
			count = 0
		}
		for t.Max > 0 && len(r.Labels) < n+t.Max {
			o.appendRow(r, &t, target.Object{}, target.Box{}, nil, false)
		}
		r.Offsets, r.Counts = append(r.Offsets, int64(len(r.Labels))), append(r.Counts, int32(count))
	}
	return r
}

// appendRow appends an object as it is shown, or an unused row.
func (o *TargetOptions) appendRow(r *layout.Rows, t *layout.Targets, object target.Object, box target.Box, v *target.View, used bool) {
	if !used {
		object, box = target.Object{Label: -1}, target.Box{}
	}
	visible := box
	if object.Visible != nil {
		visible = o.Rules.Place(*object.Visible, v)
	}
	r.Boxes, r.Labels, r.IDs, r.Flags = append(r.Boxes, box), append(r.Labels, int64(object.Label)), append(r.IDs, object.ID), append(r.Flags, uint8(object.Flags))
	if t.Visible {
		r.Visible = append(r.Visible, visible)
	}
	for k := range t.Points {
		var p target.Keypoint
		if k < len(object.Keypoints) {
			p = v.Point(object.Keypoints[k])
		}
		r.Keypoints = append(r.Keypoints, [3]float32{p.X, p.Y, p.V})
	}
}

// line is the length of every line of text, with its end: that of the longest line.
func (o *TargetOptions) line() int { return max(o.longest, len("{}")) + 1 }

// TextOf returns the lines of text of a described batch, one per slot, padded with spaces to the
// same length. Errors are as in RowsOf.
func (o *TargetOptions) TextOf(d Description) ([]byte, error) {
	slots, _ := o.catalog.Slots(d.Key)
	if err := refused(o.catalog, slots); err != nil {
		return nil, err
	}
	out := bytes.Repeat([]byte{' '}, len(d.Samples)*o.line())
	for i := range d.Samples {
		s, line := &d.Samples[i], out[i*o.line():][:o.line()]
		text := o.Table.Text(int(s.ID))
		if text == nil || o.zeroed(s) {
			text = []byte("{}")
		}
		copy(line, text)
		line[len(line)-1] = '\n'
	}
	return out, nil
}
