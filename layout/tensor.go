package layout

import (
	"cmp"
	"encoding/binary"
	"slices"
)

// A tensor is an array of a batch: what a .npy file holds, and a part of a .safetensors file.
type tensor struct {
	form Form
	name string // in a .safetensors file
	ArrayType
	dims int
	few  [4]int // lengths of the dimensions; avoids an allocation for most tensors
	many []int  // the lengths if there are more
}

func newTensor(f Form, name string, t ArrayType, shape ...int) tensor {
	x := tensor{form: f, name: name, ArrayType: t, dims: len(shape)}
	if copy(x.few[:], shape) < len(shape) {
		x.many = slices.Clone(shape)
	}
	return x
}

func (x *tensor) shape() []int {
	if x.many != nil {
		return x.many
	}
	return x.few[:x.dims]
}

func (x *tensor) bytes() int64 {
	n := int64(x.size)
	for _, d := range x.shape() {
		n *= int64(d)
	}
	return n
}

// validCount is the number of valid slots. Only .safetensors files have it as a tensor.
const validCount = NumForms

// tensorOf is the tensor of a form that is a .npy file; it has no bytes if the batch lacks it.
func (s *Spec) tensorOf(f Form) tensor {
	switch f {
	case NPY:
		shape := s.Shape()
		return newTensor(f, "images", s.DType.elements(), shape[:]...)
	case MasksNPY: // as a form of their own, masks are what the Spec describes
		return newTensor(f, "masks", s.DType.elements(), s.N, s.H, s.W)
	case Valid:
		return newTensor(f, "", typeBool, s.N)
	case Labels:
		return newTensor(f, "labels", typeInt64, s.N)
	case IDs:
		return newTensor(f, "ids", typeInt64, s.N)
	case Sizes:
		return newTensor(f, "sizes", typeInt32, s.N, 2)
	case validCount:
		return newTensor(f, "valid", typeInt64, 1)
	}
	for _, x := range s.targets(nil) {
		if x.form == f {
			return x
		}
	}
	return tensor{form: f}
}

// targets appends the tensors of the batch other than images, labels, ids and sizes.
func (s *Spec) targets(list []tensor) []tensor {
	t := &s.Targets
	if *t == (Targets{}) {
		return list
	}
	add := func(f Form, name string, typ ArrayType, shape ...int) {
		if t.Has(f) {
			list = append(list, newTensor(f, name, typ, shape...))
		}
	}
	rows := func(more ...int) []int {
		if t.Max > 0 {
			return append([]int{s.N, t.Max}, more...)
		}
		return append([]int{t.Rows}, more...)
	}
	add(Boxes, "boxes", typeFloat32, rows(4)...)
	add(BoxVisible, "boxes.visible", typeFloat32, rows(4)...)
	add(BoxLabels, "boxes.labels", typeInt64, rows()...)
	add(BoxIDs, "boxes.ids", typeInt64, rows()...)
	add(BoxOffsets, "boxes.offsets", typeInt64, s.N+1)
	add(BoxCounts, "boxes.count", typeInt32, s.N)
	add(Keypoints, "keypoints", typeFloat32, rows(t.Points, 3)...)
	if t.Masks == Int32 {
		add(MasksNPY, "masks", typeInt32, s.N, s.H, s.W)
	}
	add(BoxFlags, "boxes.flags", typeUint8, rows()...)
	if t.Masks == Uint8 {
		add(MasksNPY, "masks", typeUint8, s.N, s.H, s.W)
	}
	add(Text, "text", typeUint8, s.N, t.Line)
	for i, a := range t.further() {
		add(ArrayOffsets(i), a.Name+".offsets", typeInt64, s.N+1)
		add(ArrayForm(i), a.Name, a.Type, a.shape(s.N)...)
	}
	return list
}

// inFile is the sort key of tensors in a .safetensors file. The images begin on a page. Tensors
// whose size is a multiple of 8 are next to them; smaller elements come before, and single bytes at
// the end.
func (x *tensor) inFile() int {
	switch x.form {
	case Labels, IDs, Sizes, validCount:
		return 4
	case NPY:
		return 9
	}
	return [...]int{2: 2, 4: 3, 8: 8, 1: 10}[x.size]
}

// usual is how many tensors most .safetensors files have.
const usual = 5

// tensors appends the tensors of a .safetensors file to an empty list, in the file's order.
func (s *Spec) tensors(list []tensor) []tensor {
	for _, f := range [usual]Form{Labels, IDs, Sizes, validCount, NPY} {
		list = append(list, s.tensorOf(f))
	}
	if list = s.targets(list); len(list) > usual {
		slices.SortStableFunc(list, func(a, b tensor) int { return cmp.Compare(a.inFile(), b.inFile()) })
	}
	return list
}

// put writes the elements of a tensor other than images, masks and arrays.
func (m *Meta) put(dst []byte, x *tensor, s *Spec) {
	switch x.form {
	case Valid:
		clear(dst)
		for i := range min(m.Valid, len(dst)) {
			dst[i] = 1
		}
	case Labels:
		putInt64s(dst, m.Labels)
	case IDs:
		putInt64s(dst, m.IDs)
	case Sizes:
		putSizes(dst, m.Sizes)
	case validCount:
		binary.LittleEndian.PutUint64(dst, uint64(m.Valid))
	case Text:
		copy(dst, m.Text)
	default:
		if x.form.IsArray() {
			putInt64s(dst, s.Targets.further()[int(x.form-FirstArray)/2].Offsets)
		} else if m.Rows != nil {
			m.Rows.put(x.form, dst)
		}
	}
}
