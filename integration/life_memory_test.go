package integration

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/batchfs/batchfs/internal/testkit"
	"github.com/batchfs/batchfs/layout"
	"golang.org/x/sys/unix"
)

// TestTinyMemoryLimit: when many processes want more memory than there is, some opens fail
// with ENOMEM, open batches do not change, the limit holds, and everything works again once
// memory is released.
func TestTinyMemoryLimit(t *testing.T) {
	const side, hoarders, each, batch = 256, 8, 4, tileBatch * 256 * 256 * 3
	dataset := tiles(t, 4*hoarders*each, side)
	eachReadPath(t, func(t *testing.T, path string) {
		// The process itself and the index take 24 MiB, these batches up to 8.
		m := tileMount(t, dataset, "--read-path", path, "--memory-limit", strconv.Itoa(24<<20+10*batch), "--workers", "4", "--memory-wait", "50ms")
		var all []*partner
		for i := range hoarders {
			var batches []int
			for k := range each {
				batches = append(batches, k*hoarders+i)
			}
			all = append(all, m.collects(t, 0, side, "mapped", batches))
		}
		ask := func(word string, answer func(p *partner)) {
			for _, p := range all {
				p.tell(t, word)
			}
			for _, p := range all {
				answer(p)
			}
			s := m.stats(t).Memory
			if s.Used > s.Limit || s.Peak > s.Limit {
				t.Errorf("of %d bytes %d are used, and %d were", s.Limit, s.Used, s.Peak)
			}
		}
		for round := range 3 {
			held, refused := 0, 0
			ask("take", func(p *partner) {
				h, r, failed := p.taken(t)
				held, refused = held+h, refused+r
				if r > 0 && failed != "ENOMEM" {
					t.Errorf("round %d: opens failed with %s", round, failed)
				}
			})
			if held+refused != hoarders*each || held < 4 || held > 10 {
				t.Errorf("round %d: %d batches of %d are open, %d were refused; there is memory for 10 at most", round, held, hoarders*each, refused)
			}
			ask("look", func(p *partner) { p.expect(t, "same") })
			// Files that need no batch are still readable.
			if _, err := os.ReadFile(m.path(0, 3, 3, layout.JSON)); err != nil {
				t.Error(err)
			}
			ask("drop", func(p *partner) { p.expect(t, "dropped") })
		}
		for batch := range hoarders * each {
			if err := readTiles(m, 1, batch, side, layout.NHWCForm); err != nil {
				t.Errorf("alone, with all memory free: %v", err)
			}
		}
		if !m.Running() {
			t.Error("the daemon has ended")
		}
		if log := m.logged(); !strings.Contains(log, "memory") || !strings.Contains(log, "level=WARN") && !strings.Contains(log, "level=ERROR") {
			t.Errorf("the log does not speak of memory:\n%s", log)
		}
	})
}

// TestBatchLargerThanMemory: a batch that can never fit is refused every time, in every
// form, without allocating anything for it. Its size is known nevertheless. The command why has
// words and advice of their own for it, and for a bad file that nothing replaces.
func TestBatchLargerThanMemory(t *testing.T) {
	const side = 1024
	dataset := filepath.Join(scratch(t), "images")
	name := func(i int) string { return filepath.Join(dataset, fmt.Sprintf("%d.png", i)) }
	for i := range 2 * tileBatch {
		writeFile(t, name(i), pngFile(1+i/tileBatch*(side-1), 1+i/tileBatch*(side-1), 7))
	}
	m := tileMount(t, dataset, "--memory-limit", "36MiB", "--prefetch-queue-depth", "0", "--on-error", "replace")
	for range 3 {
		for _, form := range []layout.Form{layout.NHWCForm, layout.NPY, layout.PNG} {
			expectOpen(t, m.path(0, 0, 1, form), unix.ENOMEM)
		}
	}
	info, err := os.Stat(m.path(0, 0, 1, layout.NHWCForm))
	if err != nil || info.Size() != tileBatch*side*side*3 {
		t.Errorf("the size is %d (%v)", info.Size(), err)
	}
	if s := m.stats(t).Memory; s.Peak > s.Limit || s.Batches >= side*side {
		t.Errorf("memory: %+v", s)
	}
	why := func(batch int, words ...string) {
		t.Helper()
		out := execute(t, "why", m.path(0, 0, batch, layout.NPY)).done(t).out
		for _, w := range words {
			if !strings.Contains(out, w) {
				t.Errorf("%q is not in\n%s", w, out)
			}
		}
	}
	why(1, "error 12, ENOMEM: cannot allocate memory, at ", "takes 12582912 bytes, and the memory limit leaves ", "what to do: raise --memory-limit")
	for i := range tileBatch {
		remove(t, name(i))
	}
	expectOpen(t, m.path(0, 0, 0, layout.NPY), unix.EIO)
	why(0, "no sample of the shard can replace it", "--on-error zero goes on")
}

// readerProgram maps batches, prefetches all of each at once, and reads them repeatedly:
// ROUNDS FILE...
const readerProgram = `
import errno, mmap, os, sys
rounds, files = int(sys.argv[1]), sys.argv[2:]
got = 0
for r in range(rounds):
    for f in files:
        try: fd = os.open(f, os.O_RDONLY)
        except OSError as e:
            if e.errno != errno.ENOMEM: raise
            continue
        m = mmap.mmap(fd, 0, mmap.MAP_SHARED, mmap.PROT_READ)
        m.madvise(mmap.MADV_WILLNEED)
        sum(m[::4096])
        while os.read(fd, 16 << 20): pass
        m.close()
        os.close(fd)
        got += 1
print("done" if got else "nothing", flush=True)
sys.stdin.read()
`

// directSlack is what a daemon may use beyond its memory limit: stacks and free heap of the
// Go runtime, and free memory of the decoders' allocator.
const directSlack = 24 << 20

// TestDirectMemory: many readers through the daemon do not make it exceed its limit, which
// includes the buffers of their requests.
func TestDirectMemory(t *testing.T) {
	if testkit.RaceDetector() {
		t.Skip("SKIPPED: the race detector takes memory of its own")
	}
	const side, limit, readers = 512, 60 << 20, 48
	m := tileMount(t, tiles(t, 32, side), "--read-path", "direct", "--memory-limit", strconv.Itoa(limit), "--workers", "2")
	var all []*partner
	for i := range readers {
		args := []string{"2"}
		for batch := range 8 {
			args = append(args, m.path(0, 0, (batch+i)%8, 0))
		}
		all = append(all, m.partner(t, readerProgram, args...))
	}
	for _, p := range all {
		p.expect(t, "done")
	}
	// File-backed pages, such as the program itself, do not count.
	peak := testkit.Status(m.pid(), "VmHWM") - testkit.Status(m.pid(), "RssFile")
	if peak <= 0 || peak > limit+directSlack {
		t.Errorf("the daemon took %d bytes at its peak, with a limit of %d", peak, limit)
	} else {
		t.Logf("peak %d of %d bytes", peak, limit)
	}
	for _, p := range all {
		p.end()
	}
}
