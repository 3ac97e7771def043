package integration

import (
	"crypto/sha256"
	"fmt"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/batchfs/batchfs/layout"
)

// TestStorageHangsForOneShard: hanging storage delays only readers that need it, both while
// an open waits and afterwards. The mount ends while the storage hangs.
func TestStorageHangsForOneShard(t *testing.T) {
	for _, end := range []string{"umount", "SIGTERM"} {
		t.Run(end, func(t *testing.T) {
			t.Parallel()
			s := newStorage(t)
			m := tileMount(t, s.dir, "--shards", "2", "--stick-to-shard", "--workers", "2", "--batch-workers", "2", "--on-error", "zero")
			defer s.order(t, "heal")
			const half = storageBatches / 2 // shard 1 has half of the batches
			for batch := range half {
				s.stall(t, batch*tileBatch+1)
			}
			var waiting []*partner
			for batch := range half {
				waiting = append(waiting, m.partner(t, opener, m.path(0, 0, batch, layout.NHWCForm)))
			}
			m.awaitWaiting(t, half)
			s.awaitStalled(t, half)
			m.awaitLog(t, "storage does not answer: a read hangs, other batches go on without it\" path="+tileName(1))
			goesOn := func(epochs ...int) {
				t.Helper()
				for _, epoch := range epochs {
					var files, wants []string
					for batch := range half {
						files = append(files, m.path(1, epoch, batch, layout.NHWCForm))
						wants = append(wants, fmt.Sprintf("%x", sha256.Sum256(tilesOf(half+batch, storageSide))))
					}
					if got := m.digests(t, files...); !slices.Equal(got, wants) {
						t.Errorf("epoch %d of the shard whose storage is sound is %v instead of %v", epoch, got, wants)
					}
				}
			}
			goesOn(0, 1, 2)
			for _, p := range waiting {
				p.signal(t, syscall.SIGINT)
				p.expect(t, "interrupted")
				p.end()
			}
			m.awaitWaiting(t, 0)
			goesOn(3, 4, 5)

			// The storage hangs from here to the end.
			if end == "umount" {
				m.run(t, suite.binary, "umount", m.dir)
				if state := stateOf(m.pid()); state != "" && state != "Z" {
					t.Errorf("the daemon has not ended when umount has: it is in state %s", state)
				}
			} else {
				m.signal(t, syscall.SIGTERM)
			}
			m.wait(t)
			if log := m.logged(); !strings.Contains(log, "does not answer; not waiting for it any longer") || !strings.Contains(log, tileName(1)) {
				t.Errorf("the log does not say what was left behind:\n%s", log)
			}
			m.finish(t) // exit status 0
		})
	}
}

// stateOf is the state of a process as a letter; "": it has ended.
func stateOf(pid int) string {
	stat, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	_, rest, _ := strings.Cut(string(stat), ") ")
	return rest[:min(1, len(rest))]
}

// TestOrderThatIsNotKnown: nothing is mounted if the order of samples would depend on a file that
// could not be read. Raw samples, for example, have an order of their own.
func TestOrderThatIsNotKnown(t *testing.T) {
	s := newStorage(t)
	s.fail(t, 5)
	if m, err := startMount(thisUser(), scratch(t), s.dir, "--shuffle", "--batch-size", "4"); err == nil {
		m.finish(t)
		t.Error("it is mounted, in an order that depends on a failure")
	} else if !strings.Contains(err.Error(), tileName(5)) || !strings.Contains(err.Error(), "mount again") {
		t.Errorf("it does not say what to do: %v", err)
	}
	s.order(t, "heal")
	m := tileMount(t, s.dir, "--shuffle")
	expectOpen(t, m.path(0, 0, 0, layout.NHWCForm), 0)
}
