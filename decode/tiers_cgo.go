//go:build cgo

package decode

// #include "bfs_tiers.h"
// #cgo noescape bfs_tiers_decode
// #cgo nocallback bfs_tiers_decode
// #cgo noescape bfs_tiers_pack
// #cgo nocallback bfs_tiers_pack
import "C"

import "fmt"

func (k *codecState) tiersKernel() C.int { return inC(k.kernel) }

// coefficients decodes a view of a packed JPEG.
func (k *codecState) coefficients(dst Image, p packed, v view) error {
	to, view := cView(dst, v)
	code := C.bfs_tiers_decode(&k.c, k.tiersKernel(), cBytes(p.body), C.size_t(len(p.body)), to, view)
	return k.result(code, "packed JPEG")
}

// packTiers makes the body of a packed JPEG, with packedSlack zeros at its end, and returns its
// size. If our own decoder leaves an image to libjpeg-turbo, the error is ErrNoPackedForm.
func (k *codecState) packTiers(to, data []byte, h Header) (body int, err error) {
	if k.kernel == Pure {
		return 0, errNotOurs
	}
	whole := cRegion(view{Header: h, Region: Region{0, 0, h.Width, h.Height}, Scale: 1})
	whole.dx = C.ptrdiff_t(whole.channels)
	task := C.bfs_task{data: cBytes(data), size: C.size_t(len(data)), view: whole, pack: cBytes(to), room: C.size_t(len(to) - packedSlack)}
	switch code := C.bfs_tiers_pack(&k.c, k.tiersKernel(), task); code {
	case C.BFS_OK:
		return endTiers(k, to)
	case C.BFS_MEMORY:
		return 0, fmt.Errorf("%w: coefficients", ErrMemory)
	}
	return 0, errNotOurs
}

var errNotOurs = fmt.Errorf("%w: of a JPEG that is left to libjpeg-turbo", ErrNoPackedForm)

// endTiers completes the body of the last JPEG.
func endTiers(k *codecState, to []byte) (body int, err error) {
	n := int(k.c.packed)
	if n == 0 {
		return 0, errNotOurs
	}
	clear(to[n:][:packedSlack])
	return n + packedSlack, nil
}
