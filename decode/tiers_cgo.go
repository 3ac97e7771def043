//go:build cgo

package decode

// #include <stdlib.h>
// #include "bfs_tiers.h"
// #cgo noescape bfs_tiers_decode
// #cgo nocallback bfs_tiers_decode
// #cgo noescape bfs_tiers_pack
// #cgo nocallback bfs_tiers_pack
import "C"

import (
	"fmt"
	"unsafe"
)

func (k *kept) tiersKernel() C.int { return C.int(max(k.kernel, Portable) - Portable) }

// coefficients decodes a view of a packed JPEG.
func (k *kept) coefficients(dst Image, p packed, v view) error {
	to, view := cView(dst, v)
	code := C.bfs_tiers_decode(&k.c, k.tiersKernel(), cBytes(p.body), C.size_t(len(p.body)), to, view)
	return k.result(code, "packed JPEG")
}

// packTiers makes the body of a packed JPEG, with packedSlack zeros at its end. An image that our own decoder leaves to libjpeg-turbo
// has none, which is ErrNoPackedForm.
func (k *kept) packTiers(data []byte, h Header) ([]byte, error) {
	whole := cRegion(view{Header: h, Region: Region{0, 0, h.Width, h.Height}, Scale: 1})
	whole.dx = C.ptrdiff_t(whole.channels)
	var t C.bfs_tiers
	code := C.bfs_tiers_pack(&k.c, k.tiersKernel(), cBytes(data), C.size_t(len(data)), whole, &t)
	defer C.free(unsafe.Pointer(t.body))
	switch code {
	case C.BFS_OK:
		body := make([]byte, int(t.size)+packedSlack)
		copy(body, unsafe.Slice((*byte)(t.body), int(t.size)))
		return body, nil
	case C.BFS_MEMORY:
		return nil, fmt.Errorf("%w: coefficients", ErrMemory)
	}
	return nil, fmt.Errorf("%w: of a JPEG that is left to libjpeg-turbo", ErrNoPackedForm)
}
