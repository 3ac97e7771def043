package integration

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/batchfs/batchfs/layout"
)

// as runs a program as this user, in the namespace of the tests.
func as(id uint32, args ...string) *exec.Cmd {
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Dir, cmd.Env = "/", thisUser().environment()
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: id, Gid: id}}
	return cmd
}

// TestOtherUsers: with --allow-other, a mount by root serves others as far as its file
// modes permit; without, it does not.
func TestOtherUsers(t *testing.T) {
	root(t)
	const side, stranger = 16, 4321
	dataset := tiles(t, 16, side)
	type access struct {
		user       uint32
		list, read bool // what this user may do
	}
	owned, grouped := []string{"--allow-other", "--uid", "65534", "--file-mode", "0400", "--dir-mode", "0500"}, []string{"--allow-other", "--gid", "65534", "--file-mode", "0040", "--dir-mode", "0050"}
	for _, test := range []struct {
		flags []string
		users []access
	}{
		{nil, []access{{ordinaryID, false, false}}},
		{[]string{"--allow-other"}, []access{{ordinaryID, true, true}}},
		{[]string{"--allow-other", "--file-mode", "0400"}, []access{{ordinaryID, true, false}}},
		{[]string{"--allow-other", "--dir-mode", "0700"}, []access{{ordinaryID, false, false}}},
		{[]string{"--allow-other", "--dir-mode", "0711"}, []access{{ordinaryID, false, true}}},
		{owned, []access{{ordinaryID, true, true}, {stranger, false, false}}},
		{grouped, []access{{ordinaryID, true, true}, {stranger, false, false}}},
	} {
		m := tileMount(t, dataset, test.flags...)
		file := m.path(0, 0, 1, layout.NHWCForm)
		for _, u := range test.users {
			for _, try := range []struct {
				what string
				args []string
				may  bool
			}{
				{"list the mount", []string{"ls", m.dir}, u.list},
				{"list an epoch", []string{"ls", m.epochDir(0, 0)}, u.list},
				{"read a batch", []string{"sha256sum", file}, u.read},
				{"read the statistics", []string{"cat", filepath.Join(m.dir, ".batchfs", "stats.json")}, u.read},
			} {
				_, err := output(as(u.user, try.args...))
				if (err == nil) != try.may || err != nil && !strings.Contains(strings.ToLower(err.Error()), "permission denied") {
					t.Errorf("%v: may user %d %s: %v", test.flags, u.user, try.what, err)
				}
			}
			if _, err := output(as(u.user, suite.binary, "umount", m.dir)); err == nil {
				t.Errorf("user %d unmounted what root has mounted", u.user)
			}
			if test.flags == nil {
				isKeptOut(t, u.user, file, "stats", m.dir)
				isKeptOut(t, u.user, file, "why", file)
			}
		}
		if err := readTiles(m, 0, 1, side, layout.NHWCForm); err != nil { // root always may
			t.Error(err)
		}
		m.finish(t)
	}
}

// isKeptOut tests that a command says whom to ask about a mount of somebody else, which lives, and
// names no file that its user did not.
func isKeptOut(t *testing.T, user uint32, file string, command ...string) {
	t.Helper()
	_, err := output(as(user, append([]string{suite.binary}, command...)...))
	if err == nil || !strings.Contains(err.Error(), "permission denied") || !strings.Contains(err.Error(), "hint: ask as the user who mounted it") ||
		strings.Contains(err.Error(), filepath.Join(file, ".batchfs")) {
		t.Errorf("%s for user %d: %v", command[0], user, err)
	}
}

// TestMountpointOfOthers: a mountpoint that the user may not write to is refused before the dataset
// is opened.
func TestMountpointOfOthers(t *testing.T) {
	root(t)
	dir := scratch(t)
	_, err := output(as(ordinaryID, suite.binary, "mount", dir+"-missing", dir))
	if want := "mountpoint " + dir + ": permission denied\nbatchfs: hint: choose a directory that you may write to"; err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("%v, want %s", err, want)
	}
}

