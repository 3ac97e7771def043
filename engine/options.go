package engine

import (
	"fmt"
	"log/slog"
	"time"

	"github.com/batchfs/batchfs/decode"
	"github.com/batchfs/batchfs/layout"
	"github.com/batchfs/batchfs/shard"
)

// OnError says what happens to a sample that cannot be read.
type OnError uint8

const (
	// Fail makes the whole batch fail with ErrBad.
	Fail OnError = iota
	// Replace puts the next readable sample of the shard's range in its place.
	Replace
	// Zero fills the slot with the fill value and the label -1.
	Zero
)

// String is the word that users write.
func (p OnError) String() string {
	switch p {
	case Replace:
		return "replace"
	case Zero:
		return "zero"
	}
	return "fail"
}

// ParseOnError reads the word that users write.
func ParseOnError(s string) (OnError, error) {
	for _, p := range []OnError{Fail, Replace, Zero} {
		if s == p.String() {
			return p, nil
		}
	}
	return Fail, fmt.Errorf("must be fail, replace or zero, not %q", s)
}

// Options are the settings of an engine. The zero value is not usable: New
// refuses it and says why.
type Options struct {
	// Which samples are in a batch; see package shard.
	Shards       int
	BatchSize    int
	Shuffle      bool
	Seed         uint64
	StickToShard bool
	PadLastBatch bool
	LastBatch    shard.LastBatch
	Epochs       int // how many epochs there are

	// What a batch looks like.
	Height, Width     int // of every batch; 0: of the largest image in each batch
	Color             decode.Color
	Fill              uint8 // the value of pixels beyond an image's own
	Layout            layout.Order
	IgnoreOrientation bool
	MaxPixels         int64 // of one image; a larger one counts as corrupt
	OnError           OnError

	// How batches are made. None of these changes a byte of them.
	Workers       int   // item workers
	BatchWorkers  int   // batches in the making at once
	PrefetchDepth int   // batches made ahead, per stream
	MemoryLimit   int64 // bytes
	IdleAfter     time.Duration
	Anonymous     bool // keep batches in ordinary memory, which the kernel cannot serve
	Logger        *slog.Logger
}

// defaultIdle is how long a stream may rest before its prefetched batches are
// given back: longer than any training step, shorter than an evaluation.
const defaultIdle = time.Minute

// validate names the field, the rule and the value of the first bad setting.
// Package shard checks its own.
func (o *Options) validate() error {
	atLeast := func(name string, value, least int64) error {
		if value < least {
			return fmt.Errorf("%s must be at least %d, not %d", name, least, value)
		}
		return nil
	}
	for _, check := range []error{
		atLeast("epochs", int64(o.Epochs), 1),
		atLeast("workers", int64(o.Workers), 1),
		atLeast("batch workers", int64(o.BatchWorkers), 1),
		atLeast("prefetch queue depth", int64(o.PrefetchDepth), 0),
		atLeast("memory limit", o.MemoryLimit, 1),
		atLeast("max pixels", o.MaxPixels, 1),
		atLeast("height", int64(o.Height), 0),
		atLeast("width", int64(o.Width), 0),
	} {
		if check != nil {
			return check
		}
	}
	if o.Epochs > shard.MaxEpochs {
		return fmt.Errorf("epochs must be at most %d, not %d", shard.MaxEpochs, o.Epochs)
	}
	if (o.Height == 0) != (o.Width == 0) {
		return fmt.Errorf("size must have both a height and a width, not %dx%d", o.Height, o.Width)
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.IdleAfter <= 0 {
		o.IdleAfter = defaultIdle
	}
	return nil
}

func (o *Options) plan(samples int64, raw *shard.RawSet) (*shard.Plan, error) {
	return shard.New(shard.Config{
		Samples: samples, Shards: o.Shards, BatchSize: o.BatchSize, Shuffle: o.Shuffle, Seed: o.Seed,
		StickToShard: o.StickToShard, PadLastBatch: o.PadLastBatch, LastBatch: o.LastBatch, Raw: raw,
	})
}
