package throughput

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/batchfs/batchfs/internal/daemon"
)

// A Training reads one shard batch after batch, epoch after epoch, like a training program.
type Training struct {
	Mount   *daemon.Mount
	shard   int
	read    Reader
	Also    []string // other forms of each batch to read after the mount's
	Batches int      // per epoch
	Samples int      // per epoch
	Next    int      // number of the next batch, counted across epochs
}

// NewTraining prepares to read a shard from the start of epoch 0.
func NewTraining(m *daemon.Mount, shard int, read Reader) (*Training, error) {
	var epoch struct{ Batches, Valid int }
	if err := m.Document(fmt.Sprintf("shard-%d/epoch-0/epoch.json", shard), &epoch); err != nil {
		return nil, err
	}
	if epoch.Batches == 0 {
		return nil, errors.New("the mount has no batches")
	}
	return &Training{Mount: m, shard: shard, read: read, Batches: epoch.Batches, Samples: epoch.Valid}, nil
}

// Take reads the next n batches and returns their size in bytes.
func (t *Training) Take(ctx context.Context, n int) (bytes int64, err error) {
	for range n {
		if ctx.Err() != nil {
			return bytes, ctx.Err()
		}
		for _, form := range append([]string{t.Mount.Form}, t.Also...) {
			size, err := t.read.path(t.Mount.File(t.shard, t.Next/t.Batches, t.Next%t.Batches, form))
			if err != nil {
				return bytes, err
			}
			bytes += size
		}
		t.Next++
	}
	return bytes, nil
}

// Ahead is a lower bound on the batches that a daemon makes while nothing reads.
const Ahead = 4

// Turn runs a measurement during training. It first reads the batches made while nothing read, so
// that equally many are in progress when the measurement starts and when it ends. The daemon is
// paused before and after.
func (t *Training) Turn(ctx context.Context, measure func() error) error {
	t.Mount.Resume()
	defer t.Mount.Pause()
	if _, err := t.Take(ctx, Ahead); err != nil {
		return err
	}
	return measure()
}

// Median is that of at least one measurement.
func Median(x []float64) float64 {
	x = slices.Sorted(slices.Values(x))
	n := len(x)
	return (x[(n-1)/2] + x[n/2]) / 2
}
