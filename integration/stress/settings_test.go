package stress

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"strconv"

	"github.com/batchfs/batchfs/decode"
	"github.com/batchfs/batchfs/decode/resample"
	"github.com/batchfs/batchfs/internal/catalog"
	"github.com/batchfs/batchfs/internal/engine"
	"github.com/batchfs/batchfs/layout"
	"github.com/batchfs/batchfs/shard"
)

// Settings are those of a mount. An engine with the same catalog makes the same bytes.
type settings struct {
	Catalog      catalog.Options
	Workers      int
	BatchWorkers int
	Depth        int
	Room         int   // space the memory limit leaves, in batches; 0: ample
	Limit        int64 // memory limit; 0: not set yet, see limitTo
	Cache        string
	CachePolicy  string
	ReadPath     string
	IO           string
	FaultyFS     bool // the dataset is on storage that can fail and stall
	StuckLog     bool // nothing reads the daemon's log
}

// tight reports that the memory limit may make an open fail.
func (s *settings) tight() bool { return s.Room > 0 }

// passthrough reports whether the kernel reads batches without the daemon.
func (s *settings) passthrough() bool { return s.ReadPath != "direct" }

// limitTo sets the memory limit, given the largest file of a batch.
func (s *settings) limitTo(largest int64) {
	const runtime, worker = 32 << 20, 512 << 10 // approximate needs, including requests through the daemon
	s.Limit = 1 << 30
	if s.Room > 0 {
		s.Limit = runtime + int64(s.Workers)*worker + int64(s.Room)*(largest+4096)
	}
}

func pick[T any](random *rand.Rand, values ...T) T { return values[random.IntN(len(values))] }

func chance(random *rand.Rand, of float64) bool { return random.Float64() < of }

// randomSettings chooses the settings of one round.
func randomSettings(random *rand.Rand) settings {
	return settings{
		Catalog: randomCatalog(random),
		Workers: pick(random, 1, 2, 4, 8), BatchWorkers: pick(random, 1, 2, 4), Depth: pick(random, 0, 1, 2, 5),
		Room:  pick(random, 0, 0, 0, 1, 2, 4, 8, 16),
		Cache: pick(random, "auto", "0", "100KiB"), CachePolicy: pick(random, "constant", "constant", "static", "tinylfu", "none"),
		ReadPath: pick(random, "auto", "auto", "direct"), IO: pick(random, "direct", "buffered"),
		FaultyFS: chance(random, 0.5), StuckLog: chance(random, 0.1),
	}
}

// randomCatalog chooses the settings that the bytes of batches depend on.
func randomCatalog(random *rand.Rand) catalog.Options {
	o := catalogOptions(pick(random, engine.Fail, engine.Replace, engine.Zero), pick(random, 8, 16), random.Uint64N(1000))
	o.Shuffle, o.Shards = chance(random, 0.7), pick(random, 1, 2, 3)
	switch pick(random, "ranges", "ranges", "elastic", "local", "window") {
	case "ranges":
		o.StickToShard = chance(random, 0.2)
	case "elastic":
		o.Partition = shard.Elastic
	case "local":
		if o.Partition = shard.Elastic; o.Shuffle {
			o.Partition = shard.Local
		}
	case "window":
		if o.Shuffle {
			o.Window = 1
		}
	}
	if o.Transform.Mode = pick(random, resample.None, resample.Stretch, resample.NotLarger, resample.NotSmaller,
		resample.CenterCrop, resample.RandomResizedCrop); o.Transform.Mode != resample.None {
		side := pick(random, 48, 64, 96)
		o.Transform.Height, o.Transform.Width, o.Transform.ResizeTo = side, side, side+16
	}
	o.DType = pick(random, layout.Uint8, layout.Uint8, layout.Float16, layout.BFloat16, layout.Float32)
	o.Layout = pick(random, layout.NHWC, layout.NCHW)
	if chance(random, 0.2) {
		o.Decoding.Color = decode.Gray
	}
	if chance(random, 0.5) {
		o.Transform.Flip = 0.5
	}
	return o
}

// catalogOptions are options as flags that are not given would have them.
func catalogOptions(onError catalog.OnError, batchSize int, seed uint64) catalog.Options {
	return catalog.Options{
		Config:    shard.Config{Shards: 1, BatchSize: batchSize, Shuffle: true, Seed: seed, PadLastBatch: true},
		Transform: resample.Options{CropArea: [2]float64{0.08, 1}, CropRatio: [2]float64{3. / 4, 4. / 3}},
		Decoding:  decode.Options{MaxPixels: 1 << 28}, Epochs: 100, OnError: onError,
	}
}

// flags returns the flags of batchfs mount.
func (s *settings) flags() []string {
	c := &s.Catalog
	f := []string{
		"--seed", strconv.FormatUint(c.Seed, 10),
		"--on-error", c.OnError.String(), "--resize", c.Transform.Mode.String(), "--dtype", c.DType.String(), "--layout", c.Layout.String(),
		"--workers", strconv.Itoa(s.Workers), "--batch-workers", strconv.Itoa(s.BatchWorkers),
		"--prefetch-queue-depth", strconv.Itoa(s.Depth), "--memory-limit", strconv.FormatInt(s.Limit, 10),
		"--cache-policy", s.CachePolicy, "--read-path", s.ReadPath, "--io", s.IO,
		"--flip", strconv.FormatFloat(c.Transform.Flip, 'g', -1, 64),
	}
	if c.Window > 0 {
		f = append(f, fmt.Sprintf("--shuffle=window=%d", c.Window))
	} else {
		f = append(f, fmt.Sprintf("--shuffle=%t", c.Shuffle))
	}
	if c.Partition == shard.Ranges {
		f = append(f, "--shards", strconv.Itoa(c.Shards), "--batch-size", strconv.Itoa(c.BatchSize), fmt.Sprintf("--stick-to-shard=%t", c.StickToShard))
	} else {
		f = append(f, "--partition", "elastic", "--world-size", strconv.Itoa(c.Shards), "--global-batch", strconv.Itoa(c.Shards*c.BatchSize))
	}
	if c.Partition == shard.Local {
		f = append(f, "--placement", "local")
	}
	if s.CachePolicy != "none" {
		f = append(f, "--cache-size", s.Cache)
	}
	if c.Transform.Mode != resample.None {
		f = append(f, "--size", fmt.Sprintf("%dx%d", c.Transform.Height, c.Transform.Width))
	}
	if c.Transform.Mode == resample.CenterCrop {
		f = append(f, "--resize-to", strconv.Itoa(c.Transform.ResizeTo))
	}
	if c.Decoding.Color == decode.Gray {
		f = append(f, "--color", "gray")
	}
	return f
}

// options returns the options of an engine that makes the same bytes in another way: with
// ample memory, no prefetching and no cache.
func (s *settings) options() engine.Options {
	return engine.Options{Options: s.Catalog, Workers: runtime.NumCPU(), BatchWorkers: 1, MemoryLimit: 1 << 30, Anonymous: true}
}
