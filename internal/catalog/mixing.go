package catalog

import (
	"context"
	"math"

	"github.com/batchfs/batchfs/shard"
)

// mixed says how well a window mixes, each figure beside that of a shuffle of all samples.
type mixed struct {
	Window int   `json:"window"`
	Blocks int64 `json:"blocks"`
	// If all samples of a block had one label, and each block another: the variance of the share
	// of a label in a batch, relative to that of independent draws. At most the batch size.
	LabelVariance compared `json:"label_variance"`
	// Of the distances between samples that are read one after another, by their ids, plus that of
	// the distances between their blocks, in bits.
	Entropy compared `json:"entropy"`
	// How far apart samples that are neighbours in the dataset are read, relative to the mean
	// distance of two positions.
	Apart compared `json:"apart"`
}

// compared is a figure of an order, and of a shuffle of all samples.
type compared struct {
	Measured float64 `json:"measured"`
	Full     float64 `json:"full"`
}

// shuffleOf measures how an epoch mixes in a window, and without one.
func shuffleOf(ctx context.Context, plan *shard.Plan, epoch int) (*mixed, error) {
	config := plan.Config()
	window := config.Window
	config.Window = 0
	full, err := shard.New(config)
	if err != nil {
		return nil, err
	}
	a, err := measureMixing(ctx, plan, epoch)
	if err != nil {
		return nil, err
	}
	b, err := measureMixing(ctx, full, epoch)
	return &mixed{
		Window: window, Blocks: plan.Blocks(),
		LabelVariance: compared{a.variance, b.variance}, Entropy: compared{a.entropy, b.entropy}, Apart: compared{a.apart, b.apart},
	}, err
}

// mixing is how well the order of an epoch mixes.
type mixing struct{ variance, entropy, apart float64 }

func measureMixing(ctx context.Context, plan *shard.Plan, epoch int) (m mixing, err error) {
	n := plan.Config().Samples
	distances, between, place := make([]int32, n), make([]int32, plan.Blocks()), make([]int64, n)
	last := int64(0)
	for position := range n {
		if position%4096 == 0 && ctx.Err() != nil {
			return m, ctx.Err()
		}
		id := plan.ID(epoch, position)
		if place[id] = position; position > 0 {
			distances[distance(id, last)]++
			between[distance(plan.Block(id), plan.Block(last))]++
		}
		last = id
	}
	m.entropy = entropyOf(distances) + entropyOf(between)
	for id := range n - 1 {
		m.apart += float64(distance(place[id], place[id+1]))
	}
	m.apart /= float64(max(1, n-1)) * float64(n+1) / 3
	m.variance = labelVariance(plan, epoch)
	return m, nil
}

func distance(a, b int64) int64 { return max(a-b, b-a) }

// entropyOf is the entropy of a distribution that is given by counts, in bits.
func entropyOf(counts []int32) (bits float64) {
	all := 0.0
	for _, count := range counts {
		all += float64(count)
	}
	for _, count := range counts {
		if p := float64(count) / all; count > 0 {
			bits -= p * math.Log2(p)
		}
	}
	return bits
}

// labelVariance averages over the full batches of an epoch.
func labelVariance(plan *shard.Plan, epoch int) float64 {
	cfg := plan.Config()
	share, squares := make([]float64, plan.Blocks()), 0.0
	for id := range cfg.Samples {
		share[plan.Block(id)] += 1 / float64(cfg.Samples)
	}
	for _, p := range share {
		squares += p * p
	}
	if squares >= 1 {
		return 1 // one block: every batch has the same label
	}
	var slots []shard.Slot
	sum, batches, b := 0.0, 0.0, float64(cfg.BatchSize)
	for x := range cfg.Shards {
		for i := range plan.Batches(x, epoch) {
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
	return sum / max(1, batches) * b / (1 - squares)
}
