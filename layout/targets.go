package layout

import (
	"encoding/binary"
	"math"
)

// Targets say what a batch has besides images and labels. The zero value: nothing more.
type Targets struct {
	Boxes   bool // boxes with their labels, ids and flags
	Visible bool // also the visible part of each box
	Max     int  // rows of boxes for each slot, used or not; 0: as many as there are, with offsets
	Rows    int  // of boxes of all slots
	Points  int  // keypoints for each row; 0: none
	Text    bool
	Line    int // bytes of a line of text

	Masks DType // of a mask's elements, if HasMasks
	// HasMasks says that masks are also in the form with all tensors.
	HasMasks bool

	// Arrays are in forms of their own. nil: there are none. It is a pointer so that Targets can be
	// compared.
	Arrays *[]Array
}

// further returns the arrays.
func (t *Targets) further() []Array {
	if t.Arrays == nil {
		return nil
	}
	return *t.Arrays
}

// Names returns the names of the arrays.
func (t *Targets) Names() (names Names) {
	for _, a := range t.further() {
		names = append(names, a.Name)
	}
	return names
}

// Has reports whether batches have a form.
func (t *Targets) Has(f Form) bool {
	switch f {
	case Boxes, BoxLabels, BoxIDs, BoxFlags:
		return t.Boxes
	case BoxVisible:
		return t.Boxes && t.Visible
	case BoxOffsets:
		return t.Boxes && t.Max == 0
	case BoxCounts:
		return t.Boxes && t.Max > 0
	case Keypoints:
		return t.Points > 0
	case Text:
		return t.Text
	case MasksNPY, MasksPNG:
		return t.HasMasks
	}
	if i := int(f-FirstArray) / 2; f.IsArray() {
		list := t.further()
		return i < len(list) && (f == ArrayForm(i) || list[i].Ragged)
	}
	return true
}

// Forms lists the forms of targets that batches have.
func (t *Targets) Forms() (list []Form) {
	for f := MasksNPY; f < NumForms; f++ {
		if t.Has(f) {
			list = append(list, f)
		}
	}
	return list
}

// IsTarget reports whether a mount has the form only for some datasets.
func (f Form) IsTarget() bool { return f >= MasksNPY && f < NumForms }

// Rows are the objects of a batch, slot by slot. All slices but the first two have one element per
// row. The caller owns them.
type Rows struct {
	Offsets   []int64 // where the rows of each slot begin, and the last slot's end
	Counts    []int32 // used rows of each slot, if Targets.Max fixes their number
	Boxes     [][4]float32
	Visible   [][4]float32 // nil: unknown
	Labels    []int64      // -1: the row is not used
	IDs       []int64
	Flags     []uint8
	Keypoints [][3]float32 // Targets.Points per row
}

// put writes an array's elements.
func (r *Rows) put(f Form, dst []byte) {
	le := binary.LittleEndian
	floats := func(at int, values []float32) {
		for i, v := range values {
			le.PutUint32(dst[4*(at+i):], math.Float32bits(v))
		}
	}
	integers := func(values []int64) {
		for i, v := range values {
			le.PutUint64(dst[8*i:], uint64(v))
		}
	}
	switch f {
	case Boxes, BoxVisible:
		values := r.Boxes
		if f == BoxVisible {
			values = r.Visible
		}
		for i := range values {
			floats(4*i, values[i][:])
		}
	case Keypoints:
		for i := range r.Keypoints {
			floats(3*i, r.Keypoints[i][:])
		}
	case BoxLabels:
		integers(r.Labels)
	case BoxIDs:
		integers(r.IDs)
	case BoxOffsets:
		integers(r.Offsets)
	case BoxCounts:
		for i, v := range r.Counts {
			le.PutUint32(dst[4*i:], uint32(v))
		}
	case BoxFlags:
		copy(dst, r.Flags)
	}
}
