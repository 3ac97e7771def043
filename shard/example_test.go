package shard_test

import (
	"fmt"
	"log"

	"github.com/batchfs/batchfs/shard"
)

// The samples of a batch are known for any shard and epoch, without reading earlier batches.
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
