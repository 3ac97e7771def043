package machine

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/batchfs/batchfs/internal/testkit"
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
