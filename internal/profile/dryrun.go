package profile

import (
	"github.com/batchfs/batchfs/internal/catalog"
	"github.com/batchfs/batchfs/internal/dataset"
	"github.com/batchfs/batchfs/shard"
)

// A DryRun says what mounts would read, and what their caches would do, without reading anything:
// this follows from the order of samples.
type DryRun struct {
	plan  *shard.Plan
	costs *shard.Costs // nil: unknown
}

// NewDryRun makes a DryRun of c.Samples samples, or of ds if that is not nil. An error is an
// *option.Error.
func NewDryRun(ds *dataset.Dataset, c shard.Config) (*DryRun, error) {
	o := &DryRun{}
	if ds != nil {
		c.Samples, c.Blocks, o.costs = int64(ds.Len()), ds.Blocks(), catalog.Costs(ds)
		if c.Shuffle { // else they have no part in the order
			c.Costs = o.costs
		}
	}
	var err error
	o.plan, err = shard.New(c)
	return o, err
}

// EpochBatches are the batches that a shard reads in an epoch.
type EpochBatches struct {
	Shard   int            `json:"shard"`
	Epoch   int            `json:"epoch"`
	Batches []batchSamples `json:"batches"`
}

// batchSamples are the samples of a batch, slot by slot.
type batchSamples struct {
	Batch     int     `json:"batch"`
	Positions []int64 `json:"positions"`
	IDs       []int64 `json:"ids"`
	Valid     int     `json:"valid"`
}

// Epoch lists the batches of a shard in an epoch.
func (o *DryRun) Epoch(s, epoch int) EpochBatches {
	e := EpochBatches{Shard: s, Epoch: epoch, Batches: make([]batchSamples, o.plan.Batches(s, epoch))}
	var slots []shard.Slot
	for i := range e.Batches {
		var valid int
		slots, valid = o.plan.Batch(s, epoch, i, slots[:0])
		b := batchSamples{Batch: i, Positions: make([]int64, len(slots)), IDs: make([]int64, len(slots)), Valid: valid}
		for j, slot := range slots {
			b.Positions[j], b.IDs[j] = slot.Position, slot.ID
		}
		e.Batches[i] = b
	}
	return e
}
