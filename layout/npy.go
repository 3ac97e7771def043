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
	npyAlign    = 64 // to which NumPy pads its own headers

	// NumPy leaves room for the first axis to grow in place to this many digits. Doing the same
	// makes the small arrays identical to what np.save writes.
	npyGrowth = 21
)

// appendNPYDict appends the header's dictionary as NumPy's own writer spells it.
func appendNPYDict(dst []byte, descr string, shape []int) []byte {
	dst = append(dst, "{'descr': '"...)
	dst = append(dst, descr...)
	dst = append(dst, "', 'fortran_order': False, 'shape': ("...)
	for i, n := range shape {
		if i > 0 {
			dst = append(dst, ' ')
		}
		dst = strconv.AppendInt(dst, int64(n), 10)
		if i < len(shape)-1 || len(shape) == 1 {
			dst = append(dst, ',')
		}
	}
	return append(dst, "), }"...)
}

// putNPYHeader fills dst, whose length is that of preamble and header together.
func putNPYHeader(dst []byte, descr string, shape []int) {
	copy(dst, npyMagic)
	binary.LittleEndian.PutUint16(dst[len(npyMagic):], uint16(len(dst)-npyPreamble))
	end := npyPreamble + len(appendNPYDict(dst[npyPreamble:npyPreamble], descr, shape))
	fillSpaces(dst[end : len(dst)-1])
	dst[len(dst)-1] = '\n'
}

// smallHeaderSize is the size of a small array's preamble and header, computed as in NumPy,
// which adds a whole 64 bytes when no padding is needed.
func smallHeaderSize(descr string, shape []int) int {
	var buf [128]byte
	n := len(appendNPYDict(buf[:0], descr, shape))
	n += npyPreamble + 1 + npyGrowth - digits(shape[0])
	return n + npyAlign - n%npyAlign
}

func digits(n int) int {
	d := 1
	for ; n >= 10; n /= 10 {
		d++
	}
	return d
}

// appendSmallHeader appends preamble and header of a small array.
func appendSmallHeader(dst []byte, descr string, shape []int) []byte {
	start, n := len(dst), smallHeaderSize(descr, shape)
	dst = grow(dst, n)
	putNPYHeader(dst[start:], descr, shape)
	return dst
}

const (
	descrInt64 = "<i8"
	descrInt32 = "<i4"
)

// AppendLabels appends a whole .npy file, int64 [len(labels)], to dst; -1 means that a sample
// has no label. It allocates nothing if dst has room for Size(Labels, ...) bytes.
func AppendLabels(dst []byte, labels []int64) []byte { return appendInt64NPY(dst, labels) }

// AppendIDs appends a whole .npy file, int64 [len(ids)], like AppendLabels.
func AppendIDs(dst []byte, ids []int64) []byte { return appendInt64NPY(dst, ids) }

// AppendSizes appends a whole .npy file, int32 [len(sizes),2], like AppendLabels; each size is
// (height, width) of the valid pixels.
func AppendSizes(dst []byte, sizes [][2]int32) []byte {
	shape := [2]int{len(sizes), 2}
	dst = appendSmallHeader(dst, descrInt32, shape[:])
	start := len(dst)
	dst = grow(dst, 8*len(sizes))
	putSizes(dst[start:], sizes, len(sizes))
	return dst
}

func appendInt64NPY(dst []byte, v []int64) []byte {
	shape := [1]int{len(v)}
	dst = appendSmallHeader(dst, descrInt64, shape[:])
	start := len(dst)
	dst = grow(dst, 8*len(v))
	putInt64s(dst[start:], v, len(v))
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
