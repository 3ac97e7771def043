package machine

import (
	"bufio"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/batchfs/batchfs/internal/testkit"
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

// startHelper starts a child process that runs greedyMount, as a mount or as something else.
func startHelper(t *testing.T, group, as string) *testkit.Partner {
	t.Helper()
	cmd := exec.Command("/proc/self/exe", as)
	cmd.Env = append(os.Environ(), helperVariable+"="+group)
	p, err := testkit.StartPartner(cmd, time.Minute)
	testkit.Must(t, err)
	t.Cleanup(func() { _ = p.End() }) // its exit status was checked, or the test has failed
	return p
}

// takes makes a helper check the bounds and take what it may, and returns its limit and what it
// holds.
func takes(t *testing.T, p *testkit.Partner) (limit, used int64) {
	t.Helper()
	line, err := "", p.Tell("take")
	if err == nil {
		line, err = p.Line()
	}
	if _, wrong := fmt.Sscan(line, &limit, &used); err != nil || wrong != nil {
		t.Fatalf("a mount died: %v, %v", err, wrong)
	}
	return limit, used
}

// greedyMount joins a control group and takes its share. On every line of input it checks the
// bounds and takes all that it may.
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
	var mounts []*testkit.Partner
	for n := 1; n <= 3; n++ {
		mounts = append(mounts, startHelper(t, group, "mount"))
		limit, used := takes(t, mounts[n-1]) // the others have not checked yet
		if part := int64(total / 2 / n); limit > part || limit < part/4 || used > limit {
			t.Errorf("mount %d has a limit of %d and uses %d; its part is %d", n, limit, used, part)
		}
	}
	for range 3 {
		var sum int64
		for i, m := range mounts {
			limit, used := takes(t, m)
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
	mount := startHelper(t, group, "mount")
	_, before := takes(t, mount)
	other := startHelper(t, group, "no-mount")
	takes(t, other) // It takes half of what is left. The mount checks, and gives way.
	for range 3 {
		takes(t, mount)
	}
	b := NewMemory(os.DirFS("/")).bound(groupIn(group))
	if _, used := takes(t, mount); b.Total == 0 || b.Left < b.reserve()/2 || used > before {
		t.Errorf("%+v is left beside a mount that uses %d, and used %d", b, used, before)
	}
	_ = other.End()
	takes(t, mount)
	if _, used := takes(t, mount); used < before-2*blockSize {
		t.Errorf("the mount uses %d where it is alone again, and used %d", used, before)
	}
}

func groupIn(dir string) group { return group{dir: strings.TrimPrefix(dir, "/")} }
