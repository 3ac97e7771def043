package integration

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/batchfs/batchfs/internal/testkit"
	"github.com/batchfs/batchfs/layout"
)

// stopped waits until every thread of a process is suspended: any of them may take a request.
func stopped(t testing.TB, pid int) {
	t.Helper()
	eventually(t, "the process is suspended", func() bool {
		threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", pid))
		if err != nil || len(threads) == 0 {
			t.Fatalf("process %d has no threads: %v", pid, err)
		}
		return !slices.ContainsFunc(threads, func(name string) bool {
			text, _ := os.ReadFile(name) // a thread that ended meanwhile was not suspended
			_, rest, _ := strings.Cut(string(text), ") ")
			return !strings.HasPrefix(rest, "T")
		})
	})
}

// TestLateDaemon: a daemon is suspended while its mount is detached and another one is made
// at the same place. When it wakes, it leaves the new mount alone, though the kernel may
// reuse the old mount's numbers.
func TestLateDaemon(t *testing.T) {
	root(t)
	dataset := tiles(t, 8, 2)
	for _, signalled := range []bool{false, true} {
		reused := false
		for spare := 0; spare < 4 && !reused; spare++ { // numbers for the mounts that the other daemon makes before its tree
			t.Run(fmt.Sprintf("%d spare numbers, signalled %v", spare, signalled), func(t *testing.T) {
				free := takeMounts(t, spare)
				late := tileMount(t, dataset)
				number := mountNumber(t, late.dir)
				late.signal(t, syscall.SIGSTOP)
				stopped(t, late.pid())
				check(t, unix.Unmount(late.dir, unix.MNT_DETACH))
				free()
				other := late.remount(t, "--batch-size", "4")
				reused = mountNumber(t, other.dir) == number
				if signalled { // it tries to unmount what it takes for its mount
					late.signal(t, syscall.SIGTERM)
				}
				late.signal(t, syscall.SIGCONT)
				late.wait(t)
				late.ended = true
				if left, err := testkit.MountsBelow(other.dir); err != nil || len(left) != 1 {
					t.Fatalf("the other mount is gone: %v %v", left, err)
				}
				if log := late.logged(); strings.Contains(log, "aborted") {
					t.Errorf("it believes that its mount was aborted:\n%s", log)
				}
				other.readOneOf(t)
				other.finish(t)
			})
		}
		if !reused {
			t.Log("SKIPPED: the kernel never gave the number of a mount again, which is what is to be tested")
		}
	}
}

// takeMounts makes n mounts to use up numbers; free releases them.
func takeMounts(t testing.TB, n int) (free func()) {
	t.Helper()
	var dirs []string
	for range n {
		dir := scratch(t)
		check(t, unix.Mount("tmpfs", dir, "tmpfs", 0, ""))
		dirs = append(dirs, dir)
	}
	free = func() {
		for _, dir := range dirs {
			if err := unix.Unmount(dir, 0); err != nil {
				t.Error(err)
			}
		}
		dirs = nil
	}
	t.Cleanup(free)
	return free
}

// mountNumber is a mount's number in mountinfo.
func mountNumber(t testing.TB, dir string) string {
	t.Helper()
	text := mustRead(t, "/proc/self/mountinfo")
	for line := range strings.Lines(string(text)) {
		if fields := strings.Fields(line); len(fields) > 4 && fields[4] == dir {
			return fields[0]
		}
	}
	t.Fatalf("nothing is mounted at %s", dir)
	return ""
}

// TestMovedMount: a mount moved elsewhere ends with one signal, and a new mount in its old
// place stays.
func TestMovedMount(t *testing.T) {
	root(t)
	m := tileMount(t, tiles(t, 8, 2))
	elsewhere := filepath.Join(scratch(t), "elsewhere")
	check(t, os.Mkdir(elsewhere, 0o755))
	if err := unix.Mount(m.dir, elsewhere, "", unix.MS_MOVE, ""); err != nil {
		t.Skipf("SKIPPED: no mount can be moved here: %v", err)
	}
	check(t, unix.Mount("tmpfs", m.dir, "tmpfs", 0, ""))
	m.signal(t, syscall.SIGTERM)
	m.wait(t)
	unmounted(t, elsewhere)
	if left, err := testkit.MountsBelow(m.dir); err != nil || !slices.Equal(left, []string{m.dir}) {
		t.Errorf("at the old place: %v %v", left, err)
	}
	if err := unix.Unmount(m.dir, 0); err != nil {
		t.Error(err)
	}
	m.finish(t)
}

// heldElsewhere starts a process in a mount namespace with a copy of a mount.
func (m *mounted) heldElsewhere(t testing.TB) *partner {
	t.Helper()
	root(t)
	p := startPartner(t, thisUser().daemon([]string{needTool(t, "unshare"), "--mount", "--propagation", "private", "--", "cat"}))
	p.tell(t, "there") // it runs once it answers
	p.expect(t, "there")
	return p
}

// TestOtherNamespace: a mount namespace created while the mount existed keeps it alive. The
// daemon and umount name its processes. The daemon ends when they are gone, or with a
// signal.
func TestOtherNamespace(t *testing.T) {
	root(t)
	dataset := tiles(t, 8, 2)
	for _, end := range []string{"they end", "a signal", "a signal only"} {
		t.Run(end, func(t *testing.T) {
			m := tileMount(t, dataset)
			holder := m.heldElsewhere(t)
			who := fmt.Sprintf("process %d (cat) in another mount namespace", holder.Cmd.Process.Pid)
			if end == "a signal only" {
				m.signal(t, syscall.SIGTERM)
			} else {
				o := execute(t, "umount", m.dir).done(t)
				if !strings.Contains(o.stderr, who) {
					t.Errorf("umount said %q", o.stderr)
				}
				m.awaitLog(t, who)
				if !m.Running() {
					t.Error("the daemon has ended")
				}
				if end == "they end" {
					holder.end()
				} else {
					m.signal(t, syscall.SIGTERM)
				}
			}
			m.wait(t)
			unmounted(t, m.dir)
			if log := m.logged(); !strings.Contains(log, who) {
				t.Errorf("the log does not say who holds it:\n%s", log)
			}
			holder.end()
			m.finish(t)
		})
	}
}

// TestDeviceIsClosedByExec: child processes of the daemon do not inherit its device.
func TestDeviceIsClosedByExec(t *testing.T) {
	m := tileMount(t, tiles(t, 8, 2))
	m.expectTiles(t, 0, 0, 2, layout.NHWCForm)
	dir := fmt.Sprintf("/proc/%d/fd", m.pid())
	entries, err := os.ReadDir(dir)
	check(t, err)
	found := 0
	for _, e := range entries {
		if name, err := os.Readlink(filepath.Join(dir, e.Name())); err != nil || name != "/dev/fuse" {
			continue
		}
		found++
		text := mustRead(t, fmt.Sprintf("/proc/%d/fdinfo/%s", m.pid(), e.Name()))
		var flags int
		for line := range strings.Lines(string(text)) {
			_, _ = fmt.Sscanf(line, "flags: %o", &flags)
		}
		if flags&unix.O_CLOEXEC == 0 {
			t.Errorf("descriptor %s survives exec: flags %o", e.Name(), flags)
		}
	}
	if found == 0 {
		t.Error("the daemon has no device")
	}
}
