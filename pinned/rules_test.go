package pinned

import (
	"testing"
)

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
