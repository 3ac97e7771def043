package layout

import (
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
)

// A kernel is one way of doing the same work; the bytes are the same with each.
type kernel int32

const (
	goKernel   kernel = iota // no C
	portable                 // plain C
	ssse3                    // bytes shuffled 16 at a time
	avx2                     // and elements computed 8 at a time, with FMA and F16C
	numKernels               // in rising order of speed
)

var kernelNames = [numKernels]string{"go", "portable", "ssse3", "avx2"}

// forced is the kernel that SetKernel selected, and one more; 0 is the fastest.
var forced atomic.Int32

// Kernels names the kernels that this build has for this processor, the slowest
// first. "go" is there always.
func Kernels() []string {
	return slices.Clone(kernelNames[:fastest()+1])
}

// Kernel names the kernel in use.
func Kernel() string { return kernelNames[selected()] }

// SetKernel selects one of Kernels for every Writer and every turn that begins from
// now on, "" the fastest. It is for tests and for measuring: no byte depends on it.
func SetKernel(name string) error {
	if name == "" {
		forced.Store(0)
		return nil
	}
	all := Kernels()
	i := slices.Index(all, name)
	if i < 0 {
		return &OptionError{"kernel", "one of " + strings.Join(all, ", "), fmt.Sprintf("%q", name)}
	}
	forced.Store(int32(i) + 1)
	return nil
}

func selected() kernel {
	if k := forced.Load(); k > 0 {
		return kernel(k - 1)
	}
	return fastest()
}
