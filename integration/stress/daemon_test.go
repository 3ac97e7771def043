package stress

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/batchfs/batchfs/internal/testkit"
)

// patience is the time after which anything counts as hung, far beyond what anything takes
// on a loaded machine.
const patience = 60 * time.Second

// A daemon is a running batchfs mount.
type daemon struct {
	*testkit.Daemon
	dir string // the mountpoint
}

// mountCommand is the command line of a daemon. wrap, if given, is a command that execs it.
func mountCommand(dataset, dir string, flags []string, wrap ...string) *exec.Cmd {
	args := slices.Concat(wrap, []string{suite.binary, "mount"}, flags, []string{dataset, dir})
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Dir = "/"
	cmd.Env = append(os.Environ(), "XDG_CACHE_HOME="+filepath.Join(suite.dir, "cache"), "GOTRACEBACK=all", "GORACE=atexit_sleep_ms=0")
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	return cmd
}

// start starts a daemon and returns when its mount is live. It logs in work unless the command says
// otherwise. After an error it has ended, or is nil.
func start(cmd *exec.Cmd, work string) (*daemon, error) {
	dir := cmd.Args[len(cmd.Args)-1]
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	d, err := testkit.StartDaemon(cmd, filepath.Join(work, "log"), patience)
	if d == nil {
		return nil, err
	}
	return &daemon{d, dir}, err
}

// batchMemory is the memory used by the files of the daemon's batches, in bytes.
func (d *daemon) batchMemory() (sum int64) {
	dir := fmt.Sprintf("/proc/%d/fd", d.PID())
	entries, _ := os.ReadDir(dir)
	for _, e := range entries {
		path := filepath.Join(dir, e.Name())
		var st syscall.Stat_t
		if target, err := os.Readlink(path); err == nil && testkit.BatchMemory(target) && syscall.Stat(path, &st) == nil {
			sum += st.Blocks * 512
		}
	}
	return sum
}

// leases counts the leases that the daemon holds.
func (d *daemon) leases() (n int) {
	text, _ := os.ReadFile("/proc/locks")
	for line := range strings.Lines(string(text)) {
		if f := strings.Fields(line); len(f) > 4 && f[1] == "LEASE" && slices.Contains(f, strconv.Itoa(d.PID())) {
			n++
		}
	}
	return n
}

// resident is the daemon's memory in bytes: its own and that of batches, without file
// pages.
func (d *daemon) resident() int64 { return testkit.Status(d.PID(), "RssAnon", "RssShmem") }

// statistics are the figures of stats.json used here.
type statistics struct {
	Batches struct{ Waiting, Making int64 }
	Memory  struct{ Limit, Used, Peak, Batches, Cache, Scratch int64 }
}

// stats reads the mount's stats.json.
func (d *daemon) stats() (s statistics, err error) {
	err = d.document("stats.json", &s)
	return s, err
}

// document decodes a document of the mount, which another process reads.
func (d *daemon) document(name string, into any) error {
	out, err := runFor(exec.Command("cat", filepath.Join(d.dir, ".batchfs", name)))
	if err != nil {
		return err
	}
	return json.Unmarshal([]byte(out), into)
}

// reserved is the memory that the daemon's buffers hold, by their names in memory.json.
func (d *daemon) reserved() (map[string]int64, error) {
	var doc struct {
		Buffers []struct {
			Name     string
			Reserved int64 `json:"reserved_memory_size"`
		}
	}
	err := d.document("memory.json", &doc)
	sizes := map[string]int64{}
	for _, b := range doc.Buffers {
		sizes[b.Name] = b.Reserved
	}
	return sizes, err
}

// unmount unmounts as users do.
func unmount(dir string, flags ...string) error {
	args := slices.Concat([]string{"umount"}, flags, []string{dir})
	_, err := runFor(exec.Command(suite.binary, args...))
	return err
}

// unmountAnyway unmounts, by force if it must, and returns why it had to.
func unmountAnyway(dir string) error {
	err := unmount(dir)
	if err != nil {
		_ = unmount(dir, "--lazy")
	}
	return err
}

// ended waits for a daemon whose mount is gone, and returns what was wrong with its end.
func (d *daemon) ended() error {
	return errors.Join(d.Wait(), d.Err, testkit.Complaint(d.Logged()))
}

// runFor runs a command for at most patience.
func runFor(cmd *exec.Cmd) (string, error) {
	cmd.Dir, cmd.SysProcAttr = "/", &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	return testkit.Output(cmd, patience)
}
