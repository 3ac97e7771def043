package integration

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"github.com/batchfs/batchfs/internal/testkit"
	"github.com/batchfs/batchfs/layout"
)

func (m *mounted) signal(t testing.TB, s syscall.Signal) {
	t.Helper()
	check(t, m.Cmd.Process.Signal(s))
}

// awaitLog waits until the daemon has written words to the user or the log.
func (m *mounted) awaitLog(t testing.TB, words string) {
	t.Helper()
	eventually(t, "the daemon says: "+words, func() bool { return strings.Contains(m.logged(), words) })
}

// unmounted checks that nothing is left at a mountpoint.
func unmounted(t testing.TB, dir string) {
	t.Helper()
	if left, err := testkit.MountsBelow(dir); err != nil || len(left) > 0 {
		t.Errorf("still mounted: %v %v", left, err)
	}
}

// TestBusyMount: after the first signal, whichever it is, a mount in use serves everything, even
// new opens, until its last user has gone, and says so once, in an ordinary line. The second signal
// detaches it. Its users can continue: with passthrough without the daemon; with direct, the daemon
// serves open files until they are closed, or until a third signal.
func TestBusyMount(t *testing.T) {
	const side = 128
	dataset := tiles(t, 16, side)
	eachReadPath(t, func(t *testing.T, path string) {
		for signals := 1; signals < 3 || signals == 3 && path == "direct"; signals++ {
			s := []syscall.Signal{syscall.SIGINT, syscall.SIGTERM}[signals%2]
			m := tileMount(t, dataset, "--read-path", path, "--log-format", "json")
			holders := map[string]*partner{
				"open": m.hold(t, "open", 0, side, layout.NHWCForm), "mapped": m.hold(t, "mapped", 1, side, layout.NHWCForm),
				"untouched": m.hold(t, "untouched", 2, side, layout.NPY),
			}
			m.signal(t, s)
			m.awaitLog(t, m.dir+" is in use and will be unmounted when nobody uses it any more")
			stillSame(t, "after the first signal", holders)
			if err := readTiles(m, 1, 2, side, layout.NHWCForm); err != nil {
				t.Errorf("after the first signal: %v", err)
			}
			if signals > 1 {
				m.signal(t, s)
				if path == "direct" {
					m.awaitLog(t, "detached "+m.dir)
					m.awaitLog(t, "until a third signal")
				} else {
					m.wait(t)
				}
				unmounted(t, m.dir)
				stillSame(t, "after the second signal", holders)
			}
			if signals > 2 {
				m.signal(t, s)
				m.wait(t)
			}
			endAll(holders)
			m.wait(t)
			unmounted(t, m.dir)
			for line := range strings.Lines(m.logged()) {
				if !json.Valid([]byte(line)) {
					t.Errorf("no JSON: %q", line)
				}
			}
			if n := strings.Count(m.logged(), "is in use"); n != 1 {
				t.Errorf("it says %d times that it is in use", n)
			}
			m.finish(t)
		}
	})
}

// TestBusyByWaiting: an open that waits keeps a mount busy. Detaching the mount ends the
// wait one way or the other.
func TestBusyByWaiting(t *testing.T) {
	eachReadPath(t, func(t *testing.T, path string) {
		s := newStorage(t)
		m := tileMount(t, s.dir, "--read-path", path)
		defer s.order(t, "heal")
		s.stall(t, 0)
		waits := m.partner(t, opener, m.path(0, 0, 0, layout.NHWCForm))
		m.awaitWaiting(t, 1)
		execute(t, "umount", m.dir).failed(t, fmt.Sprintf("(process %d) uses shard-0/epoch-0/batch-00000.nhwc", waits.Cmd.Process.Pid))
		m.signal(t, syscall.SIGINT)
		m.awaitLog(t, "is in use")
		m.signal(t, syscall.SIGINT)
		eventually(t, "the mount is gone", func() bool {
			left, err := testkit.MountsBelow(m.dir)
			return err == nil && len(left) == 0
		})
		s.order(t, "heal")
		if got := waits.line(t); got != "ENOTCONN" && got != "ECONNABORTED" && !strings.HasPrefix(got, "open") {
			t.Errorf("the open that waited ended with %s", got)
		}
		waits.end()
		m.wait(t)
		m.finish(t)
	})
}

