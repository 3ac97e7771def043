package integration

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/batchfs/batchfs/internal/daemon"
	"github.com/batchfs/batchfs/internal/testkit"
	"github.com/batchfs/batchfs/layout"
)

// patience is the time after which a daemon or a reader counts as hung and has to dump its
// goroutines. Nothing waits this long on purpose, but machines can be slow: it is the limit
// even for whole commands.
const patience = 5 * time.Minute

// A mounted is a running daemon and its mount.
type mounted struct {
	*testkit.Daemon
	dir     string // the mountpoint
	dataset string
	user    account
	sockets bool // it may keep connections to a store
	ended   bool // finish was called
}

// mountBatchfs mounts a dataset as the user who runs the tests, for the duration of the
// test.
func mountBatchfs(t testing.TB, dataset string, flags ...string) *mounted {
	t.Helper()
	return mountAs(t, thisUser(), dataset, flags...)
}

func mountAs(t testing.TB, user account, dataset string, flags ...string) *mounted {
	t.Helper()
	skipWithoutFUSE(t)
	dir := scratch(t)
	m, err := startMount(user, dir, dataset, flags...)
	check(t, err)
	t.Cleanup(func() { m.finish(t) })
	return m
}

// startMount starts a daemon below a directory, and returns when its tree is readable or it
// has ended.
func startMount(user account, dir, dataset string, flags ...string) (*mounted, error) {
	m := &mounted{dir: filepath.Join(dir, "mnt"), dataset: dataset, user: user}
	if err := os.Mkdir(m.dir, 0o755); err != nil && !os.IsExist(err) {
		return nil, err
	}
	if err := user.own(m.dir); err != nil {
		return nil, err
	}
	cmd := user.daemon(slices.Concat([]string{suite.binary, "mount"}, flags, []string{dataset, m.dir}))
	cmd.Dir = "/"
	var err error
	if m.Daemon, err = testkit.StartDaemon(cmd, filepath.Join(dir, "log"), patience); err != nil {
		return nil, err
	}
	return m, nil
}

// mountOf is a mount in the namespace of a process that is not a daemon of the tests.
func mountOf(p *os.Process, dir string, user account) *mounted {
	d := &testkit.Daemon{Process: &daemon.Process{Cmd: &exec.Cmd{Process: p}}}
	return &mounted{Daemon: d, dir: dir, user: user}
}

func (m *mounted) pid() int       { return m.PID() }
func (m *mounted) logged() string { return m.Logged() }

// path is the path of a batch's file.
func (m *mounted) path(shard, epoch, batch int, f layout.Form) string {
	return filepath.Join(m.epochDir(shard, epoch), layout.BatchName(batch)+"."+f.Ext())
}

func (m *mounted) epochDir(shard, epoch int) string {
	return filepath.Join(m.dir, fmt.Sprintf("shard-%d", shard), fmt.Sprintf("epoch-%d", epoch))
}

// command runs a program where the mount is visible, as the user who owns the mount.
func (m *mounted) command(args ...string) *exec.Cmd {
	cmd := m.user.reader(m.pid(), args)
	cmd.Dir = "/" // a working directory below the mount would keep it busy
	return cmd
}

// run runs a program and returns its output. The program must succeed.
func (m *mounted) run(t testing.TB, args ...string) string {
	t.Helper()
	out, err := m.try(args...)
	if err != nil {
		t.Fatalf("%s: %v", strings.Join(args, " "), err)
	}
	return out
}

// try runs a program and returns its output. The error contains its standard error.
func (m *mounted) try(args ...string) (string, error) {
	return output(m.command(args...))
}

func output(cmd *exec.Cmd) (string, error) { return testkit.Output(cmd, patience) }

// form reads a file of a batch and checks its size against stat.
func (m *mounted) form(t testing.TB, shard, epoch, batch int, f layout.Form) []byte {
	t.Helper()
	path := m.path(shard, epoch, batch, f)
	info, err := os.Stat(path)
	check(t, err)
	data := mustRead(t, path)
	if int64(len(data)) != info.Size() {
		t.Fatalf("%s has %d bytes, but stat says %d", path, len(data), info.Size())
	}
	return data
}

func mustRead(t testing.TB, path string) []byte {
	t.Helper()
	data, err := os.ReadFile(path)
	check(t, err)
	return data
}

// document reads a JSON document of the mount.
func (m *mounted) document(t testing.TB, path string, into any) {
	t.Helper()
	text := m.run(t, "cat", filepath.Join(m.dir, path))
	if err := json.Unmarshal([]byte(text), into); err != nil {
		t.Fatalf("%s: %v\n%s", path, err, text)
	}
}

