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

// ask is a number of requests for n bytes, and what the buffer holds after the last of them, in
// units of 64 KiB.
type ask struct {
	times, n int
	units    int64
}

const kiB, miB = 1 << 10, 1 << 20

var hostRules = []struct {
	name   string
	policy Policy
	floor  int
	asks   []ask
}{
	{"growing takes whole units", DefaultPolicy(), 0, []ask{{1, 1, 1}, {1, 64 * kiB, 1}, {1, 64*kiB + 1, 2}, {1, 100_000, 2}, {1, miB, 16}}},
	{"nothing asked for frees nothing", DefaultPolicy(), 0, []ask{{1, miB, 16}, {100, 0, 16}}},
	{"shrinking takes 16 requests", DefaultPolicy(), 0, []ask{{1, miB, 16}, {15, 10, 16}, {1, 10, 1}}},
	{"nothing asked for is no request", DefaultPolicy(), 0, []ask{{1, miB, 16}, {15, 10, 16}, {20, 0, 16}, {1, 10, 1}}},
	{"to the largest of the 16", DefaultPolicy(), 0, []ask{{1, miB, 16}, {1, 300 * kiB, 16}, {15, 10, 5}, {16, 10, 1}}},
	{"one large request in 16 keeps the buffer", DefaultPolicy(), 0, []ask{{1, miB, 16}, {15, 10, 16}, {1, miB, 16}, {15, 10, 16}, {1, 960 * kiB, 16}}},
	{"at nine tenths it stays, below it shrinks", DefaultPolicy(), 0, []ask{{1, 20 * 64 * kiB, 20}, {16, 18 * 64 * kiB, 20}, {16, 17 * 64 * kiB, 17}}},
	{"in whole units", DefaultPolicy(), 0, []ask{{1, 20 * 64 * kiB, 20}, {16, 17*64*kiB + 1, 20}}},
	{"growing starts the count anew", DefaultPolicy(), 0, []ask{{1, miB, 16}, {15, 10, 16}, {1, 2 * miB, 32}, {15, 10, 32}, {1, 10, 1}}},
	{"a small buffer of one unit stays", DefaultPolicy(), 0, []ask{{1, 60_000, 1}, {64, 1, 1}}},
	{"sizes of photos, which vary", DefaultPolicy(), 0, []ask{{1, 100_000, 2}, {1, 130_000, 2}, {1, 70_000, 2}, {40, 100_000, 2}}},
	{"threshold 0 never shrinks", Policy{0, 1, 1}, 0, []ask{{1, miB, 16}, {100, 1, 16}}},
	{"threshold 1 shrinks by a unit", Policy{1, 1, 1}, 0, []ask{{1, miB, 16}, {16, 15 * 64 * kiB, 15}, {16, 15 * 64 * kiB, 15}}},
	{"threshold one half", Policy{0.5, 1, 1}, 0, []ask{{1, miB, 16}, {16, 512 * kiB, 16}, {16, 448 * kiB, 7}}},
	{"the first request has no margin", Policy{0.9, 4, 1}, 0, []ask{{1, miB, 16}}},
	{"growth beyond what is asked", Policy{0, 1.5, 1}, 0, []ask{{1, miB, 16}, {1, miB + 1, 24}, {1, 24 * 64 * kiB, 24}, {1, 25 * 64 * kiB, 36}}},
	{"growth less than what is asked", Policy{0, 1.5, 1}, 0, []ask{{1, miB, 16}, {1, 2 * miB, 32}}},
	{"growth in whole units", Policy{0, 1.1, 1}, 0, []ask{{1, miB, 16}, {1, miB + 1, 18}}},
	{"growth of 1 leaves no margin", Policy{0, 1, 1}, 0, []ask{{1, miB, 16}, {1, miB + 1, 17}}},
	{"a margin nobody uses goes", Policy{0.9, 2, 1}, 0, []ask{{1, miB, 16}, {1, miB + 1, 32}, {16, miB + 1, 17}}},
	{"presized is never less", DefaultPolicy(), 512 * kiB, []ask{{1, 0, 8}, {16, 10, 8}, {1, miB, 16}, {16, 10, 8}, {100, 10, 8}}},
	{"presized and grown", Policy{0.9, 2, 1}, 512 * kiB, []ask{{1, 512*kiB + 1, 16}}},
	{"the zero policy only grows", Policy{}, 0, []ask{{1, miB, 16}, {100, 10, 16}, {1, miB + 1, 17}}},
}

func TestHostRules(t *testing.T) {
	for _, c := range hostRules {
		t.Run(c.name, func(t *testing.T) {
			h := NewHost(c.policy, nil)
			defer h.Free()
			if err := h.Presize(c.floor); err != nil || h.Bytes() != roundUp(int64(c.floor), hostUnit) {
				t.Fatalf("presized to %d (%v), want %d", h.Bytes(), err, roundUp(int64(c.floor), hostUnit))
			}
			for i, a := range c.asks {
				for range a.times {
					mustGrow(t, &h, a.n)
				}
				if h.Bytes() != a.units*64*kiB {
					t.Fatalf("step %d: %d requests for %d bytes leave %d units of 64 KiB, want %d", i, a.times, a.n, h.Bytes()>>16, a.units)
				}
			}
		})
	}
}

// mustGrow grows the buffer to n bytes, and checks that it kept its plan and that all of it is
// writable.
func mustGrow(t *testing.T, h *Host, n int) {
	t.Helper()
	plan := h.Plan(n)
	p, err := h.Grow(n)
	if err != nil || len(p) != n || cap(p) != n {
		t.Fatalf("Grow(%d): %d bytes, capacity %d, %v", n, len(p), cap(p), err)
	}
	if h.Bytes() != plan || plan < int64(n) {
		t.Fatalf("Grow(%d) holds %d bytes, planned %d", n, h.Bytes(), plan)
	}
	if n > 0 {
		p[0], p[n-1] = 1, 2
	}
}
