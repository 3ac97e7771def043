package main

import (
	"context"
	"fmt"
	"runtime"
	"runtime/debug"
	"slices"

	"github.com/batchfs/batchfs/dataset"
	"github.com/batchfs/batchfs/decode"
	"github.com/batchfs/batchfs/decode/resample"
	"github.com/batchfs/batchfs/engine"
	"github.com/batchfs/batchfs/internal/throughput"
	"github.com/batchfs/batchfs/layout"
	"github.com/batchfs/batchfs/shard"
)

// allocations counts the engine's Go heap allocations per image. It runs the engine in this
// process, without a mount, because a daemon's heap cannot be inspected.
//
// A batch makes a few allocations whatever its number of images. Epochs with small and with
// large batches separate those from the allocations per image.
func allocations(ctx context.Context, s *setup) ([]row, error) {
	const what = "heap allocations an image, random-resized-crop 224"
	if !withCgo() {
		return []row{{What: what, Skipped: "this was built without cgo: Go's decoders allocate"}}, nil
	}
	var perImage, perBatch []float64
	for i := range s.rounds {
		s.progress.step("epochs of two batch sizes", i, s.rounds)
		few, fewBatches, err := allocationsOf(ctx, s.photos.Dataset, 128)
		if err != nil {
			return nil, err
		}
		many, manyBatches, err := allocationsOf(ctx, s.photos.Dataset, 16)
		if err != nil {
			return nil, err
		}
		batch := (many - few) / (manyBatches - fewBatches)
		perBatch = append(perBatch, batch)
		perImage = append(perImage, (many-batch*manyBatches)/float64(s.photos.images))
	}
	return []row{measured(what, "objects", perImage, fmt.Sprintf("and %.0f a batch", median(perBatch))).atMost(noAllocations)}, nil
}

const maxPixels = 1 << 28

func withCgo() bool {
	info, ok := debug.ReadBuildInfo()
	return ok && slices.Contains(info.Settings, debug.BuildSetting{Key: "CGO_ENABLED", Value: "1"})
}

// noAllocations is the measured value that counts as 0 per image: the runtime and the check
// for idle streams also allocate occasionally.
const noAllocations = 0.05

// allocationsOf reads an epoch in the steady state and returns the number of allocated
// objects and of batches.
func allocationsOf(ctx context.Context, ds *dataset.Dataset, batch int) (objects, batches float64, err error) {
	e, err := engine.New(ds, engine.Options{
		Config: shard.Config{Shards: 1, BatchSize: batch, Shuffle: true, PadLastBatch: true}, Epochs: 4,
		Transform: resample.Options{
			Mode: resample.RandomResizedCrop, Height: 224, Width: 224,
			CropArea: resample.DefaultCropArea, CropRatio: resample.DefaultCropRatio, Flip: 0.5,
		},
		Decoding: decode.Options{MaxPixels: maxPixels},
		Workers:  runtime.NumCPU(), BatchWorkers: 2, PrefetchDepth: 2, MemoryLimit: 2 << 30,
	})
	if err != nil {
		return 0, 0, err
	}
	defer e.Close()
	n := (ds.Len() + batch - 1) / batch
	var before, after runtime.MemStats
	for epoch := range 2 {
		runtime.ReadMemStats(&before) // only the second epoch counts
		if err := readBatches(ctx, e, epoch, n); err != nil {
			return 0, 0, err
		}
		runtime.ReadMemStats(&after)
	}
	return float64(after.Mallocs - before.Mallocs), float64(n), nil
}

func readBatches(ctx context.Context, e *engine.Engine, epoch, n int) error {
	for i := range n {
		f, err := e.Open(ctx, engine.Key{Epoch: epoch, Batch: i}, layout.NHWCForm)
		if err != nil {
			return err
		}
		throughput.Touch(f.Bytes())
		f.Close()
	}
	return nil
}
