package cache

import (
	"math"
	"testing"
)

// TestRoomInALargeDataset: what a cache takes for itself depends on how many samples it can hold,
// not on how many there are.
func TestRoomInALargeDataset(t *testing.T) {
	const limit = 8 << 20
	for _, p := range []Policy{Constant, Static, TinyLFU} {
		least := int64(limit * 97 / 100)
		if p == TinyLFU {
			least -= 1 << 20 // ristretto's
		}
		if room := Room(p, limit, math.MaxInt32); room < least {
			t.Errorf("%s has room for %d bytes", p, room)
		}
	}
}

// TestCharge: everything up to the limit can be charged, and nothing beyond it or the budget.
func TestCharge(t *testing.T) {
	budget := newAccount(1 << 20)
	c := open(t, Options{Policy: Static, Limit: 1 << 20, Samples: 10, Budget: budget})
	left := int64(1<<20) - c.ledger.charged
	if c.ledger.charge(left+1) || !c.ledger.charge(left) || c.ledger.charge(1) || !c.ledger.charge(0) || budget.used.Load() != 1<<20 {
		t.Errorf("%d bytes are charged", budget.used.Load())
	}
	c.ledger.charge(-left)
	budget.limit.Store(1<<20 - 1)
	if c.ledger.charge(left) || !c.ledger.charge(left-1) || c.Stats().MaxReserved != 1<<20 {
		t.Errorf("%d bytes are charged, %d at most", budget.used.Load(), c.Stats().MaxReserved)
	}
	c.ledger.charge(1 - left)
}
