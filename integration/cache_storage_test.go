package integration

import (
	"crypto/sha256"
	"fmt"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/batchfs/batchfs/layout"
	"golang.org/x/sys/unix"
)

const storageBatches = storageTiles / tileBatch

// readStorage reads an epoch except some batches.
func readStorage(t testing.TB, m *mounted, epoch int, without ...int) {
	t.Helper()
	leave := map[int]bool{}
	for _, batch := range without {
		leave[batch] = true
	}
	for batch := range storageBatches {
		if leave[batch] {
			continue
		}
		if err := readTiles(m, epoch, batch, storageSide, layout.NHWCForm); err != nil {
			t.Errorf("epoch %d, batch %d: %v", epoch, batch, err)
		}
	}
}

// TestStorageFails: a file that its storage does not deliver fails its batch on every
// attempt; all other batches work. After the storage recovers, nothing is lost, though no
// file has changed. Only faults of the file itself are recorded as its errors, in one line.
func TestStorageFails(t *testing.T) {
	for _, c := range []struct{ order, io, reason string }{{"fail", "buffered", unix.EIO.Error()}, {"end", "direct", "changed"}} {
		t.Run(c.order, func(t *testing.T) {
			t.Parallel()
			s := newStorage(t)
			m := tileMount(t, s.dir, cacheFlags("constant", 0, "--io", c.io)...)
			readStorage(t, m, 0)
			for round, id := range []int{5, 14} {
				if c.order == "fail" {
					s.fail(t, id)
				} else {
					s.order(t, fmt.Sprintf("%s %s 5000", c.order, tileName(id)))
				}
				first := 10*round + 2 // batches prefetched before are intact
				for epoch := first; epoch < first+3; epoch++ {
					for _, form := range tensorForms() {
						expectOpen(t, m.path(0, epoch, id/tileBatch, form), unix.EIO)
					}
					readStorage(t, m, epoch, id/tileBatch)
				}
				lines := slices.DeleteFunc(m.badLines(t), func(l badLine) bool { return l.ID != id })
				if c.order == "fail" && (len(lines) != 0 || !strings.Contains(m.logged(), c.reason)) {
					t.Errorf("of sample %d, errors.jsonl says %+v, the log %s", id, lines, m.logged())
				}
				if c.order != "fail" && (len(lines) != 1 || lines[0].Path != tileName(id) || !strings.Contains(lines[0].Reason, c.reason)) {
					t.Errorf("of sample %d, errors.jsonl says %+v", id, lines)
				}
				s.order(t, "heal")
				for epoch := range first + 4 {
					readStorage(t, m, epoch)
				}
			}
			for _, l := range m.badLines(t) {
				if l.ID != 5 && l.ID != 14 {
					t.Errorf("nothing was wrong with sample %d: %+v", l.ID, l)
				}
			}
		})
	}
}

// TestStorageFailsBehindTheCache: cached samples need no storage.
func TestStorageFailsBehindTheCache(t *testing.T) {
	s := newStorage(t)
	m := tileMount(t, s.dir, cacheFlags("constant", 4<<20, "--prefetch-queue-depth", "0")...)
	readStorage(t, m, 0)
	for id := range storageTiles {
		s.fail(t, id)
	}
	readStorage(t, m, 1)
	readStorage(t, m, 2)
	if d := m.stats(t); d.Errors != 0 || d.Storage.Reads != storageTiles || d.epoch(2).Hits != storageTiles {
		t.Errorf("%d errors, %d reads, %d hits", d.Errors, d.Storage.Reads, d.epoch(2).Hits)
	}
}

// TestShapeThatIsNotKnown: a file that could not be read when the dataset was opened is read as
// soon as that is possible; but if the shape of its batch depends on it, the batch does not open
// until the next mount. A machine failure does not determine a shape.
func TestShapeThatIsNotKnown(t *testing.T) {
	s := newStorage(t)
	s.fail(t, 5)
	flags := []string{"--prefetch-queue-depth", "0", "--on-error", "zero"}
	m := tileMount(t, s.dir, flags...)
	sized := tileMount(t, s.dir, append(flags, "--size", fmt.Sprintf("%dx%d", storageSide, storageSide))...)
	for _, m := range []*mounted{m, sized} {
		expectOpen(t, m.path(0, 0, 1, layout.NHWCForm), unix.EIO)
		readStorage(t, m, 0, 1)
	}
	s.order(t, "heal")
	readStorage(t, sized, 0)
	if lines := sized.badLines(t); len(lines) != 0 {
		t.Errorf("errors.jsonl says %+v", lines)
	}
	expectOpen(t, m.path(0, 0, 1, layout.NHWCForm), unix.EIO)
	if log := m.logged(); !strings.Contains(log, "mount again") {
		t.Errorf("the log does not say what to do:\n%s", log)
	}
	readStorage(t, tileMount(t, s.dir), 0)
}

// TestStorageStalls: as long as fewer samples wait for storage than there are workers, and
// fewer batches than there are batch workers, all other batches can be read. Waiting
// readers can be interrupted, and what none waits for is given up. When the storage recovers,
// so does the batch. Repeated stalls leak nothing.
func TestStorageStalls(t *testing.T) {
	for _, io := range []string{"direct", "buffered"} {
		t.Run(io, func(t *testing.T) {
			s := newStorage(t)
			m := tileMount(t, s.dir, cacheFlags("constant", 0, "--io", io, "--workers", "3", "--batch-workers", "2", "--prefetch-queue-depth", "0")...)
			defer s.order(t, "heal")
			stall := func(epoch int) {
				s.stall(t, 5, 6)
				waits := m.partner(t, opener, m.path(0, epoch, 1, layout.NHWCForm))
				s.awaitStalled(t, 2)
				for e := range 3 {
					s.others(t, m, epoch+e, 1)
				}
				if st := m.stats(t); st.Batches.Waiting != 1 {
					t.Errorf("%d opens wait", st.Batches.Waiting)
				}
				waits.signal(t, syscall.SIGINT)
				waits.expect(t, "interrupted")
				m.awaitWaiting(t, 0)
				if epoch == 0 {
					eventually(t, "nothing is made", func() bool { return m.stats(t).Batches.Making == 0 })
				}
				s.order(t, "heal")
				readStorage(t, m, epoch)
				s.awaitStalled(t, 0)
				waits.end()
			}
			stall(0)
			before := m.level(t)
			for round := 1; round < 6; round++ {
				stall(5 * round)
			}
			if after := m.level(t); after.files > before.files+2 || after.threads > before.threads+moreThreads {
				t.Errorf("the daemon had %+v after one stall, and %+v after six", before, after)
			}
			if n := m.stats(t).Errors; n != 0 {
				t.Errorf("%d errors: %+v", n, m.badLines(t))
			}
		})
	}
}

// others reads an epoch except one batch, in a process that a timeout can end.
func (s storage) others(t testing.TB, m *mounted, epoch, without int) {
	t.Helper()
	var files, wants []string
	for batch := range storageBatches {
		if batch != without {
			files = append(files, m.path(0, epoch, batch, layout.NHWCForm))
			wants = append(wants, fmt.Sprintf("%x", sha256.Sum256(tilesOf(batch, storageSide))))
		}
	}
	if got := m.digests(t, files...); !slices.Equal(got, wants) {
		t.Errorf("epoch %d, but for batch %d, is %v instead of %v", epoch, without, got, wants)
	}
}
