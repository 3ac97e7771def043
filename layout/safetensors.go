package layout

import (
	"encoding/binary"
	"strconv"
)

// A .safetensors file is the header's length (8 bytes), a JSON header, and the tensors back to
// back, without holes. The images come last for two reasons: a tensor after an odd-sized one
// would lose its alignment, and the others shift the images by an amount that depends on N
// alone. The header is padded with spaces, which the format allows, until the images start on a
// page. Everything before them is a multiple of 8 bytes, which aligns the rest.

// smallTensorBytes is the size of labels, ids, sizes and valid together.
func smallTensorBytes(n int) int64 { return 3*8*int64(n) + 8 }

// appendTensorsJSON appends the header, with tensors in the order of their offsets.
func appendTensorsJSON(dst []byte, s Spec) []byte {
	n, shape := s.N, s.Shape()
	dst = append(dst, `{"__metadata__":{"layout":"`...)
	dst = append(dst, s.Order.String()...)
	dst = append(dst, `"}`...)
	var at int64
	dst, at = appendTensor(dst, "labels", "I64", at, 8, n)
	dst, at = appendTensor(dst, "ids", "I64", at, 8, n)
	dst, at = appendTensor(dst, "sizes", "I32", at, 4, n, 2)
	dst, at = appendTensor(dst, "valid", "I64", at, 8, 1)
	name := "unknown"
	if int(s.DType) < len(dtypes) {
		name = dtypes[s.DType].safetensors
	}
	dst, _ = appendTensor(dst, "images", name, at, s.DType.Size(), shape[:]...)
	return append(dst, '}')
}

// appendTensor appends the entry of a tensor that starts at byte from of the data, and returns
// where it ends.
func appendTensor(dst []byte, name, dtype string, from int64, elem int, shape ...int) ([]byte, int64) {
	dst = append(dst, `,"`...)
	dst = append(dst, name...)
	dst = append(dst, `":{"dtype":"`...)
	dst = append(dst, dtype...)
	dst = append(dst, `","shape":[`...)
	bytes := int64(elem)
	for i, n := range shape {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = strconv.AppendInt(dst, int64(n), 10)
		bytes *= int64(n)
	}
	dst = append(dst, `],"data_offsets":[`...)
	dst = strconv.AppendInt(dst, from, 10)
	dst = append(dst, ',')
	dst = strconv.AppendInt(dst, from+bytes, 10)
	return append(dst, "]}"...), from + bytes
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
	dst = dst[8*s.N:]
	putInt64s(dst, m.IDs, s.N)
	dst = dst[8*s.N:]
	putSizes(dst, m.Sizes, s.N)
	dst = dst[8*s.N:]
	binary.LittleEndian.PutUint64(dst, uint64(int64(m.Valid)))
}
