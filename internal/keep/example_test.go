package keep_test

import (
	"fmt"
	"log"

	"github.com/batchfs/batchfs/internal/keep"
	"github.com/batchfs/batchfs/shard"
)

// What a cache for half of the samples keeps from epoch 0 to epoch 1: every batch finds
// equally many of its samples there.
func ExampleChoose() {
	plan, err := shard.New(shard.Config{Samples: 16, Shards: 1, BatchSize: 4, PadLastBatch: true, Shuffle: true, Seed: 7})
	if err != nil {
		log.Fatal(err)
	}
	choice, err := keep.Choose(plan, 0, keep.Config{Ratio: 0.5}, nil)
	if err != nil {
		log.Fatal(err)
	}
	for b := range plan.Batches(0, 1) {
		slots, _ := plan.Batch(0, 1, b, nil)
		hits := 0
		for _, slot := range slots {
			if choice.Kept(slot.ID) {
				hits++
			}
		}
		fmt.Printf("batch %d: %d hits\n", b, hits)
	}
	// Output:
	// batch 0: 2 hits
	// batch 1: 2 hits
	// batch 2: 2 hits
	// batch 3: 2 hits
}
