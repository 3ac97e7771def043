//go:build cgo

package fakegpu

// #cgo CFLAGS: -std=gnu11 -O1
// #include <stdlib.h>
// int fakegpu_launch(const char *name, const unsigned grid[3], size_t shared, const void *batch);
import "C"

import (
	"unsafe"

	"github.com/batchfs/batchfs/internal/gpu"
)

// Kernels says whether Run works. It needs cgo.
const Kernels = true

func launch(l gpu.Launch, batch []byte) {
	name := C.CString(l.Kernel)
	defer C.free(unsafe.Pointer(name))
	grid := [3]C.uint{C.uint(l.Grid[0]), C.uint(l.Grid[1]), C.uint(l.Grid[2])}
	if C.fakegpu_launch(name, &grid[0], C.size_t(l.Shared), unsafe.Pointer(&batch[0])) != 0 {
		panic("fakegpu: there is no kernel " + l.Kernel)
	}
}
