package integration

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/batchfs/batchfs/layout"
)

// A daemonized is a mount whose daemon is not a child of this process.
type daemonized struct {
	*mounted // only dir is usable
	fd       int
}

// findDaemon adopts a mount made by some command for the duration of the test. It must
// already be live.
func findDaemon(t testing.TB, dir string) *daemonized {
	t.Helper()
	var config struct {
		PID int `json:"pid"`
	}
	text, err := os.ReadFile(filepath.Join(dir, ".batchfs", "config.json"))
	if err == nil {
		err = json.Unmarshal(text, &config)
	}
	if err != nil {
		t.Fatalf("the mount is not live: %v", err)
	}
	fd, err := unix.PidfdOpen(config.PID, 0)
	check(t, err)
	d := &daemonized{&mounted{dir: dir, user: thisUser()}, fd}
	t.Cleanup(func() {
		unmounted(t, dir)
		_ = unix.Unmount(dir, unix.MNT_DETACH)
		d.gone(t)
		_ = unix.Close(fd)
	})
	return d
}

// gone waits for the end of the daemon.
func (d *daemonized) gone(t testing.TB) {
	t.Helper()
	for {
		n, err := unix.Poll([]unix.PollFd{{Fd: int32(d.fd), Events: unix.POLLIN}}, int(patience/time.Millisecond))
		if err == unix.EINTR {
			continue
		}
		if err != nil || n != 1 {
			t.Errorf("the daemon does not end (%v)", err)
			_ = unix.PidfdSendSignal(d.fd, unix.SIGKILL, nil, 0)
		}
		return
	}
}

// mountpoint makes an empty directory.
func mountpoint(t testing.TB) string {
	t.Helper()
	dir := filepath.Join(scratch(t), "mnt")
	check(t, os.Mkdir(dir, 0o755))
	return dir
}

// TestDaemonOption: the command returns once the mount is live, no sooner, and passes on
// the daemon's failure.
func TestDaemonOption(t *testing.T) {
	skipWithoutFUSE(t)
	dataset := tiles(t, 8, 2)
	t.Run("live", func(t *testing.T) {
		dir := mountpoint(t)
		log := filepath.Join(filepath.Dir(dir), "log")
		o := execute(t, "mount", "--daemon", "--batch-size", "4", "--log-file", log, "--log-format", "json", dataset, dir).done(t)
		d := findDaemon(t, dir)
		d.readOneOf(t)
		if want := "batchfs: " + dataset + ": 8 images without labels; pnm 8\n"; o.stderr != want || o.out != "" {
			t.Errorf("the command said %q %q, want %q", o.out, o.stderr, want)
		}
		execute(t, "umount", dir).done(t)
		d.gone(t)
		text := mustRead(t, log)
		checkLog(t, string(text))
		for line := range bytes.Lines(text) {
			if !json.Valid(line) {
				t.Errorf("no JSON in the log: %s", line)
			}
		}
	})
	t.Run("a pipe ends with the command", func(t *testing.T) {
		// A daemon that kept its parent's standard output would keep the shell waiting.
		dir := mountpoint(t)
		const pipe = `"$0" mount --daemon --batch-size 4 "$1" "$2" | cat && exec cat "$2/.batchfs/stats.json"`
		o := executeAs(t, exec.Command("sh", "-c", pipe, suite.binary, dataset, dir)).done(t)
		if !json.Valid([]byte(o.out)) {
			t.Errorf("stats.json is %s", o.out)
		}
		if strings.Count(o.stderr, "msg=mounted") != 1 { // it says what happened until then
			t.Errorf("the command said %q", o.stderr)
		}
		d := findDaemon(t, dir)
		execute(t, "umount", dir).done(t)
		d.gone(t)
	})
	t.Run("by relative paths", func(t *testing.T) {
		dir := mountpoint(t)
		cmd := thisUser().daemon([]string{suite.binary, "mount", "--daemon", "--batch-size=4", "--log-file", "log", dataset, "mnt"})
		cmd.Dir = filepath.Dir(dir)
		executeAs(t, cmd).done(t)
		d := findDaemon(t, dir)
		d.readOneOf(t)
		cmd = thisUser().daemon([]string{suite.binary, "umount", "mnt"})
		cmd.Dir = filepath.Dir(dir)
		executeAs(t, cmd).done(t)
		d.gone(t)
	})
	t.Run("waited for by nobody", func(t *testing.T) { // by a command that was killed meanwhile
		dir := mountpoint(t)
		cmd := thisUser().daemon([]string{suite.binary, "mount", "--child", "--batch-size=4", dataset, dir})
		cmd.Env = append(cmd.Env, "NOTIFY_SOCKET=@batchfs-nobody-"+filepath.Base(filepath.Dir(dir)))
		o := executeAs(t, cmd)
		left, err := os.ReadDir(dir)
		if o.status != 1 || err != nil || len(left) > 0 {
			t.Errorf("status %d; its mountpoint holds %v, %v", o.status, left, err)
		}
	})
	t.Run("fails", func(t *testing.T) {
		full := scratch(t)
		writeFile(t, filepath.Join(full, "file"), nil)
		execute(t, "mount", "--daemon", "/nothing/here", mountpoint(t)).failed(t, "/nothing/here", "does not exist")
		execute(t, "mount", "--daemon", dataset, full).failed(t, "not empty", "mkdir")
		execute(t, "mount", "--daemon", "--shards", "0", dataset, mountpoint(t)).wrong(t, "--shards", `"0"`)
		execute(t, "mount", "--daemon", "--shards", "9", dataset, mountpoint(t)).wrong(t, "--shards", `"9"`)
	})
}

