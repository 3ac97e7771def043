package profile

import (
	"context"

	"github.com/batchfs/batchfs/shard"
)

// mixed compares how well a window mixes with a shuffle of all samples.
type mixed struct {
	Window int   `json:"window"`
	Blocks int64 `json:"blocks"`
	// The variance of a label's share in a batch, relative to independent draws, if each block had
	// one label of its own. It is at most the batch size.
	LabelVariance compared `json:"label_variance"`
}

// compared is a figure for an order, and for a shuffle of all samples.
type compared struct {
	Measured float64 `json:"measured"`
	Full     float64 `json:"full"`
}

// shuffleOf measures how an epoch mixes with a window, and without one.
func shuffleOf(ctx context.Context, plan *shard.Plan, epoch int) (*mixed, error) {
	config := plan.Config()
	m := &mixed{Window: config.Window, Blocks: plan.Blocks()}
	config.Window = 0
	full, err := shard.New(config)
	if err == nil {
		m.LabelVariance.Measured, err = labelVariance(ctx, plan, epoch)
	}
	if err == nil {
		m.LabelVariance.Full, err = labelVariance(ctx, full, epoch)
	}
	return m, err
}

// labelVariance averages over the full batches of an epoch.
func labelVariance(ctx context.Context, plan *shard.Plan, epoch int) (float64, error) {
	cfg := plan.Config()
	share, squares := make([]float64, plan.Blocks()), 0.0
	for id := range cfg.Samples {
		share[plan.Block(id)] += 1 / float64(cfg.Samples)
	}
	for _, p := range share {
		squares += p * p
	}
	if squares >= 1 {
		return 1, nil // one block: every batch has the same label
	}
	var slots []shard.Slot
	sum, batches, b := 0.0, 0.0, float64(cfg.BatchSize)
	for x := range cfg.Shards {
		for i := range plan.Batches(x, epoch) {
			if err := ctx.Err(); err != nil {
				return 0, err
			}
			var valid int
			if slots, valid = plan.Batch(x, epoch, i, slots); valid < cfg.BatchSize {
				continue
			}
			seen := map[int64]float64{}
			for _, slot := range slots {
				seen[plan.Block(slot.ID)]++
			}
			sum += squares
			for block, count := range seen {
				d, p := count/b-share[block], share[block]
				sum += d*d - p*p
			}
			batches++
		}
	}
	return sum / max(1, batches) * b / (1 - squares), nil
}
