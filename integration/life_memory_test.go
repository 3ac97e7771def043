package integration

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/batchfs/batchfs/layout"
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
