package machine

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"
)

// helperVariable turns the test binary into a mount that takes all the memory it may.
const helperVariable = "MACHINE_TEST_MOUNT"

// newGroup creates a memory control group with a limit, below the root of the tree.
func newGroup(t *testing.T, limit int64) (dir string) {
	t.Helper()
	name := fmt.Sprintf("batchfs-machine-%d", os.Getpid())
	for _, v := range []struct{ root, limit string }{{"/sys/fs/cgroup/memory", "memory.limit_in_bytes"}, {"/sys/fs/cgroup", "memory.max"}} {
		dir = filepath.Join(v.root, name)
		if _, err := os.Stat(filepath.Join(v.root, "cgroup.procs")); err != nil || os.Mkdir(dir, 0o755) != nil {
			continue
		}
		t.Cleanup(func() {
			if err := os.Remove(dir); err != nil {
				t.Errorf("the control group stays: %v", err)
			}
		})
		if err := os.WriteFile(filepath.Join(dir, v.limit), []byte(strconv.FormatInt(limit, 10)), 0); err == nil {
			return dir
		}
	}
	t.Skip("SKIPPED: no memory control group can be made here")
	return ""
}

// A helper is a child process that runs greedyMount. A line of input makes it check the
// bounds, take what it may, and print the amount.
type helper struct {
	*exec.Cmd
	in  io.WriteCloser
	out *bufio.Reader
}

func startHelper(t *testing.T, group string) *helper {
	t.Helper()
	h := &helper{Cmd: exec.Command("/proc/self/exe", "mount", "data", "mnt")}
	h.Env = append(os.Environ(), helperVariable+"="+group)
	h.Stderr = os.Stderr
	in, err1 := h.StdinPipe()
	out, err2 := h.StdoutPipe()
	if err := errors.Join(err1, err2, h.Start()); err != nil {
		t.Fatal(err)
	}
	h.in, h.out = in, bufio.NewReader(out)
	t.Cleanup(func() {
		in.Close()
		_ = h.Wait() // its exit status was checked, or the test has failed
	})
	return h
}

// ask returns the helper's limit and how much it holds.
func (h *helper) ask(t *testing.T) (limit, used int64) {
	t.Helper()
	_, err := fmt.Fprintln(h.in, "take")
	if err == nil {
		var line string
		if line, err = h.out.ReadString('\n'); err == nil {
			_, err = fmt.Sscan(line, &limit, &used)
		}
	}
	if err != nil {
		t.Fatalf("a mount died: %v", err)
	}
	return limit, used
}

// greedyMount joins a control group and takes its share. On every line of input it checks
// the bounds and takes all that it may.
func greedyMount() {
	procs := filepath.Join(os.Getenv(helperVariable), "cgroup.procs")
	if err := os.WriteFile(procs, []byte(strconv.Itoa(os.Getpid())), 0); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	memory := NewMemory(os.DirFS("/"))
	g := &greedy{limit: memory.Share().Limit}
	w := &Watch{Memory: memory, Used: g.MemoryUsed, SetLimit: g.SetMemoryLimit, Limit: g.limit, Shared: true, Logger: slog.New(slog.DiscardHandler)}
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		w.looked = 0 // so that it recounts the mounts each time
		w.look()
		g.take()
		fmt.Println(g.limit, g.MemoryUsed())
	}
}

type greedy struct {
	limit  int64
	blocks [][]byte
}

const blockSize = 4 * mib

func (g *greedy) MemoryUsed() int64 { return int64(len(g.blocks)) * blockSize }

func (g *greedy) SetMemoryLimit(n int64) {
	for g.limit = n; g.MemoryUsed() > n; g.blocks = g.blocks[:len(g.blocks)-1] {
		_ = unix.Munmap(g.blocks[len(g.blocks)-1])
	}
}

func (g *greedy) take() {
	for g.MemoryUsed()+blockSize <= g.limit {
		b, err := unix.Mmap(-1, 0, blockSize, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
		if err != nil {
			return
		}
		for i := 0; i < len(b); i += 4096 {
			b[i] = 1
		}
		g.blocks = append(g.blocks, b)
	}
}

// TestThreeMountsShareAControlGroup: three mounts share a control group of 400 MB. Without
// sharing they would take 600 MB. None is killed, in any order of start, and each gets its
// part.
func TestThreeMountsShareAControlGroup(t *testing.T) {
	const total = 400 * 1000 * 1000
	group := newGroup(t, total)
	var mounts []*helper
	for n := 1; n <= 3; n++ {
		mounts = append(mounts, startHelper(t, group))
		limit, used := mounts[n-1].ask(t) // the others have not checked yet
		if part := int64(total / 2 / n); limit > part || limit < part/4 || used > limit {
			t.Errorf("mount %d has a limit of %d and uses %d; its part is %d", n, limit, used, part)
		}
	}
	for range 3 {
		var sum int64
		for i, m := range mounts {
			limit, used := m.ask(t)
			sum += used
			if limit > total/6 || used < total/12 {
				t.Errorf("mount %d of 3 has a limit of %d and uses %d", i+1, limit, used)
			}
		}
		if sum > total/2 {
			t.Errorf("%d bytes are used", sum)
		}
	}
}

// TestGivingWayToOthers: a process that is not a mount takes nearly all of a control group,
// piece by piece, and gives it back.
func TestGivingWayToOthers(t *testing.T) {
	const total = 400 * mib
	group := newGroup(t, total)
	mount := startHelper(t, group)
	_, before := mount.ask(t)
	other := exec.Command("/proc/self/exe", "no-mount")
	other.Env = append(os.Environ(), helperVariable+"="+group)
	in, err1 := other.StdinPipe()
	out, err2 := other.StdoutPipe()
	if err := errors.Join(err1, err2); err != nil {
		t.Fatal(err)
	}
	if err := other.Start(); err != nil {
		t.Fatal(err)
	}
	end := sync.OnceFunc(func() {
		in.Close()
		_ = other.Wait()
	})
	t.Cleanup(end)
	// It takes half of what is left. The mount checks, and gives way.
	if _, err := fmt.Fprintln(in, "take"); err != nil {
		t.Fatal(err)
	}
	if _, err := bufio.NewReader(out).ReadString('\n'); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		mount.ask(t)
	}
	b := NewMemory(os.DirFS("/")).bound(groupIn(group))
	if _, used := mount.ask(t); b.Total == 0 || b.Left < b.reserve()/2 || used > before {
		t.Errorf("%+v is left beside a mount that uses %d, and used %d", b, used, before)
	}
	end()
	mount.ask(t)
	if _, used := mount.ask(t); used < before-2*blockSize {
		t.Errorf("the mount uses %d where it is alone again, and used %d", used, before)
	}
}

func groupIn(dir string) group { return group{dir: strings.TrimPrefix(dir, "/")} }