// batches is how many batches an epoch of a shard has.
func (m *mounted) batches(t testing.TB, shard, epoch int) int {
	t.Helper()
	var doc struct{ Batches int }
	m.document(t, fmt.Sprintf("shard-%d/epoch-%d/epoch.json", shard, epoch), &doc)
	return doc.Batches
}

// statistics are the figures of stats.json used by tests.
type statistics struct {
	ReadPath string `json:"read_path"`
	Uptime   float64
	Images   int64
	Errors   int64
	Batches  struct{ Decoded, Making, Opened, Waiting, Stalled, Ahead, Streams int64 }
	FUSE     struct{ Opens, Reads int64 }
	Memory   struct {
		Limit, Used, Peak, Batches, Cache, Index, Scratch, Locked int64
		LockError                                                 string `json:"lock_error"`
		ReuseError                                                string `json:"reuse_error"`
	}
	Storage struct {
		Reads, Bytes int64
		Store        struct{ Requests, Retries, Waiting, Hedges int64 }
		Local        struct {
			Kept, Used, Limit, Damaged int64
			NotKept                    int64 `json:"not_kept"`
		} `json:"local_cache"`
	}
	JPEGs struct {
		Baseline, GPU int64
		Entries       struct{ Used, Made, None, Wrong int64 } `json:"entry_points"`
	}
	Forms struct {
		Share          float64 `json:"packed_share"`
		Samples, Drawn int64
		Reason         string
	}
	GPU struct {
		UUID           string
		Limit, Batches int64
	}
	Plans  struct{ Held, Computing, Wanted int64 }
	Epochs []epochDoc
}

func (m *mounted) stats(t testing.TB) (s statistics) {
	t.Helper()
	m.document(t, ".batchfs/stats.json", &s)
	return s
}

// rss is the daemon's memory in bytes, without batches and other shared pages.
func (m *mounted) rss(t testing.TB) int64 {
	t.Helper()
	n := testkit.Status(m.pid(), "RssAnon")
	if n == 0 {
		t.Fatal("no RssAnon in /proc/PID/status")
	}
	return n
}

// leaked lists descriptors that a mount at rest should not have.
func (m *mounted) leaked() ([]string, error) {
	but := []string{"/memfd:"} // of the GPU in host memory
	if m.sockets {
		but = append(but, "socket:")
	}
	return m.Leaked(but...)
}

// finish unmounts, unless already done, and checks what the daemon leaves behind. It is
// called at the end of every test that mounts.
func (m *mounted) finish(t testing.TB) {
	t.Helper()
	if m.ended {
		return
	}
	m.ended = true
	if m.Running() {
		m.checkOpenFiles(t)
		if _, err := m.try(suite.binary, "umount", m.dir); err != nil {
			t.Errorf("at the end of the test: %v", err)
			_, _ = m.try(suite.binary, "umount", "--lazy", m.dir)
			_ = m.Cmd.Process.Signal(syscall.SIGTERM)
		}
	}
	m.wait(t)
	m.checkExit(t)
}

// wait returns when the daemon has ended. If it hangs, its goroutines are dumped.
func (m *mounted) wait(t testing.TB) {
	t.Helper()
	if err := m.Wait(); err != nil {
		t.Error(err)
	}
}

// checkOpenFiles finds leaked descriptors: without readers, the daemon may hold only batch
// memory beyond what was open when the mount became ready.
func (m *mounted) checkOpenFiles(t testing.TB) {
	t.Helper()
	for deadline := time.Now().Add(patience / 4); ; { // those of prefetching are closed soon, without notification
		leaked, err := m.leaked()
		if err == nil && len(leaked) == 0 {
			return
		}
		if err != nil || time.Now().After(deadline) {
			t.Errorf("the daemon still has open: %v (%v)", leaked, err)
			return
		}
	}
}

// checkExit checks a daemon's exit status and leftovers. If a test killed it, the exit
// status is not checked.
func (m *mounted) checkExit(t testing.TB) {
	t.Helper()
	if status, ok := m.Cmd.ProcessState.Sys().(syscall.WaitStatus); m.Err != nil && !(ok && status.Signaled() && status.Signal() == syscall.SIGKILL) {
		t.Errorf("the daemon ended with %v", m.Err)
	}
	if left, err := testkit.MountsBelow(m.dir); err != nil || len(left) > 0 {
		t.Errorf("the daemon left mounts behind: %v %v", left, err)
	}
	checkLog(t, m.logged())
}

// checkLog finds messages that no log may contain.
func checkLog(t testing.TB, log string) {
	t.Helper()
	if err := testkit.Complaint(log); err != nil {
		t.Error(err)
	}
	if t.Failed() && log != "" {
		t.Logf("the daemon's log:\n%s", log)
	}
}
