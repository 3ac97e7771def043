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

	"golang.org/x/sys/unix"

	"github.com/batchfs/batchfs/internal/testkit"
	"github.com/batchfs/batchfs/layout"
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
