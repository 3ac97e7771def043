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
	"github.com/batchfs/batchfs/engine/catalog"
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
		return []row{{what: what, skipped: "this was built without cgo: Go's decoders allocate"}}, nil
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
	// What counts as 0: the runtime and the check for idle streams also allocate occasionally.
	const none = 0.05
	return []row{measured(what, "objects", perImage, fmt.Sprintf("and %.0f a batch", median(perBatch))).atMost(none)}, nil
}

const maxPixels = 1 << 28

func withCgo() bool {
	info, ok := debug.ReadBuildInfo()
	return ok && slices.Contains(info.Settings, debug.BuildSetting{Key: "CGO_ENABLED", Value: "1"})
}

// allocationsOf reads an epoch in the steady state and returns the number of allocated
// objects and of batches.
func allocationsOf(ctx context.Context, ds *dataset.Dataset, batch int) (objects, batches float64, err error) {
	e, err := engine.New(ds, engine.Options{
		Options: catalog.Options{
			Config: shard.Config{Shards: 1, BatchSize: batch, Shuffle: true, PadLastBatch: true}, Epochs: 4,
			Transform: resample.Options{
				Mode: resample.RandomResizedCrop, Height: 224, Width: 224,
				CropArea: resample.DefaultCropArea, CropRatio: resample.DefaultCropRatio, Flip: 0.5,
			},
			Decoding: decode.Options{MaxPixels: maxPixels},
		},
		Workers: runtime.NumCPU(), BatchWorkers: 2, PrefetchDepth: 2, MemoryLimit: 2 << 30,
	})
	if err != nil {
		return 0, 0, err
	}
	defer e.Close()
	n := (ds.Len() + batch - 1) / batch
	var before, after runtime.MemStats
	for i := range 2 * n {
		if i == n { // only the second epoch counts
			runtime.ReadMemStats(&before)
		}
		f, err := e.Open(ctx, engine.Key{Epoch: i / n, Batch: i % n}, layout.NHWCForm)
		if err != nil {
			return 0, 0, err
		}
		throughput.Touch(f.Bytes())
		f.Close()
	}
	runtime.ReadMemStats(&after)
	return float64(after.Mallocs - before.Mallocs), float64(n), nil
}
