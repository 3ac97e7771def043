package layout

import "encoding/binary"

// A .safetensors file is the header's length (8 bytes), a JSON header, and the tensors back to
// back, without holes. The images come last for two reasons: a tensor after an odd-sized one
// would lose its alignment, and the others shift the images by an amount that depends on N
// alone. The header is padded with spaces, which the format allows, until the images start on a
// page. Everything before them is a multiple of 8 bytes, which aligns the rest.

// smallTensorBytes is the size of labels, ids, sizes and valid together.
func smallTensorBytes(n int) int64 { return 3*8*int64(n) + 8 }

// appendTensorsJSON appends the header, with tensors in the order of their offsets.
func appendTensorsJSON(dst []byte, s Spec) []byte {
	n, shape, at := s.N, s.Shape(), 0
	dst = appendAll(dst, `{"__metadata__":{"layout":"`, s.Order.String(), `"}`)
	dst, at = appendTensor(dst, at, "labels", "I64", 8, n)
	dst, at = appendTensor(dst, at, "ids", "I64", 8, n)
	dst, at = appendTensor(dst, at, "sizes", "I32", 4, n, 2)
	dst, at = appendTensor(dst, at, "valid", "I64", 8, 1)
	dst, _ = appendTensor(dst, at, "images", s.DType.names().safetensors, s.DType.Size(), shape[:]...)
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
	return roundUp(header+smallTensorBytes(s.N), Page)
}

// putSafeTensors writes everything before the images; dst has exactly that size.
func putSafeTensors(s Spec, dst []byte, m Meta) {
	data := int64(len(dst)) - smallTensorBytes(s.N)
	binary.LittleEndian.PutUint64(dst, uint64(data-8))
	end := 8 + len(appendTensorsJSON(dst[8:8], s))
	fillSpaces(dst[end:data])
	dst = dst[data:]
	putInt64s(dst, m.Labels, s.N)
	putInt64s(dst[8*s.N:], m.IDs, s.N)
	putSizes(dst[16*s.N:], m.Sizes, s.N)
	binary.LittleEndian.PutUint64(dst[24*s.N:], uint64(m.Valid))
}
