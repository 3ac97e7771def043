package resample

import (
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
)

// The kernels, in order of increasing speed. All but the first are in C.
const (
	kernelGo = iota
	kernelPortable
	kernelSSSE3
	kernelAVX2
	kernelAVX512
	numKernels
)

var kernelNames = [numKernels]string{"go", "portable", "ssse3", "avx2", "avx512"}

// forced is one more than the kernel that UseKernel set; 0 means the best.
var forced atomic.Int32

var best = sync.OnceValue(func() int {
	k := kernelAVX512
	for !runs(k) {
		k--
	}
	return k
})

func runs(k int) bool { return k == kernelGo || nativeRuns(k) }

func kernel() int {
	if k := forced.Load(); k > 0 {
		return int(k) - 1
	}
	return best()
}

// Kernels names the kernels that this build has and this processor supports, fastest last. They
// all produce the same bytes.
func Kernels() []string {
	var names []string
	for k, name := range kernelNames {
		if runs(k) {
			names = append(names, name)
		}
	}
	return names
}

// Kernel names the one in use: the fastest, unless UseKernel chose another.
func Kernel() string { return kernelNames[kernel()] }

// UseKernel makes every Resize from now on use the named one of Kernels, or the fastest if name
// is empty. It is for tests and measurements.
func UseKernel(name string) error {
	if name == "" {
		forced.Store(0)
		return nil
	}
	k := slices.Index(kernelNames[:], name)
	if k < 0 || !runs(k) {
		return optionError("kernel", fmt.Sprintf("one of %v", Kernels()), fmt.Sprintf("%q", name))
	}
	forced.Store(int32(k) + 1)
	return nil
}
