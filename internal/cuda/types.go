package cuda

// A Driver is NVIDIA's driver, opened and initialized.
type Driver struct {
	Version int // the latest CUDA that it supports: 12040 for 12.4
}

// A Device is a GPU, or the part of one (MIG) that this process was given.
type Device struct {
	Ordinal int    // among those that CUDA_VISIBLE_DEVICES lets this process see
	UUID    string // as nvidia-smi -L prints it: GPU-... or MIG-...
	Name    string
	Memory  int64  // bytes, used or not
	Compute [2]int // compute capability: {9, 0}
	MIG     bool   // part of a GPU; other processes cannot open its memory
}

// A Pointer is an address in a device's memory.
type Pointer uint64

// The size of exported memory must be a multiple of granularity, in bytes. The driver cuts smaller
// allocations from a shared block, and a process that opened one would see its neighbours.
const granularity = 2 << 20

// An IPCHandle names exported memory for other processes that share the PID namespace. It covers a
// whole allocation.
type IPCHandle [64]byte

// A JPEG is an image for a [JPEGDecoder].
type JPEG struct {
	Data    []byte
	To      Pointer // where its pixels go, interleaved and as they are stored
	Pitch   int     // bytes from one row to the next
	Rows    int     // as in its header
	Refused bool    // nvJPEG does not decode it; set by Decode
}