// TestOrdinaryUsersMount: an ordinary user's mount is accessible to that user alone; even
// root is kept out.
func TestOrdinaryUsersMount(t *testing.T) {
	const side = 16
	user := ordinaryUser(t)
	m := mountAs(t, user, tiles(t, 16, side), "--batch-size", "4")
	p := m.hold(t, "mapped", 1, side, layout.NHWCForm)
	p.tell(t, "look")
	p.expect(t, "same")
	if _, err := m.try(suite.binary, "umount", m.dir); err == nil || !strings.Contains(err.Error(), m.dir+" is in use") {
		t.Errorf("unmounted while a batch is mapped: %v", err)
	}
	p.end()
	if s := m.stats(t); s.ReadPath != "direct" {
		t.Errorf("an ordinary user reads by %s", s.ReadPath)
	}
	if user.id >= 0 {
		outsider := root(t)
		if _, err := output(exec.Command("nsenter", "--mount", "--target", pidOf(m), "--", "cat", m.path(0, 0, 0, layout.JSON))); err == nil {
			t.Errorf("%s reads what an ordinary user has mounted", outsider)
		}
	}
	if _, err := m.try(suite.binary, "mount", m.dataset, m.dir); err == nil || !strings.Contains(err.Error(), "mounted there already") {
		t.Errorf("a mount over the mount: %v", err)
	}
}

// TestOrdinaryUsersDaemonKilled: an unprivileged user can clear the mount of a killed
// daemon, with umount or by mounting again.
func TestOrdinaryUsersDaemonKilled(t *testing.T) {
	const side = 16
	user := ordinaryUser(t)
	dataset := tiles(t, 16, side)
	m := mountAs(t, user, dataset, "--batch-size", "4")
	// A process has to keep the daemon's namespace alive.
	stays := m.partner(t, "import sys\nprint('here', flush=True)\nsys.stdin.read()")
	stays.expect(t, "here")
	reader := func(args ...string) *exec.Cmd {
		cmd := user.reader(stays.Cmd.Process.Pid, args)
		cmd.Dir = "/"
		return cmd
	}
	log := filepath.Join(user.home, "log")
	if user.home == "" {
		log = filepath.Join(scratch(t), "log")
	}
	m.kill(t)
	if out, err := output(reader("ls", m.dir)); err == nil || !strings.Contains(err.Error(), "not connected") {
		t.Errorf("the daemon is dead, but: %s %v", out, err)
	}
	for _, clear := range []string{"umount", "mount"} {
		if clear == "umount" {
			executeAs(t, reader(suite.binary, "umount", m.dir)).done(t)
		}
		executeAs(t, reader(suite.binary, "mount", "--daemon", "--log-file", log, "--batch-size", "4", dataset, m.dir)).done(t)
		again := mountOf(stays.Cmd.Process, m.dir, user)
		p := again.hold(t, "mapped", 1, side, layout.NHWCForm)
		p.tell(t, "look")
		p.expect(t, "same")
		p.end()
		if clear == "umount" { // so that the next attempt finds it dead again
			var config struct{ PID int }
			again.document(t, ".batchfs/config.json", &config)
			check(t, unix.Kill(config.PID, unix.SIGKILL))
			eventually(t, "the daemon is dead", func() bool {
				_, err := output(reader("stat", "-f", m.dir))
				return err != nil
			})
			continue
		}
		executeAs(t, reader(suite.binary, "umount", m.dir)).done(t)
	}
}

func pidOf(m *mounted) string { return strconv.Itoa(m.pid()) }

