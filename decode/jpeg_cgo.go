//go:build cgo

package decode

// #include "bfs_baseline.h"
// #cgo noescape bfs_jpeg_decode
// #cgo nocallback bfs_jpeg_decode
// #cgo noescape bfs_baseline_decode
// #cgo nocallback bfs_baseline_decode
// #cgo noescape bfs_baseline_decode_pair
// #cgo nocallback bfs_baseline_decode_pair
// #cgo noescape bfs_baseline_need
// #cgo nocallback bfs_baseline_need
// #cgo noescape bfs_baseline_runs
// #cgo nocallback bfs_baseline_runs
import "C"

import (
	"unsafe"

	"github.com/batchfs/batchfs/internal/kernel"
)

// jpeg decodes with our own decoder, and with libjpeg-turbo what that leaves.
func (k *codecState) jpeg(dst Image, data []byte, v view) error {
	if k.kernel >= Portable {
		if left, err := k.baseline(dst, data, v); !left {
			return err
		}
	}
	if err := checkScans(data, v.Header); err != nil {
		return err
	}
	to, view := cView(dst, v)
	return k.result(C.bfs_jpeg_decode(&k.c, cBytes(data), C.size_t(len(data)), to, view), "libjpeg")
}

// baseline reports whether the image is left to libjpeg-turbo.
func (k *codecState) baseline(dst Image, data []byte, v view) (left bool, err error) {
	code := C.bfs_baseline_decode(&k.c, inC(k.kernel), k.task(dst, data, v))
	if code >= C.BFS_LEFT_KIND {
		return true, nil
	}
	return false, k.result(code, "baseline")
}

// pair reports whether it decoded both tasks, the second one with other's memory. If not, nothing
// is known about either.
func (k *codecState) pair(other *codecState, t *[2]Task, v *[2]view) bool {
	if k.kernel < Portable || k.kernel != other.kernel || len(k.given)+len(other.given) > 0 {
		return false
	}
	a, b := k.task(t[0].To, t[0].Data, v[0]), other.task(t[1].To, t[1].Data, v[1])
	return C.bfs_baseline_decode_pair(&k.c, &other.c, inC(k.kernel), a, b) != 0
}

func (k *codecState) task(dst Image, data []byte, v view) C.bfs_task {
	entries := cEntries(k.rule, k.given)
	if k.room != nil && entries.given != nil {
		entries = C.bfs_entries{}
	}
	entries.part = C.bfs_part{from: C.size_t(k.from), to: C.size_t(k.to)}
	to, view := cView(dst, v)
	task := C.bfs_task{data: cBytes(data), size: C.size_t(len(data)), to: to, view: view, entries: entries}
	if k.room != nil {
		task.pack, task.room = cBytes(k.room), C.size_t(len(k.room)-packedSlack)
	}
	return task
}

func (k *codecState) setEntryPoints(rule EntryRule, at []EntryPoint) {
	k.rule, k.given, k.c.entries = rule, at, C.BFS_ENTRIES_UNUSED
	k.from, k.to = 0, 0
}

func cEntries(rule EntryRule, at []EntryPoint) C.bfs_entries {
	entries := C.bfs_entries{every: C.int(rule)}
	if len(at) > 0 {
		entries.count, entries.given = C.int(len(at)), (*C.uint64_t)(unsafe.SliceData(at))
	}
	return entries
}

func entryPart(head []byte, size int64, rule EntryRule, at []EntryPoint, v view) (from, to int64) {
	part := C.bfs_baseline_need(cBytes(head), C.size_t(len(head)), C.size_t(size), cRegion(v), cEntries(rule, at))
	return int64(part.from), int64(part.to)
}

func (k *codecState) takeEntryPoints() (made []EntryPoint, result EntryResult) {
	result = EntryResult(k.c.entries)
	if result == EntriesMade {
		made = unsafe.Slice((*EntryPoint)(unsafe.Pointer(k.c.made)), k.c.made_count)
	}
	k.setEntryPoints(EntryOff, nil)
	return made, result
}

func (k *codecState) takeJPEGs() JPEGs {
	n := k.c.jpegs
	clear(k.c.jpegs[:])
	return JPEGs{
		Baseline: int64(n[0]), Kind: int64(n[1]), Sampling: int64(n[2]), Header: int64(n[3]), Data: int64(n[4]),
	}
}

// inC is the number of a kernel in C, which has none for SSSE3.
func inC(k Kernel) C.int { return C.int(max(k, kernel.SSSE3) - kernel.SSSE3) }

func kernelRuns(k Kernel) bool { return C.bfs_baseline_runs(inC(k)) != 0 }

// jpegScratch estimates what libjpeg allocates: windows of rows for each component before and
// after upsampling and, if the image has several scans, all of its 16-bit coefficients. Our own
// decoder allocates only these.
func jpegScratch(f *jpegFrame) int64 {
	const fixed = 64 << 10 // tables, and the slack of libjpeg's pools
	n := int64(fixed)
	maxH, maxV := f.maxSampling()
	for i := range f.components {
		across, down := f.blocks(i)
		n += across * 8 * int64(f.v[i]) * 16
		n += int64(f.width+8*maxH) * int64(maxV)
		if f.multiScan {
			n += across * down * 128
		}
	}
	return n
}
