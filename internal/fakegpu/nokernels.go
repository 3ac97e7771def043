//go:build !cgo

package fakegpu

import "github.com/batchfs/batchfs/internal/gpu"

// Kernels says whether Run works. It needs cgo.
const Kernels = false

func launch(gpu.Launch, []byte) { panic("fakegpu: kernels need cgo") }
