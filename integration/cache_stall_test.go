package integration

import (
	"crypto/sha256"
	"fmt"
	"slices"
	"syscall"
	"testing"

	"github.com/batchfs/batchfs/layout"
)

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
