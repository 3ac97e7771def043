package tier

import (
	"os"
	"testing"

	"github.com/batchfs/batchfs/internal/testkit"
)

// TestPlansShareRoom: each plan has room in proportion to its candidates, while somebody follows
// it. Users of the same plan share its room.
func TestPlansShareRoom(t *testing.T) {
	const limit = 1 << 20
	dir := t.TempDir()
	follow := func(dataset, plan string, bytes int64) *Tier {
		t.Helper()
		tier := open(t, dir, Options{Limit: limit, Dataset: dataset})
		if room := tier.PlanRoom(); room != limit {
			t.Errorf("without a plan: %d", room)
		}
		testkit.Must(t, tier.Follow(plan, bytes))
		return tier
	}
	rooms := func(want ...any) {
		t.Helper()
		for i := 0; i < len(want); i += 2 {
			if got := want[i].(*Tier).PlanRoom(); got != int64(want[i+1].(int)) {
				t.Errorf("%d: room of %d, want %d", i/2, got, want[i+1])
			}
		}
	}
	a := follow("x", "a", 300)
	rooms(a, limit)
	b := follow("x", "b", 300)
	rooms(a, limit/2, b, limit/2)
	c, other := follow("x", "a", 300), follow("y", "a", 600)
	rooms(a, limit/4, b, limit/4, c, limit/4, other, limit/2)
	a.Close()
	rooms(b, limit/4, c, limit/4, other, limit/2)
	c.Close()
	b.Close()
	rooms(other, limit)
	if left, err := os.ReadDir(other.shelf.room.plans()); err != nil || len(left) != 1 {
		t.Errorf("files of plans that nobody follows are left: %v, %v", left, err)
	}
	testkit.Must(t, other.Follow("b", 200))
	b = follow("x", "b", 600)
	rooms(other, limit/4, b, limit/4*3)
	if s := b.Stats(); s.Used != 0 || sizeBelow(dir) != 0 {
		t.Errorf("plans take room: %+v", s)
	}
}
