package layout

import "math"

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
		return imagesOffset(s) + s.Bytes() + s.bytesAfterImages()
	case Valid:
		return smallHeader + int64(s.N)
	case Labels, IDs, Sizes:
		return smallHeader + 8*int64(s.N)
	case MasksPNG:
		return newMaskSheet(s).png.size()
	case PNG:
		return newSheet(s).png.size()
	case JSON, Text:
		return -1
	}
	a := s.arrayOf(f)
	if f.Large() {
		return Page + a.bytes()
	}
	return smallHeader + a.bytes()
}

// DataOffset is the byte at which the pixels of a tensor form start: 0 without a header, else a
// multiple of Page; for masks and arrays, where those do. It is 0 for forms that hold no tensor.
func DataOffset(f Form, s Spec) int64 {
	_, array := f.Array()
	switch {
	case f == NPY || f == MasksNPY || array:
		return Page
	case f == SafeTensors:
		return imagesOffset(s)
	}
	return 0
}

// Meta is what the small arrays and a safetensors file contain besides the pixels. The slices have
// one entry per slot; missing ones are written as label and id -1 and size 0. The caller keeps
// ownership of the slices.
type Meta struct {
	Labels, IDs []int64
	Sizes       [][2]int32 // (height, width) of the valid pixels
	Valid       int        // valid slots
	Rows        *Rows      // of a Spec with Targets.Boxes
	Text        []byte     // of a Spec with Targets.Text: the lines of all slots
}

// PutHeader writes the first DataOffset(f, s) bytes of a tensor form to dst, which must be at least
// that long, and does not touch the pixels after them. Where a .safetensors file has targets, dst
// is all of it, and what follows the images is written, but neither masks nor elements of arrays.
// It does nothing for forms without a header. It allocates nothing without targets.
func PutHeader(f Form, s Spec, dst []byte, m Meta) {
	switch f {
	case NPY:
		shape := s.Shape()
		putNPYHeader(dst[:Page], s.DType.names().numpy, shape[:]...)
	case MasksNPY:
		putNPYHeader(dst[:Page], s.DType.names().numpy, s.N, s.H, s.W)
	case SafeTensors:
		putSafeTensors(s, dst, m)
	}
	if _, array := f.Array(); array {
		a := s.arrayOf(f)
		putNPYHeader(dst[:Page], a.numpy, a.shape...)
	}
}