// TestUmountCommand unmounts from another process: refused while in use, unless lazy.
func TestUmountCommand(t *testing.T) {
	const side = 16
	dataset := tiles(t, 16, side)
	umount := func(t *testing.T, args ...string) outcome {
		t.Helper()
		return execute(t, append([]string{"umount"}, args...)...)
	}
	t.Run("unused", func(t *testing.T) {
		m := tileMount(t, dataset)
		umount(t, m.dir).done(t)
		m.wait(t)
		unmounted(t, m.dir)
		umount(t, m.dir).failed(t, "no batchfs is mounted there", "findmnt")
		umount(t, m.dir+"/nothing").failed(t, "no such file or directory")
		umount(t, m.dir+"/no/thing").failed(t, "no such file or directory")
	})
	t.Run("in use", func(t *testing.T) {
		m := tileMount(t, dataset)
		holders := map[string]*partner{"mapped": m.hold(t, "mapped", 0, side, layout.NHWCForm), "open": m.hold(t, "open", 1, side, layout.NHWCForm)}
		batch := func(i int) string { return strings.TrimPrefix(m.path(0, 0, i, layout.NHWCForm), m.dir+"/") }
		umount(t, m.dir).failed(t, m.dir+" is in use: ", fmt.Sprintf("(process %d) uses %s", holders["mapped"].Cmd.Process.Pid, batch(0)),
			fmt.Sprintf("(process %d) uses %s", holders["open"].Cmd.Process.Pid, batch(1)), "umount --lazy "+m.dir)
		m.expectTiles(t, 0, 2, side, layout.NHWCForm)
		umount(t, "--lazy", m.dir).done(t)
		unmounted(t, m.dir)
		stillSame(t, "after the lazy umount", holders)
		endAll(holders)
		m.wait(t)
	})
	t.Run("by a working directory", func(t *testing.T) {
		m := tileMount(t, dataset)
		cmd := m.command("cat")
		cmd.Dir = m.epochDir(0, 0)
		sits := startPartner(t, cmd)
		umount(t, m.dir).failed(t, fmt.Sprintf("is in use: cat (process %d) uses shard-0/epoch-0", cmd.Process.Pid))
		sits.end()
		umount(t, m.dir).done(t)
		m.wait(t)
	})
	t.Run("by umount itself", func(t *testing.T) {
		program := needTool(t, "umount")
		if thisUser().name != "root" {
			program = needTool(t, "fusermount3") + " -u"
		}
		m := tileMount(t, dataset)
		m.run(t, append(strings.Fields(program), m.dir)...)
		m.wait(t)
	})
	t.Run("twice at once", func(t *testing.T) {
		m := tileMount(t, dataset)
		m.signal(t, syscall.SIGTERM)
		if out, err := exec.Command(suite.binary, "umount", m.dir).CombinedOutput(); err != nil && !strings.Contains(string(out), "no batchfs is mounted there") {
			t.Errorf("%v: %s", err, out)
		}
		m.wait(t)
	})
	t.Run("something else", func(t *testing.T) {
		umount(t, dataset).failed(t, "no batchfs is mounted there")
		umount(t, "/proc").failed(t, "no batchfs is mounted there")
	})
}

// readOneOf reads the first batch, of 2x2 tiles.
func (m *mounted) readOneOf(t testing.TB) {
	t.Helper()
	if err := readTiles(m, 0, 0, 2, layout.NHWCForm); err != nil {
		t.Error(fmt.Errorf("%s: %w", m.dir, err))
	}
}

// TestOwnerEnds: when the program that owns a mount has ended, the mount ends as soon as nobody
// uses it, and takes its mountpoint along.
func TestOwnerEnds(t *testing.T) {
	skipWithoutFUSE(t)
	dataset := tiles(t, 8, 2)
	for name, used := range map[string]bool{"unused": false, "in use": true} {
		t.Run(name, func(t *testing.T) {
			dir := mountpoint(t)
			theirs, ours, err := os.Pipe()
			check(t, err)
			defer ours.Close()
			cmd := thisUser().daemon([]string{suite.binary, "mount", "--daemon", "--owner-fd=3", "--temporary-mountpoint", "--batch-size=4", dataset, dir})
			cmd.ExtraFiles = []*os.File{theirs}
			executeAs(t, cmd).done(t)
			theirs.Close()
			d := findDaemon(t, dir)
			held, err := os.Open(d.path(0, 0, 0, layout.NHWCForm))
			check(t, err)
			if !used {
				held.Close()
			}
			ours.Close()
			if used {
				d.readOneOf(t) // new opens, too
				held.Close()
			}
			d.gone(t)
			if _, err := os.Stat(dir); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("its mountpoint: %v", err)
			}
		})
	}
}
