package layout

import (
	"encoding/binary"
	"strconv"
)

// NumPy format 1.0: magic, version, the header's length as uint16, and the header, a Python
// dictionary padded with spaces and terminated by a newline.
const (
	npyMagic    = "\x93NUMPY\x01\x00"
	npyPreamble = len(npyMagic) + 2

	// NumPy pads its headers to 64 bytes and leaves room for the first axis to grow in place to
	// 21 digits. For arrays like ours that makes 128 bytes, whatever their length.
	smallHeader = 128
)

// appendAll appends strings.
func appendAll(dst []byte, all ...string) []byte {
	for _, s := range all {
		dst = append(dst, s...)
	}
	return dst
}

// appendInts appends decimal numbers.
func appendInts(dst []byte, separator string, all ...int) []byte {
	for i, n := range all {
		if i > 0 {
			dst = append(dst, separator...)
		}
		dst = strconv.AppendInt(dst, int64(n), 10)
	}
	return dst
}

// putNPYHeader fills dst with preamble and header, spelled like NumPy's own.
func putNPYHeader(dst []byte, x *tensor) {
	copy(dst, npyMagic)
	binary.LittleEndian.PutUint16(dst[len(npyMagic):], uint16(len(dst)-npyPreamble))
	text := appendAll(dst[:npyPreamble], "{'descr': '", x.numpy, "', 'fortran_order': False, 'shape': (")
	text = appendInts(text, ", ", x.shape()...)
	if x.dims == 1 {
		text = append(text, ',')
	}
	text = append(text, "), }"...)
	fillSpaces(dst[len(text) : len(dst)-1])
	dst[len(dst)-1] = '\n'
}

// AppendNPY appends the whole .npy file of a form that needs no pixels: labels, ids, sizes, valid
// slots, the objects of a batch, or offsets of an array. It allocates nothing for the first four if
// dst has room for Size(f, s) bytes.
func AppendNPY(dst []byte, f Form, s Spec, m Meta) []byte {
	x, start := s.tensorOf(f), len(dst)
	dst = grow(dst, smallHeader+int(x.bytes()))
	putNPYHeader(dst[start:start+smallHeader], &x)
	m.put(dst[start+smallHeader:], &x, &s)
	return dst
}

// putInt64s fills dst with values, followed by -1.
func putInt64s(dst []byte, v []int64) {
	for i := range len(dst) / 8 {
		x := int64(-1)
		if i < len(v) {
			x = v[i]
		}
		binary.LittleEndian.PutUint64(dst[8*i:], uint64(x))
	}
}

// putSizes fills dst with pairs, followed by zeros.
func putSizes(dst []byte, v [][2]int32) {
	for i := range len(dst) / 8 {
		var hw [2]int32
		if i < len(v) {
			hw = v[i]
		}
		binary.LittleEndian.PutUint32(dst[8*i:], uint32(hw[0]))
		binary.LittleEndian.PutUint32(dst[8*i+4:], uint32(hw[1]))
	}
}
