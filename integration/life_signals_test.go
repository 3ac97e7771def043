package integration

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/batchfs/batchfs/internal/testkit"
	"github.com/batchfs/batchfs/layout"
	"golang.org/x/sys/unix"
)

// TestHangupReopensLog: after the log file is renamed, SIGHUP makes the daemon open a new
// one and does nothing else.
func TestHangupReopensLog(t *testing.T) {
	log := filepath.Join(scratch(t), "batchfs.log")
	m := tileMount(t, tiles(t, 8, 2), "--log-file", log)
	eventually(t, "the log says that it is mounted", func() bool {
		text, err := os.ReadFile(log)
		return err == nil && bytes.Contains(text, []byte("msg=mounted"))
	})
	check(t, os.Rename(log, log+".1"))
	m.signal(t, syscall.SIGHUP)
	// A new file does not say yet that the daemon writes there, and no longer to the old one.
	eventually(t, "the daemon has let go of the old log file", func() bool {
		open, err := testkit.OpenFiles(m.pid())
		return err == nil && !slices.Contains(open, log+".1")
	})
	m.readOneOf(t)
	m.signal(t, syscall.SIGINT)
	m.wait(t)
	if text, err := os.ReadFile(log); err != nil || len(text) == 0 {
		t.Errorf("the new log: %q %v", text, err)
	}
}

// TestLogThatNobodyReads: a daemon that logs to a pipe survives when the pipe is full, and
// when its reader is gone.
func TestLogThatNobodyReads(t *testing.T) {
	skipWithoutFUSE(t)
	const bad = 1000 // their log lines exceed the capacity of a pipe
	for _, gone := range []bool{false, true} {
		t.Run(fmt.Sprintf("reader gone %v", gone), func(t *testing.T) {
			dataset, dir := filepath.Join(scratch(t), "tiles"), filepath.Join(scratch(t), "mnt")
			for id := range bad + 1 {
				text := tileFile(id, 2)
				if id < bad {
					text = text[:len(text)-1]
				}
				writeFile(t, filepath.Join(dataset, tileName(id)), text)
			}
			check(t, os.Mkdir(dir, 0o755))
			read, write, err := os.Pipe()
			check(t, err)
			defer read.Close()
			cmd := thisUser().daemon([]string{suite.binary, "mount", "--batch-size", "1", "--prefetch-queue-depth", "0", dataset, dir})
			cmd.Dir, cmd.Stderr = "/", write
			d, err := testkit.StartDaemon(cmd, dir+".log", patience)
			check(t, err)
			write.Close()
			m := &mounted{dir: dir, dataset: dataset, user: thisUser(), Daemon: d}
			if gone {
				read.Close()
			}
			for id := range bad {
				expectOpen(t, m.path(0, 0, id, layout.NHWCForm), unix.EIO)
			}
			expectOpen(t, m.path(0, 0, bad, layout.NHWCForm), 0)
			if n := m.stats(t).Errors; n != bad {
				t.Errorf("%d errors are counted", n)
			}
			execute(t, "umount", dir).done(t)
			m.wait(t)
			if m.Err != nil {
				t.Errorf("the daemon ended with %v", m.Err)
			}
		})
	}
}

// waitsInKernel waits until some thread of a process waits for a file system in user space.
func waitsInKernel(t testing.TB, pid int) {
	t.Helper()
	eventually(t, "it waits for the mount", func() bool {
		names, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/wchan", pid))
		for _, name := range names {
			if text, err := os.ReadFile(name); err == nil && (bytes.Contains(text, []byte("request_wait")) || bytes.Contains(text, []byte("fuse"))) {
				return true
			}
		}
		return false
	})
}

// TestSuspendedDaemon: commands that access a mount with a suspended daemon can be
// interrupted.
func TestSuspendedDaemon(t *testing.T) {
	m := tileMount(t, tiles(t, 8, 2))
	if text, err := os.ReadFile("/proc/self/wchan"); err != nil || len(text) == 0 {
		t.Skip("SKIPPED: this kernel does not say where a process waits")
	}
	m.signal(t, syscall.SIGSTOP)
	defer m.signal(t, syscall.SIGCONT)
	stopped(t, m.pid())
	for _, args := range [][]string{{"stats"}, {"stats", "--json"}, {"umount"}} {
		for _, s := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM} {
			cmd := m.command(append(append([]string{suite.binary}, args...), m.dir)...)
			var words bytes.Buffer
			cmd.Stderr = &words
			check(t, cmd.Start())
			waitsInKernel(t, cmd.Process.Pid)
			check(t, cmd.Process.Signal(s))
			endsWith(t, cmd, &words)
		}
	}
}

// endsWith waits for a command that was interrupted.
func endsWith(t testing.TB, cmd *exec.Cmd, words *bytes.Buffer) {
	t.Helper()
	var exit *exec.ExitError
	if err := cmd.Wait(); !errors.As(err, &exit) || exit.ExitCode() != 1 || !strings.HasPrefix(words.String(), "batchfs: error: interrupted") {
		t.Errorf("%s ended with %v, saying %q", strings.Join(cmd.Args, " "), err, words)
	}
}

// TestStoppedWhileStorageHangs: every command that reads a dataset ends on a signal even if
// its storage hangs.
func TestStoppedWhileStorageHangs(t *testing.T) {
	skipWithoutFUSE(t)
	for _, args := range [][]string{
		{"index", "DATASET"}, {"verify", "DATASET"}, {"plan", "DATASET"}, {"mount", "DATASET", "OUT"},
		{"convert", "--raw-ratio", "0", "DATASET", "OUT/x"},
	} {
		t.Run(args[0], func(t *testing.T) {
			t.Parallel()
			s := newStorage(t)
			defer s.order(t, "heal")
			s.stall(t, 5)
			out := filepath.Join(scratch(t), "out")
			check(t, os.Mkdir(out, 0o755))
			words := []string{suite.binary}
			for _, a := range args {
				words = append(words, strings.NewReplacer("DATASET", s.dir, "OUT", out).Replace(a))
			}
			cmd := thisUser().daemon(words)
			var complaint bytes.Buffer
			cmd.Stderr = &complaint
			check(t, cmd.Start())
			s.awaitStalled(t, 1)
			check(t, cmd.Process.Signal(syscall.SIGTERM))
			endsWith(t, cmd, &complaint)
			unmounted(t, out)
		})
	}
}

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
