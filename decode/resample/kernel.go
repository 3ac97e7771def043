package resample

import "sync"

// A Kernel is an implementation of the arithmetic. All produce the same bytes, so there is no
// reason to choose any but the fastest, except for tests and measurements.
type Kernel uint8

// Fastest is the fastest kernel that this build has and this processor supports.
const Fastest Kernel = 0

// The kernels, in order of increasing speed. All but the first are in C.
const (
	kernelGo Kernel = 1 + iota
	kernelPortable
	kernelSSSE3
	kernelAVX2
	kernelAVX512
)

// Kernels returns those that can be used here, the fastest last.
func Kernels() []Kernel { return available() }

var available = sync.OnceValue(func() []Kernel {
	all := []Kernel{kernelGo}
	for k := kernelPortable; k <= kernelAVX512; k++ {
		if nativeRuns(k) {
			all = append(all, k)
		}
	}
	return all
})

// String names the kernel, or that which Fastest stands for.
func (k Kernel) String() string {
	return [...]string{kernelGo: "go", kernelPortable: "portable", kernelSSSE3: "ssse3", kernelAVX2: "avx2", kernelAVX512: "avx512"}[k.chosen()]
}

func (k Kernel) chosen() Kernel {
	if k == Fastest {
		all := available()
		return all[len(all)-1]
	}
	return k
}
