package integration

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/batchfs/batchfs/internal/machine"
	"github.com/batchfs/batchfs/layout"
)

// ownCPUs returns the CPUs this process may use. Fewer than two leave no choice.
func ownCPUs(t *testing.T) (mask unix.CPUSet, cpus []int) {
	t.Helper()
	check(t, unix.SchedGetaffinity(0, &mask))
	for cpu := 0; len(cpus) < mask.Count(); cpu++ {
		if mask.IsSet(cpu) {
			cpus = append(cpus, cpu)
		}
	}
	if len(cpus) < 2 {
		t.Skip("SKIPPED: with one CPU, no thread has a choice")
	}
	return mask, cpus
}

// masks counts the daemon's threads by CPU mask.
func (m *mounted) masks(t testing.TB) map[string]int {
	t.Helper()
	threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/status", m.pid()))
	check(t, err)
	count := map[string]int{}
	for _, path := range threads {
		if list := statusField(t, path, "Cpus_allowed_list"); list != "" {
			count[list]++
		}
	}
	return count
}

// expectMasks checks that threads have exactly these masks, apart from those that may run
// on all of the process's CPUs.
func (m *mounted) expectMasks(t testing.TB, when string, all string, want map[string]int) {
	t.Helper()
	var got map[string]int
	eventually(t, fmt.Sprintf("%s, threads run on %v and the rest on %s", when, want, all), func() bool {
		got = m.masks(t)
		rest := got[all]
		delete(got, all)
		return rest > 0 && maps.Equal(got, want)
	})
}

// TestAffinity: workers run on the listed CPUs, whether a flag or the environment lists
// them. No other thread does. There are no more of them than CPUs.
func TestAffinity(t *testing.T) {
	_, cpus := ownCPUs(t)
	a, b := strconv.Itoa(cpus[0]), strconv.Itoa(cpus[1])
	all := statusField(t, "/proc/self/status", "Cpus_allowed_list")
	const unset = "unset"
	for _, test := range []struct {
		name, workers, flag, variable string
		want                          map[string]int
	}{
		{"one for each", "2", b + "," + a, unset, map[string]int{b: 1, a: 1}},
		{"more than CPUs", "4096", strings.Repeat(b+",", 4095) + b, unset, map[string]int{b: runtime.NumCPU()}},
		{"more workers than entries", "3", b, unset, nearby(t, all, b, min(3, runtime.NumCPU())-1)},
		{"by environment", "2", unset, a + "," + b, map[string]int{a: 1, b: 1}},
		{"the flag goes first", "2", b + "," + b, a + ",nonsense", map[string]int{b: 2}},
		{"an empty variable", "2", unset, "", nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			flags := []string{"--batch-size", "3", "--workers", test.workers}
			if test.flag != unset {
				flags = append(flags, "--affinity="+test.flag)
			}
			if test.variable != unset {
				t.Setenv("BATCHFS_AFFINITY_MASK", test.variable)
			}
			m := mountBatchfs(t, smallAlbum(t), flags...)
			m.expectMasks(t, "at first", all, test.want)
			m.readAll(t, 0, layout.NHWCForm)
			m.expectMasks(t, "after an epoch", all, test.want)
		})
	}
}

// nearby returns the masks of one worker on a listed CPU and of more workers past the list,
// which run near the GPU.
func nearby(t testing.TB, all, cpu string, more int) map[string]int {
	t.Helper()
	m, err := machine.FindProcessors(os.Getenv("CUDA_VISIBLE_DEVICES"))
	check(t, err)
	want := map[string]int{cpu: 1}
	if near := m.Near; len(near) > 0 && near.String() != all {
		want[near.String()] += more
	}
	return want
}

// TestAffinityRefused: an invalid or unusable list of CPUs is refused before anything is
// mounted, with the position of the entry. Package machine tests the rules.
func TestAffinityRefused(t *testing.T) {
	skipWithoutFUSE(t)
	mask, cpus := ownCPUs(t)
	dir := tiles(t, 8, 2)
	a, b := strconv.Itoa(cpus[0]), strconv.Itoa(cpus[1])
	at := mountpoint(t)
	list := a + "," + a + "," + b + ",60000"
	execute(t, "mount", "--affinity="+list, "--workers", "1", dir, at).wrong(t, "--affinity", "entry 4", "CPUs this process may use", `"60000"`)
	t.Run("variable", func(t *testing.T) {
		t.Setenv("BATCHFS_AFFINITY_MASK", a+",x")
		execute(t, "mount", dir, at).wrong(t, "BATCHFS_AFFINITY_MASK", "entry 2", "a decimal CPU number", `"x"`)
	})
	unmounted(t, at)
	// A CPU that exists, but not for this process: a child inherits the thread's mask.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var narrow unix.CPUSet
	narrow.Set(cpus[0])
	check(t, unix.SchedSetaffinity(0, &narrow))
	defer func() {
		if err := unix.SchedSetaffinity(0, &mask); err != nil {
			t.Error(err)
		}
	}()
	execute(t, "mount", "--affinity", a+","+b, dir, mountpoint(t)).wrong(t, "--affinity", "entry 2", "may use, "+a, strconv.Quote(b))
	m := mountBatchfs(t, dir, "--affinity", a, "--workers", "3", "--batch-size", "4")
	m.readAll(t, 0, layout.NHWCForm)
	m.expectMasks(t, "within one CPU", a, map[string]int{})
	m.finish(t)
}
