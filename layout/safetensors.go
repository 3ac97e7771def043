package layout

import "encoding/binary"

// A .safetensors file is the header's length (8 bytes), a JSON header, and the tensors back to
// back, without holes, each at a multiple of its elements' size. The header is padded with spaces,
// which the format allows, until the images start on a page. Before them are targets of two and of
// four bytes an element, and then what has a multiple of 8 bytes, which aligns all of these:
// labels, ids, sizes, valid, and targets of eight bytes an element. After the images are targets of
// single bytes.

// metadataKey is what no tensor may be called there.
const metadataKey = "__metadata__"

// smallTensorBytes is the size of labels, ids, sizes and valid together.
func smallTensorBytes(n int) int64 { return 3*8*int64(n) + 8 }

// with are the targets with elements of a size.
func (s Spec) with(elem int) (list []array, bytes int64) {
	for _, a := range s.arrays() {
		if a.elem == elem {
			list, bytes = append(list, a), bytes+a.bytes()
		}
	}
	return list, bytes
}

// before is the size of all that is before the images.
func (s Spec) before() int64 {
	_, two := s.with(2)
	_, four := s.with(4)
	_, eight := s.with(8)
	return two + four + smallTensorBytes(s.N) + eight
}

// eachTarget calls f for each target, with its place in a .safetensors file.
func (s Spec) eachTarget(f func(a *array, at int64)) {
	images := imagesOffset(s)
	begin := images - s.before()
	_, two := s.with(2)
	_, eight := s.with(8)
	// by size of an element
	next := [9]int64{2: begin, 4: begin + two, 8: images - eight, 1: images + s.Bytes()}
	list := s.arrays()
	for i := range list {
		f(&list[i], next[list[i].elem])
		next[list[i].elem] += list[i].bytes()
	}
}

func (s Spec) bytesAfterImages() int64 {
	_, n := s.with(1)
	return n
}

// MaskBytes is the size of the masks there.
func MaskBytes(s Spec) int64 {
	a := s.arrayOf(MasksNPY)
	return a.bytes()
}

// MasksOffset is where the masks are in a .safetensors file that has some.
func MasksOffset(s Spec) int64 { return s.offset(MasksNPY) }

// ArrayBytes is the size of the elements of array i, there and in a form of their own, where they
// begin at DataOffset.
func ArrayBytes(s Spec, i int) int64 {
	a := s.arrayOf(ArrayForm(i))
	return a.bytes()
}

// ArrayOffset is where the elements of array i are in a .safetensors file.
func ArrayOffset(s Spec, i int) int64 { return s.offset(ArrayForm(i)) }

func (s Spec) offset(f Form) (offset int64) {
	s.eachTarget(func(a *array, at int64) {
		if a.form == f {
			offset = at
		}
	})
	return offset
}

// appendTensorsJSON appends the header, with tensors in the order of their offsets.
func appendTensorsJSON(dst []byte, s Spec) []byte {
	n, shape, at := s.N, s.Shape(), 0
	dst = appendAll(dst, `{"`, metadataKey, `":{"layout":"`, s.Order.String(), `"}`)
	targets := func(elem int) {
		list, _ := s.with(elem)
		for _, a := range list {
			dst, at = appendTensor(dst, at, a.name, a.tens, a.elem, a.shape...)
		}
	}
	targets(2)
	targets(4)
	dst, at = appendTensor(dst, at, "labels", "I64", 8, n)
	dst, at = appendTensor(dst, at, "ids", "I64", 8, n)
	dst, at = appendTensor(dst, at, "sizes", "I32", 4, n, 2)
	dst, at = appendTensor(dst, at, "valid", "I64", 8, 1)
	targets(8)
	dst, at = appendTensor(dst, at, "images", s.DType.names().safetensors, s.DType.Size(), shape[:]...)
	targets(1)
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
	return roundUp(header+s.before(), Page)
}

// putSafeTensors writes everything but images, masks and the elements of arrays.
func putSafeTensors(s Spec, dst []byte, m Meta) {
	data := imagesOffset(s) - s.before()
	binary.LittleEndian.PutUint64(dst, uint64(data-8))
	end := 8 + len(appendTensorsJSON(dst[8:8], s))
	fillSpaces(dst[end:data])
	s.eachTarget(func(a *array, at int64) {
		_, elements := a.form.Array()
		switch to := dst[at : at+a.bytes()]; {
		case elements:
		case a.form.IsArray():
			putInt64s(to, s.Targets.further()[int(a.form-FirstArray)/2].Offsets, s.N+1)
		case a.form == Text:
			copy(to, m.Text)
		case a.form != MasksNPY && m.Rows != nil:
			m.Rows.put(a.form, to)
		}
	})
	_, two := s.with(2)
	_, four := s.with(4)
	dst = dst[data+two+four:]
	putInt64s(dst, m.Labels, s.N)
	putInt64s(dst[8*s.N:], m.IDs, s.N)
	putSizes(dst[16*s.N:], m.Sizes, s.N)
	binary.LittleEndian.PutUint64(dst[24*s.N:], uint64(m.Valid))
}