// bootScript mounts as an administrator would, in a separate mount namespace in which the
// test replaces /sbin: BATCHFS DATASET MOUNTPOINT READER
const bootScript = `set -eu
batchfs=$1 dataset=$2 mnt=$3 work=$4
batch=$mnt/shard-0/epoch-0/batch-00000.nhwc
mount -t tmpfs none /sbin
look() {
	[ "$(findmnt -n -o FSTYPE,SOURCE "$mnt" | tr -s ' ')" = "fuse.batchfs $dataset" ]
	sha256sum <"$batch"
	umount "$mnt"
	! findmnt "$mnt"
}
ln -s "$batchfs" /sbin/mount.batchfs
mount -t batchfs -o ro,batch_size=4 "$dataset" "$mnt"
look
printf '%s %s batchfs batch_size=4,list="nhwc,json",nofail,x-systemd.requires=network.target 0 0\n' "$dataset" "$mnt" >"$work/fstab"
mount -T "$work/fstab" "$mnt"
look
! mount -t batchfs -o batch_size=0 "$dataset" "$mnt"
mv /sbin/mount.batchfs /sbin/mount.fuse.batchfs
mount -t fuse.batchfs -o batch_size=4,allow_other "$dataset" "$mnt"
look
if [ -e "$work/mount.fuse" ]; then
	rm /sbin/mount.fuse.batchfs
	cp "$work/mount.fuse" /sbin/mount.fuse
	cp "$batchfs" /sbin/batchfs
	mount -t fuse.batchfs -o batch_size=4 "$dataset" "$mnt"
	look
fi
`

// TestMountProgram: mount(8) and umount(8) work on batchfs, by type and from fstab.
func TestMountProgram(t *testing.T) {
	skipWithoutFUSE(t)
	root(t)
	for _, tool := range []string{"unshare", "mount", "umount", "findmnt", "sha256sum"} {
		needTool(t, tool)
	}
	dataset, dir := tiles(t, 8, 2), mountpoint(t)
	work := filepath.Dir(dir)
	for _, fuse := range []string{"/sbin/mount.fuse3", "/sbin/mount.fuse"} {
		if _, err := os.Stat(fuse); err == nil {
			check(t, copyFile(filepath.Join(work, "mount.fuse"), fuse, 0o755))
			break
		}
	}
	cmd := thisUser().daemon([]string{"unshare", "--mount", "--propagation", "private", "--", "sh", "-c", bootScript, "sh", suite.binary, dataset, dir, work})
	o := executeAs(t, cmd)
	o.ended(t, 0)
	sums := strings.Fields(strings.ReplaceAll(o.out, "-", ""))
	if len(sums) < 3 {
		t.Fatalf("%d batches were read: %s\n%s", len(sums), o.out, o.stderr)
	}
	m := tileMount(t, dataset)
	want := m.digests(t, m.path(0, 0, 0, layout.NHWCForm))[0]
	for i, sum := range sums {
		if sum != want {
			t.Errorf("mount %d: read %s, want %s", i, sum, want)
		}
	}
}

// TestOddPaths: datasets, files and mountpoints may have any name.
func TestOddPaths(t *testing.T) {
	skipWithoutFUSE(t)
	base := scratch(t)
	dataset, dir := filepath.Join(base, "a b,c=\"d\"\\e\n-f"), filepath.Join(base, "m n,o\\p\tq")
	check(t, os.Mkdir(dir, 0o755))
	for id := range 4 {
		writeFile(t, filepath.Join(dataset, fmt.Sprintf("%d \"x\"\n\xff.ppm", id)), tileFile(id, 2))
	}
	execute(t, "mount", "--daemon", "--batch-size", "4", dataset, dir).done(t)
	d := findDaemon(t, dir)
	d.readOneOf(t)
	if s := d.batchDoc(t, 0, 0, 0).Samples; len(s) != 4 || !strings.HasPrefix(s[3].Path, "3 \"x\"\n") {
		t.Errorf("%+v", s)
	}
	execute(t, "mount", "--batch-size", "4", dataset, dir).failed(t, "batchfs is mounted there already", "batchfs umount ")
	execute(t, "umount", dir).done(t)
	d.gone(t)
}

// TestMountSaysWhatIsOdd: a mount says, in one line each, what the dataset is, and warns about
// epochs without batches, and about a lack of memory. A limit above the machine's memory is
// refused. The limit that the message names works, but with a warning, since a machine never has
// all of its memory free.
func TestMountSaysWhatIsOdd(t *testing.T) {
	data := tiles(t, 3, 8)
	writeFile(t, filepath.Join(data, "notes.txt"), nil)
	most := execute(t, "mount", data, mountpoint(t), "--memory-limit", "512TiB").wrong(t, "--memory-limit must be at most ").stderr
	_, most, _ = strings.Cut(most, "must be at most ")
	most, _, _ = strings.Cut(most, ",")
	m := mountBatchfs(t, data, "--batch-size", "4", "--last-batch", "drop", "--memory-limit", most, "--cache-size", "0")
	for _, words := range []string{
		"batchfs: " + data + ": 3 images without labels; pnm 3; 1 ignored file (1 .txt)\n", "every epoch has 0 batches", "the mount gives way",
	} {
		if m.awaitLog(t, words); strings.Count(m.logged(), words) != 1 {
			t.Errorf("says %q more than once:\n%s", words, m.logged())
		}
	}
}
