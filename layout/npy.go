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
func putNPYHeader(dst []byte, descr string, shape ...int) {
	copy(dst, npyMagic)
	binary.LittleEndian.PutUint16(dst[len(npyMagic):], uint16(len(dst)-npyPreamble))
	text := appendAll(dst[:npyPreamble], "{'descr': '", descr, "', 'fortran_order': False, 'shape': (")
	text = appendInts(text, ", ", shape...)
	if len(shape) == 1 {
		text = append(text, ',')
	}
	text = append(text, "), }"...)
	fillSpaces(dst[len(text) : len(dst)-1])
	dst[len(dst)-1] = '\n'
}

// AppendSmall appends the whole .npy file of one of m's small arrays to dst: Labels or IDs, int64
// [N], Sizes, int32 [N,2], or Valid, bool with as many slots as there are Labels. It allocates
// nothing if dst has room for Size(f, ...) bytes.
func AppendSmall(dst []byte, f Form, m Meta) []byte {
	start, values, n, each := len(dst), m.Labels, len(m.Labels), 8
	switch f {
	case Valid:
		each = 1
	case IDs:
		values, n = m.IDs, len(m.IDs)
	case Sizes:
		n = len(m.Sizes)
	}
	dst = grow(dst, smallHeader+each*n)
	header, data := dst[start:start+smallHeader], dst[start+smallHeader:]
	switch f {
	case Valid:
		putNPYHeader(header, "|b1", n)
		clear(data)
		for i := range min(m.Valid, n) {
			data[i] = 1
		}
	case Sizes:
		putNPYHeader(header, "<i4", n, 2)
		putSizes(data, m.Sizes, n)
	default:
		putNPYHeader(header, "<i8", n)
		putInt64s(data, values, n)
	}
	return dst
}

// putInt64s writes n values little-endian to dst, with -1 after the end of v.
func putInt64s(dst []byte, v []int64, n int) {
	for i := range n {
		x := int64(-1)
		if i < len(v) {
			x = v[i]
		}
		binary.LittleEndian.PutUint64(dst[8*i:], uint64(x))
	}
}

// putSizes writes n pairs little-endian to dst, with zeros after the end of v.
func putSizes(dst []byte, v [][2]int32, n int) {
	for i := range n {
		var hw [2]int32
		if i < len(v) {
			hw = v[i]
		}
		binary.LittleEndian.PutUint32(dst[8*i:], uint32(hw[0]))
		binary.LittleEndian.PutUint32(dst[8*i+4:], uint32(hw[1]))
	}
}
