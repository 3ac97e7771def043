package resample

import "github.com/batchfs/batchfs/internal/kernel"

// Kernels returns the usable kernels, the fastest last; the first is Go's.
func Kernels() []kernel.Kernel { return kernel.UpTo(fastest()) }
