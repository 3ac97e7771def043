package layout

import "github.com/batchfs/batchfs/internal/kernel"

// A Kernel is one implementation of the conversion. The zero value is the fastest one of this
// build on this processor.
type Kernel = kernel.Kernel

// Kernels lists the kernels that this build has for this processor, slowest first; the first is
// always Go's.
func Kernels() []Kernel { return kernel.UpTo(fastest()) }
