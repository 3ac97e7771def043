package machine

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/batchfs/batchfs/internal/option"
	"github.com/batchfs/batchfs/internal/testkit"
	"golang.org/x/sys/unix"
)

// thisMachine is the machine that the tests run on, without a GPU.
func thisMachine(t *testing.T) Processors {
	t.Helper()
	m, err := FindProcessors(NoGPU)
	testkit.Must(t, err)
	return m
}

// kernelMask returns the kernel's text for the calling thread's CPUs.
func kernelMask() (string, error) {
	status, err := os.ReadFile(fmt.Sprintf("/proc/self/task/%d/status", unix.Gettid()))
	if err != nil {
		return "", err
	}
	for line := range strings.Lines(string(status)) {
		if mask, ok := strings.CutPrefix(line, "Cpus_allowed_list:"); ok {
			return strings.TrimSpace(mask), nil
		}
	}
	return "", errors.New("the kernel reports no mask")
}

// kernelMasks pins a thread to each set, all alive at the same time, and returns what the kernel
// reports for each.
func kernelMasks(sets []CPUs) ([]string, error) {
	masks, errs := make([]string, len(sets)), make([]error, len(sets))
	var pinned, done sync.WaitGroup
	pinned.Add(len(sets))
	for i, s := range sets {
		done.Go(func() {
			runtime.LockOSThread() // and the thread ends with the goroutine
			errs[i] = Pin(s)
			pinned.Done()
			pinned.Wait()
			if errs[i] == nil {
				masks[i], errs[i] = kernelMask()
			}
		})
	}
	done.Wait()
	return masks, errors.Join(errs...)
}

// Each worker runs where the list says, and those past its end near the GPU.
func TestPinnedThreads(t *testing.T) {
	m := thisMachine(t)
	m.Near = m.Allowed[:1]
	list := append(slices.Clone(m.Allowed), m.Allowed[0])
	sets, err := assign(list, len(list)+2, m)
	testkit.Must(t, err)
	masks, err := kernelMasks(sets)
	testkit.Must(t, err)
	var want []string
	for _, cpu := range list {
		want = append(want, fmt.Sprint(cpu))
	}
	want = append(want, m.Near.String(), m.Near.String())
	if !slices.Equal(masks, want) {
		t.Errorf("%q, not %q", masks, want)
	}
}

// Pinning one thread affects neither the process nor threads that start while it runs.
func TestPinStaysWithItsThread(t *testing.T) {
	m := thisMachine(t)
	one := of(m.Allowed[len(m.Allowed)-1])
	asPinned(t, one, func() {
		current, err := CurrentCPUs()
		if err != nil || !slices.Equal(current, one) {
			t.Errorf("pinned to %s, on %s, %v", one, current, err)
		}
		masks, err := kernelMasks(make([]CPUs, 16))
		if err != nil {
			t.Error(err)
		}
		for _, mask := range masks {
			if mask != m.Allowed.String() {
				t.Errorf("a thread that nobody pinned is on %s", mask)
			}
		}
	})
}

// asPinned calls f on a thread of its own that is pinned to a set.
func asPinned(t *testing.T, s CPUs, f func()) {
	t.Helper()
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread()
		if err := Pin(s); err != nil {
			t.Error(err)
			return
		}
		f()
	}()
	<-done
}

// TestPinBeyondTheKernel: a mask may be longer than the kernel's own, but must not consist only of
// CPUs that the kernel lacks.
func TestPinBeyondTheKernel(t *testing.T) {
	first := thisMachine(t).Allowed[0]
	asPinned(t, of(first, maxCPUs-1), func() {
		if current, err := CurrentCPUs(); err != nil || !slices.Equal(current, of(first)) {
			t.Errorf("on %s, %v", current, err)
		}
		err := Pin(of(maxCPUs-3, maxCPUs-2))
		const want = "pin the thread to CPUs 65533-65534: invalid argument"
		if !errors.Is(err, unix.EINVAL) || err.Error() != want {
			t.Errorf("%v", err)
		}
	})
}

// twoSockets is a machine of 2 nodes with 16 cores of two threads each, whose GPU is next to the
// second.
func twoSockets(allowed string) Processors {
	return Processors{Allowed: cpus(allowed), Near: cpus("16-31,48-63").and(cpus(allowed))}
}

func TestAssign(t *testing.T) {
	const near = "16-31,48-63"
	for _, c := range []struct {
		list    []int
		workers int
		want    []string
	}{
		{[]int{3, 5, 6, 10}, 5, []string{"3", "5", "6", "10", near}},
		{[]int{3, 5, 6, 10}, 2, []string{"3", "5"}},
		{[]int{7, 7, 7}, 3, []string{"7", "7", "7"}},
		{[]int{63}, 4, []string{"63", near, near, near}},
		{[]int{0}, 0, nil},
	} {
		sets, err := assign(c.list, c.workers, twoSockets("0-63"))
		var got []string
		for _, s := range sets {
			got = append(got, s.String())
		}
		if err != nil || !slices.Equal(got, c.want) {
			t.Errorf("%v, %d workers: %q, %v", c.list, c.workers, got, err)
		}
	}
}

// TestPlaceRefuses: a list is decimal numbers of CPUs that this process may use, separated by
// commas, and all of it is checked. Blanks around numbers are ignored. Any other text is refused.
func TestPlaceRefuses(t *testing.T) {
	m := thisMachine(t)
	one, none := m.Allowed[0], m.Allowed[len(m.Allowed)-1]+1
	good := fmt.Sprintf(" %d ,\t00%d", one, one)
	for list, want := range map[string]int{ // the entry that is wrong; 0: none
		"": 0, " \t": 0, good: 0, ",": 1, good + ",,5": 3, good + ",": 3, " , 1": 1, "0x10": 1, good + ",ff": 3, good + ",2-3": 3, "5abc": 1,
		"0,-1": 2, "+1": 1, "1_0": 1, "1.0": 1, "1e1": 1, "1 2": 1, "1;2": 1, "0,\n1": 2, "0,٣": 2, "0,65536": 2, "18446744073709551616": 1, "all": 1,
		fmt.Sprintf("%d,%d", one, none): 2, fmt.Sprintf("%s,%d,65535", good, none): 3,
	} {
		sets, _, err := Place(list, 1, "", NoGPU)
		if want == 0 {
			if err != nil || list == good != slices.EqualFunc(sets, []CPUs{{one}}, slices.Equal) {
				t.Errorf("%q: %v, %v", list, sets, err)
			}
			continue
		}
		var entry *option.Error
		if sets != nil || !errors.As(err, &entry) || entry.Field != fmt.Sprintf("entry %d", want) || entry.Rule == "" ||
			entry.Value != strconv.Quote(strings.Trim(strings.Split(list, ",")[want-1], " \t")) {
			t.Errorf("%q: %v, %v", list, sets, err)
		}
	}
}
