package pinned

import (
	"fmt"
	"os"
	"testing"

	"github.com/batchfs/batchfs/internal/testkit"
)

// resident returns the process's resident memory in bytes.
func resident(t *testing.T) int64 {
	t.Helper()
	text, err := os.ReadFile("/proc/self/statm")
	testkit.Must(t, err)
	var size, pages int64
	if _, err := fmt.Sscan(string(text), &size, &pages); err != nil {
		t.Fatal(err)
	}
	return pages * pageSize
}

// TestHostPages: a buffer that grows faults in only the difference, and memory that is no longer
// reported is not resident.
func TestHostPages(t *testing.T) {
	h := NewHost(DefaultPolicy(), nil)
	defer h.Free()
	for _, n := range []int{16 * miB, 64 * miB} {
		before := int(h.Bytes())
		p, err := h.Grow(n)
		testkit.Must(t, err)
		for i := range p {
			if p[i] != 1 && i < before {
				t.Fatalf("byte %d was cleared", i)
			}
			p[i] = 1
		}
	}
	full := resident(t)
	for range window {
		mustGrow(t, &h, 1000)
	}
	if less := full - resident(t); h.Bytes() != hostUnit || less < 48*miB {
		t.Errorf("%d bytes are held; the process has %d fewer than with 64 MiB", h.Bytes(), less)
	}
}

func TestSteadyHostAllocatesNothing(t *testing.T) {
	var a Account
	h := NewHost(DefaultPolicy(), &a)
	defer h.Free()
	sizes := []int{130_000, 100_000, 70_000, 120_000, 90_000}
	i := 0
	if n := testing.AllocsPerRun(200, func() {
		_, _ = h.Grow(sizes[i%len(sizes)])
		i++
	}); n != 0 {
		t.Errorf("%v allocations for each sample", n)
	}
}

func TestAccountIsExact(t *testing.T) {
	a := NewAccount("input")
	one, two := NewHost(DefaultPolicy(), a), NewHost(DefaultPolicy(), a)
	check := func(step string, real, maxReal, reserved, maxReserved int64) {
		t.Helper()
		want := BufferStats{Name: "input", Kind: HostMemory, Real: real, MaxReal: maxReal, Reserved: reserved, MaxReserved: maxReserved}
		if got := a.Stats(); got != want {
			t.Fatalf("%s: %+v, want %+v", step, got, want)
		}
	}
	check("empty", 0, 0, 0, 0)
	mustGrow(t, &one, 100_000)
	check("one", 100_000, 100_000, 2*hostUnit, 2*hostUnit)
	mustGrow(t, &two, 200_000)
	check("two", 300_000, 200_000, 6*hostUnit, 6*hostUnit)
	mustGrow(t, &one, 10)
	check("less is used", 200_010, 200_000, 6*hostUnit, 6*hostUnit)
	mustGrow(t, &one, 0)
	check("nothing is used", 200_000, 200_000, 6*hostUnit, 6*hostUnit)
	for range window {
		mustGrow(t, &two, 20)
	}
	check("two shrank", 20, 200_000, 3*hostUnit, 6*hostUnit)
	testkit.Must(t, one.Presize(3*hostUnit))
	check("presized", 20, 200_000, 4*hostUnit, 6*hostUnit)
	a.Change(Use{}, Use{Real: 500_000, Reserved: 600_000})
	check("a codec's own", 500_020, 500_000, 4*hostUnit+600_000, 4*hostUnit+600_000)
	a.Change(Use{Real: 500_000, Reserved: 600_000}, Use{})
	one.Free()
	two.Free()
	check("freed", 0, 500_000, 0, 4*hostUnit+600_000)
}
