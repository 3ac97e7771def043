package layout

import "math"

// Size is the exact size in bytes of a batch's file in form f, known without
// decoding anything. JSON documents are made elsewhere: their size is -1 here. Where
// there can be no such batch, a form that would hold its pixels has math.MaxInt64
// bytes, the most that a file can show.
func Size(f Form, s Spec) int64 {
	if s.err != nil && (f.Large() || s.N < 0 || int64(s.N) > maxSlots) && f != JSON {
		return math.MaxInt64
	}
	switch f {
	case NHWCForm, NCHWForm, NPY, SafeTensors:
		return DataOffset(f, s) + s.Bytes()
	case Labels, IDs:
		shape := [1]int{s.N}
		return int64(smallHeaderSize(descrInt64, shape[:])) + 8*int64(s.N)
	case Sizes:
		shape := [2]int{s.N, 2}
		return int64(smallHeaderSize(descrInt32, shape[:])) + 8*int64(s.N)
	case PNG:
		return SheetSize(s)
	}
	return -1
}

// DataOffset is the byte at which the pixels of a tensor form start: 0 where there
// is no header, else a multiple of Page. It is 0 for forms that hold no tensor.
func DataOffset(f Form, s Spec) int64 {
	switch f {
	case NPY:
		return Page
	case SafeTensors:
		return imagesOffset(s)
	}
	return 0
}

// Meta is what a safetensors file says beside the pixels. The slices have one entry
// a slot; missing ones are written as label and id -1 and size 0. The slices stay
// the caller's.
type Meta struct {
	Labels, IDs []int64
	Sizes       [][2]int32 // (height, width) of the valid pixels
	Valid       int        // valid slots
}

// PutHeader writes the first DataOffset(f, s) bytes of a tensor form to dst, which
// must be at least that long, and leaves the pixels behind them alone. Forms
// without a header are left alone altogether. It allocates nothing.
func PutHeader(f Form, s Spec, dst []byte, m Meta) {
	switch f {
	case NPY:
		descr := "unknown"
		if int(s.DType) < len(dtypes) {
			descr = dtypes[s.DType].numpy
		}
		shape := s.Shape()
		putNPYHeader(dst[:Page], descr, shape[:])
	case SafeTensors:
		putSafeTensors(s, dst[:imagesOffset(s)], m)
	}
}
