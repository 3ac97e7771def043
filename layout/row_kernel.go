package layout

import (
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
)

// A kernel is one implementation of the conversion; all produce the same bytes.
type kernel int32

const (
	goKernel   kernel = iota // no C
	portable                 // plain C
	ssse3                    // bytes shuffled 16 at a time
	avx2                     // and elements computed 8 at a time, with FMA and F16C
	numKernels               // in order of increasing speed
)

var kernelNames = [numKernels]string{"go", "portable", "ssse3", "avx2"}

// forced is one more than the kernel that SetKernel selected; 0 means the fastest.
var forced atomic.Int32

// Kernels names the kernels that this build has for this processor, slowest first. "go" is
// always among them.
func Kernels() []string {
	return slices.Clone(kernelNames[:fastest()+1])
}

// Kernel names the kernel in use.
func Kernel() string { return kernelNames[selected()] }

// SetKernel selects one of Kernels for every Writer and every turn that begins from now on; ""
// means the fastest. It is for tests and measurements: the output does not depend on it.
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
