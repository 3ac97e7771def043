package layout

import (
	"cmp"
	"math"
)

// Size is the exact size in bytes of a batch's file in form f, known without decoding anything.
// It is -1 for JSON documents, which are made elsewhere. If the batch cannot exist, a form that
// would hold its pixels has math.MaxInt64 bytes, the largest size that a file can have.
func Size(f Form, s Spec) int64 {
	if f == CUDA {
		return Page
	}
	if s.err != nil && (f.Large() || s.N < 0 || int64(s.N) > maxSlots) && f != JSON {
		return math.MaxInt64
	}
	switch f {
	case NHWCForm, NCHWForm, NPY, MasksNPY:
		return DataOffset(f, s) + s.Bytes()
	case SafeTensors:
		var room [usual]tensor
		list := s.tensors(room[:0])
		all := dataOffset(&s, list)
		for i := range list {
			all += list[i].bytes()
		}
		return all
	case MasksPNG:
		return newMaskSheet(s).png.size()
	case PNG:
		return newSheet(s).png.size()
	case JSON, Text:
		return -1
	}
	x := s.tensorOf(f)
	return cmp.Or(DataOffset(f, s), smallHeader) + x.bytes()
}

// DataOffset is the byte where the pixels of a tensor form, or the elements of masks and arrays,
// start: 0 without a header, else a multiple of Page. It is 0 for other forms.
func DataOffset(f Form, s Spec) int64 {
	_, array := f.Array()
	switch {
	case f == NPY || f == MasksNPY || array:
		return Page
	case f == SafeTensors:
		at, _ := InSafeTensors(NPY, s)
		return at
	}
	return 0
}

// Meta is what the small arrays and a safetensors file contain besides the pixels. The slices have
// one entry per slot; missing entries are written as label and id -1 and size 0. The caller keeps
// ownership of the slices.
type Meta struct {
	Labels, IDs []int64
	Sizes       [][2]int32 // (height, width) of the valid pixels
	Valid       int        // valid slots
	Rows        *Rows      // of a Spec with Targets.Boxes
	Text        []byte     // of a Spec with Targets.Text: the lines of all slots
}

// PutHeader writes the first DataOffset(f, s) bytes of a tensor form to dst, which must be at least
// that long, and does not touch the pixels after them. If a .safetensors file has targets, dst is
// the whole file, and PutHeader also writes what follows the images, except for masks and elements
// of arrays. It does nothing for forms without a header. It allocates nothing without targets.
func PutHeader(f Form, s Spec, dst []byte, m Meta) {
	if f == SafeTensors {
		putSafeTensors(&s, dst, &m)
	} else if DataOffset(f, s) > 0 {
		x := s.tensorOf(f)
		putNPYHeader(dst[:Page], &x)
	}
}
