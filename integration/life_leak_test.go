package integration

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"testing"
	"time"

	"github.com/batchfs/batchfs/fusefs"
	"github.com/batchfs/batchfs/internal/dataset"
	"github.com/batchfs/batchfs/internal/engine"
	"github.com/batchfs/batchfs/layout"
)

// manyOpens opens and closes files in turn, repeatedly: COUNT FILE... It also maps some,
// reads some, and leaves some for the kernel to close.
const manyOpens = `
import mmap, os, sys
count, files = int(sys.argv[1]), sys.argv[2:]
left = []
for i in range(count):
    fd = os.open(files[i * 7 % len(files)], os.O_RDONLY)
    if i % 10 == 0:
        os.pread(fd, 100, 4096)
    if i % 100 == 0:
        mmap.mmap(fd, 1, prot=mmap.PROT_READ)[0]
    os.close(fd)
fds = [os.open(f, os.O_RDONLY) for f in files]
print("done", flush=True)
`

// manyFiles lists batches of some epochs in all forms.
func manyFiles(m *mounted, epochs, batches int) []string {
	var files []string
	for epoch := range epochs {
		for batch := range batches {
			for _, form := range layout.Forms() {
				files = append(files, m.path(0, epoch, batch, form))
			}
		}
	}
	return files
}

// level is a daemon's resource usage.
type level struct {
	files, threads int
	rss            int64
}

func (m *mounted) level(t testing.TB) level {
	t.Helper()
	open, err := m.leaked()
	check(t, err)
	threads, err := os.ReadDir(fmt.Sprintf("/proc/%d/task", m.pid()))
	check(t, err)
	return level{len(open), len(threads), m.rss(t)}
}

// moreThreads is the number of threads a daemon may start later: for calls that block in
// the kernel, and for FUSE's readers. A leak would be far more.
const moreThreads = 24

// TestTenThousandOpens: opens and closes leak no descriptors, threads or memory in the
// daemon.
func TestTenThousandOpens(t *testing.T) {
	const side = 16
	// Few workers, so that the first opens use all of them once.
	m := tileMount(t, tiles(t, 16, side), "--shuffle", "--workers", "2", "--batch-workers", "2")
	files := manyFiles(m, 2, 4)
	opens := func(count int) {
		p := m.partner(t, manyOpens, append([]string{strconv.Itoa(count)}, files...)...)
		p.expect(t, "done")
		p.end()
		eventually(t, "nothing is being made", func() bool {
			s := m.stats(t)
			return s.Batches.Waiting == 0 && s.Batches.Ahead <= 2*s.Batches.Streams
		})
	}
	opens(1000)
	before, used := m.level(t), m.stats(t).Memory
	opens(10000)
	after, s := m.level(t), m.stats(t)
	if after.files > before.files+2 {
		t.Errorf("%d descriptors after 1000 opens, %d after 10000 more", before.files, after.files)
	}
	if after.threads > before.threads+moreThreads {
		t.Errorf("%d threads after 1000 opens, %d after 10000 more", before.threads, after.threads)
	}
	if grown := after.rss - before.rss; grown > 24<<20 {
		t.Errorf("the daemon grew by %d bytes in 10000 opens", grown)
	}
	// A few more batches may have been in progress at once.
	if grown := s.Memory.Used - used.Used; grown > 16*2*4096 {
		t.Errorf("%d bytes are accounted for after 1000 opens, %d after 10000 more", used.Used, s.Memory.Used)
	}
	if s.FUSE.Opens < 11000 || s.Errors != 0 {
		t.Errorf("%d opens and %d errors are counted", s.FUSE.Opens, s.Errors)
	}
}

// A guest is a mount in this process. This process must not access the mount itself; other
// programs do.
type guest struct {
	*mounted
	engine  *engine.Engine
	session *fusefs.Session
	ds      *dataset.Dataset
}

// host mounts tiles in this process.
func host(t testing.TB, path string, o engine.Options, tree fusefs.Options) *guest {
	t.Helper()
	skipWithoutFUSE(t)
	ds, err := dataset.Open(context.Background(), path, dataset.Options{Prober: probe})
	check(t, err)
	o.Shards, o.Epochs, o.BatchSize, o.PadLastBatch = 1, 10, tileBatch, true
	o.Decoding.MaxPixels, o.Workers, o.BatchWorkers, o.PrefetchDepth, o.MemoryLimit = 1<<28, 2, 2, 2, 1<<30
	e, err := engine.New(ds, o)
	check(t, err)
	tree.UID, tree.GID = uint32(os.Getuid()), uint32(os.Getgid())
	s, err := fusefs.Mount(mountpoint(t), e, tree)
	check(t, err)
	g := &guest{mountOf(&os.Process{Pid: os.Getpid()}, s.Path(), thisUser()), e, s, ds}
	t.Cleanup(func() { g.leave(t) })
	return g
}

// leave unmounts unless that was already done.
func (g *guest) leave(t testing.TB) {
	t.Helper()
	if g.session == nil {
		return
	}
	if err := g.session.Unmount(); err != nil {
		t.Error(err)
		_ = g.session.Detach()
	}
	if err := g.engine.Close(); err != nil {
		t.Error(err)
	}
	if err := g.ds.Close(); err != nil {
		t.Error(err)
	}
	g.session = nil
}

// TestNothingStaysBehind: a mount that was used and has ended leaves no goroutine,
// descriptor or memory in its process.
func TestNothingStaysBehind(t *testing.T) {
	const side = 16
	dataset := tiles(t, 16, side)
	eachReadPath(t, func(t *testing.T, path string) {
		many := map[string]int{"passthrough": 2000, "direct": 10000}[path]
		plainPython(t)
		once := func(opens int) {
			g := host(t, dataset, engine.Options{IdleAfter: 50 * time.Millisecond}, fusefs.Options{ReadPath: path})
			before := runtime.NumGoroutine()
			p := g.partner(t, manyOpens, append([]string{strconv.Itoa(opens)}, manyFiles(g.mounted, 3, 4)...)...)
			p.expect(t, "done")
			p.end()
			// Idle streams release everything.
			eventually(t, "no batch takes memory", func() bool {
				s := g.engine.Stats()
				return s.Memory.Batches == 0 && s.Batches.Streams == 0
			})
			// go-fuse keeps up to 16 readers of the device.
			if after := runtime.NumGoroutine(); after > before+16 {
				t.Errorf("%d goroutines at first, %d after %d opens", before, after, opens)
			}
			g.leave(t)
		}
		once(100) // initialization on first use
		runtime.GC()
		goroutines, files, heap := runtime.NumGoroutine(), ownFiles(t), heapBytes()
		once(many)
		eventually(t, fmt.Sprintf("no goroutine is left but the %d of before", goroutines), func() bool { return runtime.NumGoroutine() <= goroutines })
		if now := ownFiles(t); now > files {
			t.Errorf("%d descriptors before, %d after", files, now)
		}
		if grown := heapBytes() - heap; grown > 4<<20 {
			t.Errorf("the heap grew by %d bytes", grown)
		}
	})
}

// ownFiles counts this process's descriptors.
func ownFiles(t testing.TB) int {
	t.Helper()
	open, err := os.ReadDir("/proc/self/fd")
	check(t, err)
	return len(open)
}

// heapBytes is the reachable part of the heap.
func heapBytes() int64 {
	runtime.GC()
	runtime.GC() // after finalizers ran
	var s runtime.MemStats
	runtime.ReadMemStats(&s)
	return int64(s.HeapAlloc)
}
