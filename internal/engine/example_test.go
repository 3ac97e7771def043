package engine_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"path/filepath"

	"github.com/batchfs/batchfs/decode"
	"github.com/batchfs/batchfs/internal/catalog"
	"github.com/batchfs/batchfs/internal/dataset"
	"github.com/batchfs/batchfs/internal/engine"
	"github.com/batchfs/batchfs/internal/sample"
	"github.com/batchfs/batchfs/layout"
	"github.com/batchfs/batchfs/shard"
)

// Batches without a file system: open a dataset, start an engine, open a batch by its name.
func Example() {
	dir := twoClasses()
	defer os.RemoveAll(dir)

	ctx := context.Background()
	ds, err := dataset.Open(ctx, dir, dataset.Options{Prober: sample.Probe})
	if err != nil {
		log.Fatal(err)
	}
	defer ds.Close()

	e, err := engine.New(ds, engine.Options{
		Options: catalog.Options{
			Config: shard.Config{Shards: 1, BatchSize: 2, PadLastBatch: true}, Epochs: 2, Decoding: decode.Options{MaxPixels: 1 << 20},
		},
		Workers: 2, BatchWorkers: 2, PrefetchDepth: 1, MemoryLimit: 256 << 20,
	})
	if err != nil {
		log.Fatal(err)
	}
	defer e.Close() // before the dataset, which it reads from

	key := engine.Key{Shard: 0, Epoch: 1, Batch: 1}
	fmt.Println(key, e.Catalog().Spec(key).Shape()) // known before anything is decoded

	f, err := e.Open(ctx, key, layout.NHWCForm) // waits until the batch is complete
	if err != nil {
		log.Fatal(err)
	}
	defer f.Close()
	samples := f.Bytes()
	fmt.Println(samples[:6])
	fmt.Println(samples[6:])
	// Output:
	// shard-0/epoch-1/batch-00001 [2 1 2 3]
	// [20 21 22 0 0 0]
	// [30 31 32 30 31 32]
}

// twoClasses makes a dataset of four images, one pixel high, and one or two pixels wide:
// the narrow ones are padded.
func twoClasses() (dir string) {
	dir, err := os.MkdirTemp("", "batchfs-example-")
	if err != nil {
		log.Fatal(err)
	}
	for i, name := range []string{"cat/0.ppm", "cat/1.ppm", "dog/2.ppm", "dog/3.ppm"} {
		width := 1 + i%2
		image := fmt.Appendf(nil, "P6 %d 1 255\n", width)
		for range width {
			image = append(image, byte(10*i), byte(10*i+1), byte(10*i+2)) // red, green, blue
		}
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			log.Fatal(err)
		}
		if err := os.WriteFile(path, image, 0o644); err != nil {
			log.Fatal(err)
		}
	}
	return dir
}
