package engine

import (
	"errors"
	"os"
	"testing"
)

// These tests run one part of the engine alone.

// TestMemoryAlone: what a batch may have, and what comes back.
func TestMemoryAlone(t *testing.T) {
	const limit = 64 << 20
	e := unstarted(t, 8, func(o *Options) { o.MemoryLimit, o.Anonymous = limit, true })
	m, b := e.memory, &batch{}
	m.pool.Trim()
	if _, err := m.buffer(b, limit+1); !errors.Is(err, ErrNoMemory) {
		t.Errorf("more than there is: %v", err)
	}
	most := m.forBatches()
	first, err := m.buffer(b, most/2)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := m.buffer(b, most*3/4); !errors.Is(err, errNoRoom) {
		t.Errorf("more than there is now: %v", err)
	}
	if (cacheBudget{m, useCache}).Reserve(limit) {
		t.Error("the cache gets as much as the limit")
	}
	m.freeBuffer(first)
	second, err := m.buffer(b, most*3/4) // what is idle goes first
	if err != nil {
		t.Fatal(err)
	}
	m.freeBuffer(second)
	m.setLimit(0)
	if used, _ := m.ledger.usage(useBatches); used != 0 {
		t.Errorf("%d bytes are charged under a limit of 0", used)
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
