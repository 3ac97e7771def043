package gpu

import "unsafe"

// These are the structs of kernels/batch.h, which describes them.

type sample struct {
	pix                        uint64
	dy, dx, dc                 int64
	slot                       uint64
	atY, weightsY              uint64
	atX, weightsX              uint64
	height, width              int32
	rows, columns              int32
	tapsY, tapsX               int32
	shiftY, shiftX             int32
	decoded, flip, copies, pad int32 //nolint:unused // the kernels have it, too
}

type encoded struct{ packed, work uint64 }

type batch struct {
	staging, work, slots uint64
	samples, encoded     uint64
	elements             uint64
	verdicts             uint64 //nolint:unused // the kernels write there
	count, jpegs         int32
	slotHeight           int32
	slotWidth            int32
	channels, size       int32
	planar, tile         int32
	fill, pad            int32 //nolint:unused // the kernels have it, too
}

const (
	sampleBytes  = int(unsafe.Sizeof(sample{}))
	encodedBytes = int(unsafe.Sizeof(encoded{}))
	batchBytes   = int(unsafe.Sizeof(batch{}))
)

// put writes values into a buffer. at must be a multiple of their alignment.
func put[T any](buffer []byte, at int, values ...T) { copy(view[T](buffer, at, len(values)), values) }

// view returns n values in a buffer.
func view[T any](buffer []byte, at, n int) []T {
	var zero T
	b := buffer[at : at+n*int(unsafe.Sizeof(zero))]
	return unsafe.Slice((*T)(unsafe.Pointer(unsafe.SliceData(b))), n)
}

func flag(b bool) int32 {
	if b {
		return 1
	}
	return 0
}

// alignment is the alignment of everything in the buffers: the size of a GPU's memory transactions.
const alignment = 128
