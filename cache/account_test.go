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
