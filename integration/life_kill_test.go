package integration

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/batchfs/batchfs/internal/testkit"
	"github.com/batchfs/batchfs/layout"
)

// kill ends the daemon with SIGKILL, like an out-of-memory killer.
func (m *mounted) kill(t testing.TB) {
	t.Helper()
	check(t, m.Cmd.Process.Kill())
	m.wait(t)
}

// remount mounts the same dataset at the same place after m's daemon has died.
func (m *mounted) remount(t testing.TB, flags ...string) *mounted {
	t.Helper()
	again, err := startMount(m.user, filepath.Dir(m.dir), m.dataset, flags...)
	check(t, err)
	t.Cleanup(func() { again.finish(t) })
	return again
}

// TestDaemonKilled: with passthrough, files and mappings that a process has open outlive
// the daemon, including parts not read before. The dead mount can be cleared and mounted
// again without affecting that process. Reads through the daemon fail.
func TestDaemonKilled(t *testing.T) {
	const side = 128 // several large reads and many pages per batch
	dataset := tiles(t, 32, side)
	eachReadPath(t, func(t *testing.T, path string) {
		for _, clear := range []string{"umount", "mount"} {
			t.Run(clear, func(t *testing.T) {
				flags := []string{"--batch-size", "4", "--read-path", path}
				m := tileMount(t, dataset, flags...)
				holders := map[string]*partner{}
				look := func(when string) {
					if path == "passthrough" { // otherwise there is no daemon left to read from
						t.Helper()
						stillSame(t, when, holders)
					}
				}
				for i, mode := range []string{"open", "mapped", "untouched", "forked", "on its way"} {
					holders[mode] = m.hold(t, mode, i, side, layout.NPY)
				}
				read, err := os.Open(m.path(0, 0, 6, layout.NHWCForm))
				check(t, err)
				defer read.Close()
				m.kill(t)
				if _, err := read.ReadAt(make([]byte, 16), 0); path == "direct" && !errors.Is(err, unix.ENOTCONN) && !errors.Is(err, unix.ECONNABORTED) {
					t.Errorf("reading what is open says %v", err)
				}
				look("after the daemon was killed")
				expectOpen(t, m.path(0, 0, 7, layout.NHWCForm), unix.ENOTCONN)
				if clear == "umount" {
					if out, err := output(m.user.reader(0, []string{suite.binary, "umount", m.dir})); err != nil {
						t.Fatal(out, err)
					}
					if left, err := testkit.MountsBelow(m.dir); err != nil || len(left) > 0 {
						t.Fatalf("the dead mount is still there: %v %v", left, err)
					}
				}
				again := m.remount(t, flags...)
				look("after another mount")
				again.readEpochs(t, side, 4)
				look("after the other mount was read")
				endAll(holders)
				again.finish(t)
			})
		}
	})
}

// readEpochs reads all batches of a dataset of 8, over some epochs.
func (m *mounted) readEpochs(t testing.TB, side, epochs int) {
	t.Helper()
	for epoch := range epochs {
		for batch := range 8 {
			check(t, readTiles(m, epoch, batch, side, layout.NHWCForm))
		}
	}
}

// TestKilledWhileOpensWait: opens that wait for a batch fail when the daemon dies, and do
// not wait forever.
func TestKilledWhileOpensWait(t *testing.T) {
	s := newStorage(t)
	m := tileMount(t, s.dir)
	defer s.order(t, "heal")
	s.stall(t, 0)
	waits := m.partner(t, opener, m.path(0, 0, 0, layout.NHWCForm))
	m.awaitWaiting(t, 1)
	check(t, m.Cmd.Process.Kill())
	s.order(t, "heal") // a thread of the daemon waits there and cannot die before
	m.wait(t)
	if got := waits.line(t); got != "ENOTCONN" && got != "ECONNABORTED" {
		t.Errorf("the open that waited ended with %s", got)
	}
	again := m.remount(t, "--batch-size", "4")
	again.expectTiles(t, 0, 0, storageSide, layout.NHWCForm)
	again.finish(t)
}