// TestNothingCanBeWritten: each way to change a file is refused with the appropriate errno.
func TestNothingCanBeWritten(t *testing.T) {
	const side = 128
	dataset := tiles(t, 8, side)
	eachReadPath(t, func(t *testing.T, path string) {
		m := tileMount(t, dataset, "--read-path", path)
		batch, other := m.path(0, 0, 0, layout.NHWCForm), m.path(0, 0, 0, layout.NPY)
		for _, name := range []string{batch, other, m.path(0, 0, 0, layout.JSON), filepath.Join(m.dir, "dataset.json"), filepath.Join(m.dir, ".batchfs", "stats.json")} {
			for _, flags := range []int{unix.O_WRONLY, unix.O_RDWR, unix.O_RDONLY | unix.O_TRUNC, unix.O_RDWR | unix.O_CREAT, unix.O_WRONLY | unix.O_APPEND} {
				if got, err := openErrno(name, flags); err != nil || got != unix.EROFS {
					t.Errorf("open %s with flags %#x: %v %v", name, flags, got, err)
				}
			}
		}
		dir := m.epochDir(0, 0)
		fd, err := unix.Open(batch, unix.O_RDONLY|unix.O_CLOEXEC, 0)
		check(t, err)
		defer unix.Close(fd)
		now := []unix.Timespec{{Sec: 1}, {Sec: 1}}
		_, createErr := unix.Open(dir+"/new", unix.O_CREAT|unix.O_RDWR, 0o600)
		_, tmpErr := unix.Open(dir, unix.O_TMPFILE|unix.O_RDWR, 0o600)
		_, writeErr := unix.Write(fd, []byte("x"))
		for what, try := range map[string]struct {
			got error
			may []unix.Errno
		}{
			"create":    {createErr, []unix.Errno{unix.EROFS}},
			"tmpfile":   {tmpErr, []unix.Errno{unix.EROFS, unix.EOPNOTSUPP}},
			"write":     {writeErr, []unix.Errno{unix.EBADF}},
			"truncate":  {unix.Truncate(batch, 0), []unix.Errno{unix.EROFS}},
			"ftruncate": {unix.Ftruncate(fd, 0), []unix.Errno{unix.EINVAL, unix.EROFS}},
			"fallocate": {unix.Fallocate(fd, 0, 0, 1), []unix.Errno{unix.EBADF}},
			"unlink":    {unix.Unlink(batch), []unix.Errno{unix.EROFS}},
			"rmdir":     {unix.Rmdir(dir), []unix.Errno{unix.EROFS}},
			"mkdir":     {unix.Mkdir(dir+"/new", 0o700), []unix.Errno{unix.EROFS}},
			"mkfifo":    {unix.Mkfifo(dir+"/new", 0o700), []unix.Errno{unix.EROFS}},
			"rename":    {unix.Rename(batch, batch+"x"), []unix.Errno{unix.EROFS}},
			"link":      {unix.Link(batch, dir+"/new"), []unix.Errno{unix.EROFS}},
			"symlink":   {unix.Symlink(batch, dir+"/new"), []unix.Errno{unix.EROFS}},
			"chmod":     {unix.Chmod(batch, 0o777), []unix.Errno{unix.EROFS}},
			"fchmod":    {unix.Fchmod(fd, 0o777), []unix.Errno{unix.EROFS}},
			"chown":     {unix.Chown(batch, 1, 1), []unix.Errno{unix.EROFS}},
			"utimes":    {unix.UtimesNanoAt(unix.AT_FDCWD, batch, now, 0), []unix.Errno{unix.EROFS}},
			"setxattr":  {unix.Setxattr(batch, "user.x", []byte("y"), 0), []unix.Errno{unix.EROFS}},
			"rmxattr":   {unix.Removexattr(batch, "user.batchfs.shape"), []unix.Errno{unix.EROFS}},
			"map":       {writableMap(fd, 4096), []unix.Errno{unix.EACCES}},
			"mprotect":  {madeWritable(fd, 4096), []unix.Errno{unix.EACCES}},
		} {
			var errno unix.Errno
			found := false
			if errors.As(try.got, &errno) {
				for _, may := range try.may {
					found = found || errno == may
				}
			}
			if !found {
				t.Errorf("%s: %v, want one of %v", what, try.got, try.may)
			}
		}
		for _, form := range []layout.Form{layout.NHWCForm, layout.NPY} {
			m.expectTiles(t, 0, 0, side, form)
		}
		if names, err := os.ReadDir(dir); err != nil || len(names) != 1+2*3 {
			t.Errorf("%d names (%v)", len(names), err)
		}
	})
}

// writableMap maps a file shared and writable.
func writableMap(fd, size int) error {
	data, err := unix.Mmap(fd, 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err == nil {
		_ = unix.Munmap(data)
	}
	return err
}

// madeWritable tries the same in two steps.
func madeWritable(fd, size int) error {
	data, err := unix.Mmap(fd, 0, size, unix.PROT_READ, unix.MAP_SHARED)
	if err != nil {
		return nil // does not count as the failure under test
	}
	defer func() { _ = unix.Munmap(data) }()
	return unix.Mprotect(data, unix.PROT_READ|unix.PROT_WRITE)
}
