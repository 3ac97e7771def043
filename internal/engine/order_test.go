package engine

import (
	"testing"

	"github.com/batchfs/batchfs/internal/catalog"
	"github.com/batchfs/batchfs/internal/testkit"
	"github.com/batchfs/batchfs/shard"
)

// TestFingerprintsOfOrders: every order has a fingerprint of its own, except that the steps of an
// elastic partition have one for every number of shards.
func TestFingerprintsOfOrders(t *testing.T) {
	ds := openDataset(t, testDir(t, 24))
	print := func(change func(*shard.Config)) string {
		o := testOptions()
		o.Shuffle = true
		change(&o.Config)
		c, err := catalog.New(ds, o.Options)
		testkit.Must(t, err)
		return c.Fingerprint
	}
	steps := func(p shard.Partition, shards, batch int) func(*shard.Config) {
		return func(c *shard.Config) { c.Partition, c.Shards, c.BatchSize = p, shards, batch }
	}
	seen := map[string]string{}
	for name, change := range map[string]func(*shard.Config){
		"ranges": func(*shard.Config) {}, "2 ranges": func(c *shard.Config) { c.Shards = 2 },
		"window 1": func(c *shard.Config) { c.Window = 1 }, "window 2": func(c *shard.Config) { c.Window = 2 },
		"blocks": func(c *shard.Config) { c.Window, c.Blocks = 1, []int64{10, 14} }, "other blocks": func(c *shard.Config) { c.Window, c.Blocks = 1, []int64{14, 10} },
		"elastic": steps(shard.Elastic, 1, 4), "larger steps": steps(shard.Elastic, 1, 8), "local": steps(shard.Local, 1, 4),
	} {
		f := print(change)
		if seen[f] != "" {
			t.Errorf("%s and %s have one fingerprint", name, seen[f])
		}
		seen[f] = name
	}
	for _, world := range []int{2, 4} {
		if f := print(steps(shard.Elastic, world, 4/world)); seen[f] != "elastic" {
			t.Errorf("%d shards: another fingerprint", world)
		}
		if f := print(steps(shard.Local, world, 4/world)); seen[f] != "local" {
			t.Errorf("%d shards, local: another fingerprint", world)
		}
	}
	if print(func(c *shard.Config) { c.Blocks = []int64{10, 14} }) != print(func(*shard.Config) {}) {
		t.Error("blocks change the fingerprint of an order that does not depend on them")
	}
}
