package resample

// A Kernel is an implementation of the arithmetic. All produce the same bytes, so there is no
// reason to choose any but the fastest, except for tests and measurements.
type Kernel uint8

// Fastest is the fastest kernel that this build has and this processor supports.
const Fastest Kernel = 0

const (
	kernelGo       Kernel = 1 + iota
	kernelPortable        // the first in C; C code knows those after it, too
)

var kernelNames = [...]string{"go", "portable", "ssse3", "avx2", "avx512"}

// Kernels returns those that can be used here, the fastest last.
func Kernels() (all []Kernel) {
	for k := kernelGo; k <= fastest(); k++ {
		all = append(all, k)
	}
	return all
}

// String names the kernel, or the one that Fastest stands for.
func (k Kernel) String() string { return kernelNames[k.chosen()-kernelGo] }

func (k Kernel) chosen() Kernel {
	if k == Fastest {
		return fastest()
	}
	return k
}
