package catalog

import (
	"testing"

	"github.com/batchfs/batchfs/internal/testkit"
	"github.com/batchfs/batchfs/shard"
)

// TestSteps: Steps counts what Next passes, across epochs of any number of batches, and back.
func TestSteps(t *testing.T) {
	for _, cfg := range []shard.Config{
		{Samples: 10, Shards: 3, BatchSize: 2, LastBatch: shard.Fill},
		{Samples: 10, Shards: 3, BatchSize: 2, LastBatch: shard.Fill, PadLastBatch: true},
		{Samples: 10, Shards: 3, BatchSize: 2, LastBatch: shard.Partial, StickToShard: true},
		{Samples: 11, Shards: 2, BatchSize: 3, LastBatch: shard.Drop},
		{Samples: 7, Shards: 1, BatchSize: 5, LastBatch: shard.Fill, StickToShard: true},
		{Samples: 3, Shards: 1, BatchSize: 50, LastBatch: shard.Fill},
	} {
		plan, err := shard.New(cfg)
		testkit.Must(t, err)
		c := &Catalog{Plan: plan, Options: Options{Config: cfg, Epochs: 20}}
		first := Key{Shard: cfg.Shards - 1, Epoch: 3}
		n, ok := 0, true
		for k := first; ok; n++ {
			if got := c.Steps(first, k, n); got != n {
				t.Errorf("%+v: %d steps to %v, not %d", cfg, got, k, n)
			}
			if got := c.Steps(k, first, n); got != -n {
				t.Errorf("%+v: %d steps from %v, not %d", cfg, got, k, -n)
			}
			if n > 0 && (c.Steps(first, k, n-1) != 0 || c.Steps(k, first, n-1) != 0) {
				t.Errorf("%+v: %v is nearer than %d steps", cfg, k, n)
			}
			k, ok = c.Next(k)
		}
		if n < 17 {
			t.Errorf("%+v: there are %d batches", cfg, n)
		}
		if c.Steps(first, Key{Shard: first.Shard + 1, Epoch: 3}, 100) != 0 {
			t.Errorf("%+v: a batch of another shard is near", cfg)
		}
		if c.Steps(Key{}, Key{Epoch: shard.MaxEpochs - 1}, 1<<20) != 0 {
			t.Errorf("%+v: the last epoch is near", cfg)
		}
	}
}
