package stress

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/batchfs/batchfs/decode"
	"github.com/batchfs/batchfs/internal/testkit"
)

// An allocator is the memory shared with testdata/failmalloc.c.
type allocator struct {
	armed, count, failAt, failed uint64
}

// TestAllocations makes single allocations of the codecs fail.
func TestAllocations(t *testing.T) {
	needMounts(t)
	if testkit.BuildSetting("CGO_ENABLED") != "1" {
		t.Skip("SKIPPED: without cgo there are no codecs that allocate by themselves")
	}
	library := filepath.Join(suite.dir, "failmalloc.so")
	if out, err := exec.Command("cc", "-shared", "-fPIC", "-O1", "-Wall", "-Werror", "-o", library, "testdata/failmalloc.c").CombinedOutput(); err != nil {
		t.Skipf("SKIPPED: allocations cannot be made to fail here: %v\n%s", err, out)
	}
	eachBench(t, func(b *bench) {
		a, env, err := b.allocator(library)
		if err != nil {
			t.Fatal(err)
		}
		cmd := b.command()
		cmd.Args = cmd.Args[2:] // without the supervisor
		cmd.Path = cmd.Args[0]
		cmd.Env = append(cmd.Env, env...)
		if b.daemon, err = start(cmd, b.Dir); err != nil {
			b.t.Fatal(err)
		}
		defer b.unmount()
		b.each("malloc", []unix.Errno{unix.ENOMEM}, func(at int, _ unix.Errno) { a.arm(at) }, a.disarm)
	})
}

// allocator makes the memory shared with the preloaded library, and the environment that
// points the library to it.
func (b *bench) allocator(library string) (*allocator, []string, error) {
	path := b.file("allocator")
	m, err := shareFile(path)
	if err != nil {
		return nil, nil, err
	}
	code, webp := fmt.Sprintf("%x-%x", b.names.from, b.names.to), testkit.WebPSafe(decode.Version())
	if !webp {
		b.t.Log("NOT TESTED: tables of lossless WebP, since this libwebp may crash on them when out of memory; 1.4.0 does not")
	}
	for i, f := range b.names.functions {
		// Go's runtime cannot continue without a new thread, and C.malloc cannot report
		// failure.
		goOwn := strings.HasPrefix(f.Name, "x_cgo_") || strings.HasPrefix(f.Name, "_cgo_")
		if goOwn && strings.Contains(f.Name, "alloc") || strings.Contains(f.Name, "thread_start") || !webp && f.Name == "VP8LHuffmanTablesAllocate" {
			if i+1 < len(b.names.functions) {
				code += fmt.Sprintf(" %x-%x", f.Value, b.names.functions[i+1].Value)
			}
		}
	}
	return (*allocator)(unsafe.Pointer(&m[0])), []string{"LD_PRELOAD=" + library, "BATCHFS_FAIL_MALLOC=" + path, "BATCHFS_FAIL_MALLOC_CODE=" + code}, nil
}

// arm starts counting allocations and makes the at-th fail; 0: none.
func (a *allocator) arm(at int) {
	atomic.StoreUint64(&a.count, 0)
	atomic.StoreUint64(&a.failed, 0)
	atomic.StoreUint64(&a.failAt, uint64(at))
	atomic.StoreUint64(&a.armed, 1)
}

// disarm stops that, and returns the count and whether an allocation failed.
func (a *allocator) disarm() (count int, hit bool) {
	atomic.StoreUint64(&a.armed, 0)
	return int(atomic.LoadUint64(&a.count)), atomic.LoadUint64(&a.failed) != 0
}
