package engine

import (
	"fmt"
	"log/slog"
	"time"

	"github.com/batchfs/batchfs/cache"
	"github.com/batchfs/batchfs/decode"
	"github.com/batchfs/batchfs/decode/resample"
	"github.com/batchfs/batchfs/engine/affinity"
	"github.com/batchfs/batchfs/layout"
	"github.com/batchfs/batchfs/pinned"
	"github.com/batchfs/batchfs/shard"
)

// OnError says how a sample that cannot be read is handled.
type OnError uint8

const (
	// Fail makes the whole batch fail with ErrBad.
	Fail OnError = iota
	// Replace puts the next readable sample of the shard's range in its place.
	Replace
	// Zero fills the slot with the fill value and the label -1.
	Zero
)

// String is the option's value on the command line.
func (p OnError) String() string {
	switch p {
	case Replace:
		return "replace"
	case Zero:
		return "zero"
	}
	return "fail"
}

// ParseOnError parses an option value.
func ParseOnError(s string) (OnError, error) {
	for _, p := range []OnError{Fail, Replace, Zero} {
		if s == p.String() {
			return p, nil
		}
	}
	return Fail, fmt.Errorf("must be fail, replace or zero, not %q", s)
}

// Options are the settings of an engine. The zero value is not usable: New rejects it with
// a reason.
type Options struct {
	// Which samples are in a batch; see package shard.
	Shards       int
	BatchSize    int
	Shuffle      bool
	Seed         uint64
	StickToShard bool
	PadLastBatch bool
	LastBatch    shard.LastBatch
	Epochs       int // number of epochs

	// How an image is transformed; see package resample.
	Resize    resample.Mode
	CropArea  [2]float64 // minimum and maximum share of the image's area, for RandomResizedCrop
	CropRatio [2]float64 // minimum and maximum of width/height, for RandomResizedCrop
	Flip      float64    // the probability of a horizontal flip

	// The format of a batch.
	Height, Width     int // of every batch; 0 with images of their own size: of the largest in each batch
	PadMultiple       int // then height and width are rounded up to a multiple of it; 0 or 1: no rounding
	Color             decode.Color
	Fill              uint8 // the value of pixels outside an image, before normalisation
	DType             layout.DType
	Normalize         layout.Normalization // of 8-bit values, channel by channel
	Layout            layout.Order
	IgnoreOrientation bool
	FullJPEGs         bool  // decode JPEGs at full size even if they are shrunk; see resample.Transform.Scale
	MaxPixels         int64 // of one image; a larger one counts as corrupt
	OnError           OnError

	// How batches are made. None of these changes their bytes.
	Workers       int           // item workers
	BatchWorkers  int           // maximum number of batches in the making
	PrefetchDepth int           // batches made ahead, per stream
	MemoryLimit   int64         // bytes
	MemoryWait    time.Duration // how long an Open waits for its turn when the limit is used up; 0: 10 s
	CacheSize     int64         // bytes for encoded samples between epochs; AutoCache; 0: no cache
	CachePolicy   cache.Policy
	LocalFrom     int // the shards read here, LocalTo excluded; both 0: all
	LocalTo       int
	Memory        pinned.Policy
	Lock          bool           // page-lock batch memory if the kernel allows it
	Hints         Hints          // initial sizes of the buffers
	Affinity      []affinity.Set // the CPUs of each item worker; nil: any
	writing       layout.Kernel  // for tests
	IdleAfter     time.Duration
	Anonymous     bool // keep batches in anonymous memory, which the kernel cannot serve from
	Logger        *slog.Logger
}

// Hints are the bytes per sample of each buffer, as found in the memory.json of an earlier
// run. Buffers of that size are allocated before the first sample, and stay.
type Hints struct{ Batch, Input, Scratch int64 }

// defaultIdle is how long a stream may be idle before its prefetched batches are given
// back: longer than any training step, shorter than an evaluation.
const defaultIdle = time.Minute

// validate names the field, the rule and the value of the first bad setting. Package shard
// checks its own. It also fills in defaults.
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
		atLeast("bytes per sample of a batch", o.Hints.Batch, 0),
		atLeast("bytes per sample of input", o.Hints.Input, 0),
		atLeast("bytes per sample of scratch", o.Hints.Scratch, 0),
		atLeast("pad multiple", int64(o.PadMultiple), 0),
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
	if err := o.transform().Validate(); err != nil {
		return err
	}
	if o.CacheSize < AutoCache {
		return fmt.Errorf("cache size must be at least 0, not %d", o.CacheSize)
	}
	if n := len(o.Affinity); n != 0 && n != o.Workers {
		return fmt.Errorf("affinity must name the CPUs of every worker, %d, not of %d", o.Workers, n)
	}
	if o.Memory == (pinned.Policy{}) {
		o.Memory = pinned.DefaultPolicy()
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.MemoryWait <= 0 {
		o.MemoryWait = defaultMemoryWait
	}
	if o.IdleAfter <= 0 {
		o.IdleAfter = defaultIdle
	}
	return nil
}

// transform returns the options for package resample.
func (o *Options) transform() resample.Options {
	return resample.Options{
		Mode: o.Resize, Height: o.Height, Width: o.Width,
		CropArea: o.CropArea, CropRatio: o.CropRatio, Flip: o.Flip, Seed: o.Seed,
	}
}

func (o *Options) decoding() decode.Options {
	return decode.Options{Color: o.Color, IgnoreOrientation: o.IgnoreOrientation, MaxPixels: o.MaxPixels}
}

func (o *Options) plan(samples int64, raw *shard.RawSet) (*shard.Plan, error) {
	return shard.New(shard.Config{
		Samples: samples, Shards: o.Shards, BatchSize: o.BatchSize, Shuffle: o.Shuffle, Seed: o.Seed,
		StickToShard: o.StickToShard, PadLastBatch: o.PadLastBatch, LastBatch: o.LastBatch, Raw: raw,
	})
}
