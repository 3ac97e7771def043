package fusefs

import (
	"math"
	"testing"

	"github.com/batchfs/batchfs/internal/engine"
	"github.com/batchfs/batchfs/internal/testkit"
	"github.com/batchfs/batchfs/layout"
)

// roundTrip says whether a number belongs to a node of a tree, and checks that the node has this
// number.
func roundTrip(t *testing.T, n numbers, id uint64, shards, epochs, batches int) bool {
	t.Helper()
	x, ok := n.node(id)
	if !ok {
		return false
	}
	if back := n.id(x); back != id {
		t.Fatalf("number %d is %+v, which is number %d", id, x, back)
	}
	if x.key.Shard >= max(shards, 1) || x.key.Epoch >= max(epochs, 1) || x.key.Batch >= max(batches, 1) {
		t.Fatalf("number %d is outside of the tree: %+v", id, x)
	}
	return true
}

// TestNumbersBijection: there are as many numbers as nodes, and each belongs to its node.
func TestNumbersBijection(t *testing.T) {
	const shards, epochs, batches = 3, 4, 5
	n, err := newNumbers(shards, epochs, batches)
	testkit.Must(t, err)
	found := 0
	for id := range n.end() + 100 {
		if roundTrip(t, n, id, shards, epochs, batches) {
			found++
		}
	}
	if want := int(singles) + shards*(1+epochs*(2+batches*int(layout.NumForms))); found != want {
		t.Errorf("%d numbers for %d nodes", found, want)
	}
	if _, ok := n.node(math.MaxUint64); ok {
		t.Error("the number that go-fuse keeps for itself names a node")
	}
}

// TestNumbersStable pins the numbers: they are inode numbers, which must stay the same
// after a remount. Changing them is visible to users.
func TestNumbersStable(t *testing.T) {
	n, err := newNumbers(8, 100, 626)
	testkit.Must(t, err)
	for want, x := range map[uint64]node{
		1:         {kind: root},
		2:         {kind: datasetDoc},
		9:         {kind: errorsDoc},
		10:        {kind: readerDoc},
		32:        {kind: shardDir},
		40:        {kind: epochDir},
		840:       {kind: epochDoc},
		1640:      {kind: batchFile},
		2_042_392: {kind: batchFile, key: engine.Key{Shard: 3, Epoch: 25, Batch: 625}, form: layout.Form(2)},
		5_009_640: {kind: batchFile, form: layout.CUDA},

		5_510_440:  {kind: batchFile, form: layout.MasksNPY},
		11_019_240: {kind: batchFile, form: layout.ArrayForm(0)},
	} {
		if got := n.id(x); got != want {
			t.Errorf("%+v is number %d, want %d", x, got, want)
		}
	}
}

func TestNumbersTooMany(t *testing.T) {
	for _, c := range []struct {
		shards, epochs, batches int
		ok                      bool
	}{
		{1 << 20, 1 << 20, 1 << 16, true},
		{1 << 30, 1 << 30, 0, true},
		{1 << 20, 1 << 20, 1 << 20, false},
		{1 << 32, 1 << 32, 1, false},
		{math.MaxInt, 1, 1, false},
		{math.MaxInt, math.MaxInt, math.MaxInt, false},
		{-1, 1, 1, false},
	} {
		n, err := newNumbers(c.shards, c.epochs, c.batches)
		if (err == nil) != c.ok {
			t.Errorf("%+v: error %v", c, err)
		}
		if err == nil && n.end() > maxID {
			t.Errorf("%+v: numbers up to %d", c, n.end())
		}
	}
}

func FuzzNumbers(f *testing.F) {
	f.Add(uint64(1), 3, 4, 5)
	f.Add(uint64(1<<40), 1000, 100, 100_000)
	f.Add(uint64(math.MaxUint64), 1, 1, 1)
	f.Fuzz(func(t *testing.T, id uint64, shards, epochs, batches int) {
		n, err := newNumbers(shards, epochs, batches)
		if err != nil {
			return
		}
		roundTrip(t, n, id, shards, epochs, batches)
	})
}
