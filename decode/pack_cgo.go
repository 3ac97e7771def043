//go:build cgo

package decode

// #include "bfs_baseline.h"
// #cgo noescape bfs_pack
// #cgo nocallback bfs_pack
// #cgo noescape bfs_pack_size
// #cgo nocallback bfs_pack_size
import "C"

func packedSize(data []byte, v view, bits int) (Prepared, bool) {
	var size C.bfs_packed_size
	if C.bfs_pack_size(&size, cBytes(data), C.size_t(len(data)), cRegion(v), C.int(bits)) != C.BFS_OK {
		return Prepared{}, false
	}
	return Prepared{Bytes: int64(size.packed), Work: int64(size.work), Blocks: int64(size.blocks), Pixels: int64(size.pixels), view: v, bits: bits}, true
}

func pack(to, data []byte, p Prepared) bool {
	announced := C.bfs_packed_size{packed: C.uint64_t(len(to)), work: C.uint64_t(p.Work)}
	return C.bfs_pack(cBytes(to), announced, cBytes(data), C.size_t(len(data)), cRegion(p.view), C.int(p.bits)) == C.BFS_OK
}
