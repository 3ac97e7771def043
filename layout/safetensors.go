package layout

import "encoding/binary"

// A .safetensors file is the header's length (8 bytes), a JSON header, and the tensors back to
// back, without holes. The images come last for two reasons: a tensor after an odd-sized one
// would lose its alignment, and the others shift the images by an amount that depends on N
// alone. The header is padded with spaces, which the format allows, until the images start on a
// page. Everything before them is a multiple of 8 bytes, which aligns the rest.
//
// Targets of eight and four bytes an element come before the images, too; where those of four are an odd
// number, one more, "padding", follows them. Those of one byte come after the images.

// smallTensorBytes is the size of labels, ids, sizes and valid together.
func smallTensorBytes(n int) int64 { return 3*8*int64(n) + 8 }

// before are the targets before the images.
func (s Spec) before() (list []array, bytes int64) {
	for _, a := range s.arrays() {
		if a.elem > 1 {
			list, bytes = append(list, a), bytes+a.bytes()
		}
	}
	if bytes%8 != 0 {
		pad := array{NumForms, "padding", "<i4", "I32", 4, []int{1}}
		list, bytes = append(list, pad), bytes+pad.bytes()
	}
	return list, bytes
}

// after are those after them.
func (s Spec) after() (list []array, bytes int64) {
	for _, a := range s.arrays() {
		if a.elem == 1 {
			list, bytes = append(list, a), bytes+a.bytes()
		}
	}
	return list, bytes
}

func (s Spec) bytesAfterImages() int64 {
	_, n := s.after()
	return n
}

// MaskBytes is the size of the masks there.
func MaskBytes(s Spec) int64 {
	a := s.arrayOf(MasksNPY)
	return a.bytes()
}

// MasksOffset is where the masks are in a .safetensors file that has some.
func MasksOffset(s Spec) int64 {
	list, bytes := s.before()
	for at := imagesOffset(s) - bytes; len(list) > 0; list = list[1:] {
		if list[0].form == MasksNPY {
			return at
		}
		at += list[0].bytes()
	}
	list, _ = s.after()
	at := imagesOffset(s) + s.Bytes()
	for ; len(list) > 0 && list[0].form != MasksNPY; list = list[1:] {
		at += list[0].bytes()
	}
	return at
}

// appendTensorsJSON appends the header, with tensors in the order of their offsets.
func appendTensorsJSON(dst []byte, s Spec) []byte {
	n, shape, at := s.N, s.Shape(), 0
	dst = appendAll(dst, `{"__metadata__":{"layout":"`, s.Order.String(), `"}`)
	dst, at = appendTensor(dst, at, "labels", "I64", 8, n)
	dst, at = appendTensor(dst, at, "ids", "I64", 8, n)
	dst, at = appendTensor(dst, at, "sizes", "I32", 4, n, 2)
	dst, at = appendTensor(dst, at, "valid", "I64", 8, 1)
	arrays := func(list []array, _ int64) {
		for _, a := range list {
			dst, at = appendTensor(dst, at, a.name, a.tens, a.elem, a.shape...)
		}
	}
	arrays(s.before())
	dst, at = appendTensor(dst, at, "images", s.DType.names().safetensors, s.DType.Size(), shape[:]...)
	arrays(s.after())
	return append(dst, '}')
}

// appendTensor appends the entry of a tensor that starts at byte from of the data, and returns
// where it ends.
func appendTensor(dst []byte, from int, name, dtype string, elem int, shape ...int) (all []byte, end int) {
	bytes := elem
	for _, n := range shape {
		bytes *= n
	}
	dst = appendAll(dst, `,"`, name, `":{"dtype":"`, dtype, `","shape":[`)
	dst = append(appendInts(dst, ",", shape...), `],"data_offsets":[`...)
	return append(appendInts(dst, ",", from, from+bytes), "]}"...), from + bytes
}

// imagesOffset is where the images start in the file.
func imagesOffset(s Spec) int64 {
	var buf [1024]byte
	header := int64(8 + len(appendTensorsJSON(buf[:0], s)))
	_, more := s.before()
	return roundUp(header+smallTensorBytes(s.N)+more, Page)
}

// putSafeTensors writes everything but images and masks.
func putSafeTensors(s Spec, dst []byte, m Meta) {
	start := imagesOffset(s)
	before, bytes := s.before()
	at := start - bytes
	put := func(list []array) {
		for _, a := range list {
			if to := dst[at : at+a.bytes()]; a.form == NumForms {
				clear(to)
			} else if a.form != MasksNPY && m.Rows != nil {
				m.Rows.put(a.form, to)
			}
			at += a.bytes()
		}
	}
	put(before)
	if after, bytes := s.after(); bytes > 0 {
		at = start + s.Bytes()
		put(after)
	}
	data := start - bytes - smallTensorBytes(s.N)
	binary.LittleEndian.PutUint64(dst, uint64(data-8))
	end := 8 + len(appendTensorsJSON(dst[8:8], s))
	fillSpaces(dst[end:data])
	dst = dst[data:]
	putInt64s(dst, m.Labels, s.N)
	putInt64s(dst[8*s.N:], m.IDs, s.N)
	putSizes(dst[16*s.N:], m.Sizes, s.N)
	binary.LittleEndian.PutUint64(dst[24*s.N:], uint64(m.Valid))
}
