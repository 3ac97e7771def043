package engine

import (
	"errors"
	"os"
	"slices"
	"testing"
)

// These tests run one part of the engine alone.

// fakeResidents have nothing to give, and note what is asked for.
type fakeResidents struct {
	wanted  bool
	dropped int // by dropUnheld
	asked   []string
}

func (f *fakeResidents) isWanted(*batch) bool { return f.wanted }
func (f *fakeResidents) dropOldestRead()      { f.asked = append(f.asked, "read") }
func (f *fakeResidents) dropUnheld() int      { f.asked = append(f.asked, "unheld"); return f.dropped }
func (f *fakeResidents) takeFrom(_ *batch, _ uint64, most worth) (found, free bool) {
	f.asked = append(f.asked, map[worth]string{worthSpent: "spent", worthForeseen: "foreseen"}[most])
	return false, false
}

// TestMemoryAlone: what a batch may have, what is asked for it, and what comes back.
func TestMemoryAlone(t *testing.T) {
	const limit = 1 << 20
	m := newMemory(ptr(Options{MemoryLimit: limit, Anonymous: true}.withDefaults()))
	defer m.close()
	f := &fakeResidents{}
	m.batches = f
	b := &batch{}
	if _, err := m.buffer(b, limit+1); !errors.Is(err, ErrNoMemory) || len(f.asked) != 0 {
		t.Errorf("more than there is: %v, after asking for %v", err, f.asked)
	}
	first, err := m.buffer(b, limit/2)
	if err != nil {
		t.Fatal(err)
	}
	for _, f.wanted = range []bool{false, true} {
		f.asked = nil
		if _, err := m.buffer(b, limit*3/4); !errors.Is(err, errNoRoom) || !slices.Equal(f.asked, []string{"spent", "foreseen"}) {
			t.Errorf("wanted %v: %v, after asking for %v", f.wanted, err, f.asked)
		}
	}
	if f.asked = nil; (cacheBudget{m}).Reserve(limit) || !slices.Equal(f.asked, []string{"read"}) {
		t.Errorf("for the cache, %v was asked for", f.asked)
	}
	for _, f.dropped = range []int{1, 0} { // without leases, their memory is free without the pool
		if got := m.giveBackIdle(); got != (f.dropped > 0) {
			t.Errorf("idle memory was given back: %v, although %d batches were dropped", got, f.dropped)
		}
	}
	m.freeBuffer(first)
	second, err := m.buffer(b, limit*3/4) // what is idle goes first
	if err != nil {
		t.Fatal(err)
	}
	m.freeBuffer(second)
	m.setLimit(0)
	if used, sum := m.ledger.usage(useBatches); used != 0 || sum != 0 {
		t.Errorf("%d bytes are charged under a limit of 0", sum)
	}
}

// TestPresize: the buffers of one stream are there at the start; of large ones one, or none.
func TestPresize(t *testing.T) {
	for _, c := range []struct{ hint, limit, want int64 }{
		{0, 256 << 20, 4 * int64(os.Getpagesize())}, // what the index says is less than a page
		{64 << 10, 256 << 20, 4 * 256 << 10},
		{4 << 20, 64 << 20, 16 << 20},
		{4 << 20, 31 << 20, 0},
	} {
		e := unstarted(t, 8, func(o *Options) { o.Hints.Batch, o.MemoryLimit = c.hint, c.limit })
		if got := e.memory.pool.Trim(); got != c.want {
			t.Errorf("with %d bytes for a sample and a limit of %d, there are %d bytes, want %d", c.hint, c.limit, got, c.want)
		}
	}
}

func ptr[T any](v T) *T { return &v }
