package shard_test

import (
	"fmt"
	"log"

	"github.com/batchfs/batchfs/shard"
)

// Which samples are in a batch, for any shard and epoch, without reading what comes before.
func ExamplePlan_Batch() {
	plan, err := shard.New(shard.Config{Samples: 10, Shards: 2, BatchSize: 3, PadLastBatch: true})
	if err != nil {
		log.Fatal(err)
	}
	for s := range 2 {
		for b := range plan.Batches(s, 0) {
			slots, valid := plan.Batch(s, 0, b, nil)
			fmt.Printf("shard %d, batch %d:", s, b)
			for _, slot := range slots {
				fmt.Print(" ", slot.ID)
			}
			fmt.Printf(", %d of them valid\n", valid)
		}
	}
	// Output:
	// shard 0, batch 0: 0 1 2, 3 of them valid
	// shard 0, batch 1: 3 4 4, 2 of them valid
	// shard 1, batch 0: 5 6 7, 3 of them valid
	// shard 1, batch 1: 8 9 9, 2 of them valid
}

// A shuffled epoch is a permutation of all samples.
func ExamplePlan_ID() {
	plan, err := shard.New(shard.Config{Samples: 8, Shards: 1, BatchSize: 4, PadLastBatch: true, Shuffle: true, Seed: 7})
	if err != nil {
		log.Fatal(err)
	}
	for epoch := range 2 {
		fmt.Printf("epoch %d:", epoch)
		for position := range int64(8) {
			fmt.Print(" ", plan.ID(epoch, position))
		}
		fmt.Println()
	}
	// Output:
	// epoch 0: 3 6 7 5 4 0 2 1
	// epoch 1: 7 0 1 4 2 3 6 5
}

// With local placement, a node gets few samples that it does not own.
func ExamplePlan_Owned() {
	const nodes, batch = 8, 256
	plan, err := shard.New(shard.Config{Samples: 1 << 20, Shards: nodes, BatchSize: batch, Shuffle: true, PadLastBatch: true, Partition: shard.Local})
	if err != nil {
		log.Fatal(err)
	}
	slots, _ := plan.Batch(3, 0, 0, nil)
	fmt.Printf("node 3 owns %d of the %d samples of its first batch\n", plan.Owned(3, slots), len(slots))
	// Output: node 3 owns 246 of the 256 samples of its first batch
}
