package resample

import "github.com/batchfs/batchfs/internal/kernel"

// A Kernel is an implementation of the arithmetic.
type Kernel = kernel.Kernel

// Fastest is the fastest kernel that this build has and this processor supports.
const Fastest = kernel.Fastest

// Kernels returns the usable kernels, the fastest last; the first is Go's.
func Kernels() []Kernel { return kernel.UpTo(fastest()) }
