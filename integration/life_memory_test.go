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

// hoarder opens and maps batches until it has all of them or memory runs out, repeatedly on
// request: DIR SIDE BATCH... For "take" it prints how many it got and how many it did not,
// for "look" whether all are right, and for "drop" it releases all.
const hoarder = tilesInPython + `
import errno, mmap, os, sys
dir, side, batches = sys.argv[1], int(sys.argv[2]), [int(b) for b in sys.argv[3:]]
held = []
for line in sys.stdin:
    word = line.strip()
    if word == "take":
        refused = 0
        for b in batches:
            try:
                fd = os.open("%s/batch-%05d.nhwc" % (dir, b), os.O_RDONLY)
            except OSError as e:
                if e.errno != errno.ENOMEM: raise
                refused += 1
                continue
            held.append((b, mmap.mmap(fd, 0, prot=mmap.PROT_READ)))
            os.close(fd)
        print(len(held), refused, flush=True)
    elif word == "look":
        print("same" if all(m[:] == tiles(4 * b, 4, side) for b, m in held) else "DIFFERENT", flush=True)
    elif word == "drop":
        for _, m in held: m.close()
        held = []
        print("dropped", flush=True)
`

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
			args := []string{m.epochDir(0, 0), strconv.Itoa(side)}
			for k := range each {
				args = append(args, strconv.Itoa(k*hoarders+i))
			}
			all = append(all, m.partner(t, hoarder, args...))
		}
		ask := func(word string) (answers []string) {
			for _, p := range all {
				p.tell(t, word)
			}
			for _, p := range all {
				answers = append(answers, p.line(t))
			}
			s := m.stats(t).Memory
			if s.Used > s.Limit || s.Peak > s.Limit {
				t.Errorf("of %d bytes %d are used, and %d were", s.Limit, s.Used, s.Peak)
			}
			return answers
		}
		for round := range 3 {
			held, refused := 0, 0
			for _, answer := range ask("take") {
				var h, r int
				if _, err := fmt.Sscan(answer, &h, &r); err != nil {
					t.Fatalf("%q: %v", answer, err)
				}
				held, refused = held+h, refused+r
			}
			if held+refused != hoarders*each || held < 4 || held > 10 {
				t.Errorf("round %d: %d batches of %d are open, %d were refused; there is memory for 10 at most", round, held, hoarders*each, refused)
			}
			for i, answer := range ask("look") {
				if answer != "same" {
					t.Errorf("round %d: process %d sees other bytes", round, i)
				}
			}
			// Files that need no batch are still readable.
			if _, err := os.ReadFile(m.path(0, 3, 3, layout.JSON)); err != nil {
				t.Error(err)
			}
			ask("drop")
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
// form, without allocating anything for it. Its size is known nevertheless.
func TestBatchLargerThanMemory(t *testing.T) {
	const side = 1024
	dataset := filepath.Join(scratch(t), "images")
	for i := range 2 * tileBatch {
		writeFile(t, filepath.Join(dataset, fmt.Sprintf("%d.png", i)), pngFile(1+i/tileBatch*(side-1), 1+i/tileBatch*(side-1), 7))
	}
	m := tileMount(t, dataset, "--memory-limit", "36MiB")
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
	// Samples that are too large are also refused before they are allocated.
	bomb := filepath.Join(scratch(t), "bomb")
	// The minimum number of bytes for that many pixels; with fewer it would count as
	// corrupt.
	writeFile(t, filepath.Join(bomb, "0.png"), pngFile(1, 1, 7))
	writeFile(t, filepath.Join(bomb, "1.png"), append(pngClaiming(60000, 60000), make([]byte, 11<<20)...))
	n := mountBatchfs(t, bomb, "--max-pixels", "4000000000", "--batch-size", "1", "--memory-limit", "64MiB")
	if info, err := os.Stat(n.path(0, 0, 1, layout.NHWCForm)); err != nil || info.Size() != 3*60000*60000 {
		t.Errorf("the size is %v (%v)", info, err)
	}
	expectOpen(t, n.path(0, 0, 1, layout.NHWCForm), unix.ENOMEM)
	if rss := n.rss(t); rss > 512<<20 {
		t.Errorf("the daemon takes %d bytes", rss)
	}
}
