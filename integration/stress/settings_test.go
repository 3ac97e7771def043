package stress

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"strconv"

	"github.com/batchfs/batchfs/decode"
	"github.com/batchfs/batchfs/decode/resample"
	"github.com/batchfs/batchfs/engine"
	"github.com/batchfs/batchfs/internal/catalog"
	"github.com/batchfs/batchfs/layout"
	"github.com/batchfs/batchfs/shard"
)

// Settings are those of a mount, and of an engine that makes the same bytes.
type settings struct {
	OnError      string
	Resize       string
	Side         int
	DType        string
	Layout       string
	Gray         bool
	Flip         bool
	Shuffle      bool
	Stick        bool
	Shards       int
	BatchSize    int
	Seed         uint64
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
	Order        string
}

// order has the settings that decide which samples are in a batch. Without a shuffle, settings that
// need one are left out.
func (s *settings) order() shard.Config {
	c := shard.Config{Shards: s.Shards, BatchSize: s.BatchSize, Shuffle: s.Shuffle, Seed: s.Seed, PadLastBatch: true}
	switch {
	case s.Order == "window" && s.Shuffle:
		c.Window = 1
	case s.Order == "local" && s.Shuffle:
		c.Partition = shard.Local
	case s.Order == "elastic" || s.Order == "local":
		c.Partition = shard.Elastic
	default:
		c.StickToShard = s.Stick
	}
	return c
}

// orderFlags are the flags for order.
func (s *settings) orderFlags() []string {
	c := s.order()
	f := []string{"--seed", strconv.FormatUint(c.Seed, 10)}
	if c.Window > 0 {
		f = append(f, fmt.Sprintf("--shuffle=window=%d", c.Window))
	} else {
		f = append(f, fmt.Sprintf("--shuffle=%t", c.Shuffle))
	}
	if c.Partition == shard.Ranges {
		return append(f, "--shards", strconv.Itoa(c.Shards), "--batch-size", strconv.Itoa(c.BatchSize), fmt.Sprintf("--stick-to-shard=%t", c.StickToShard))
	}
	if c.Partition == shard.Local {
		f = append(f, "--placement", "local")
	}
	return append(f, "--partition", "elastic", "--world-size", strconv.Itoa(c.Shards), "--global-batch", strconv.Itoa(c.Shards*c.BatchSize))
}

// tight reports that the memory limit may make an open fail.
func (s *settings) tight() bool { return s.Room > 0 }

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
		OnError: pick(random, "fail", "replace", "zero"),
		Resize:  pick(random, "none", "stretch", "not-larger", "not-smaller", "center-crop", "random-resized-crop"),
		Side:    pick(random, 48, 64, 96),
		DType:   pick(random, "uint8", "uint8", "float16", "bfloat16", "float32"),
		Layout:  pick(random, "nhwc", "nchw"),
		Gray:    chance(random, 0.2), Flip: chance(random, 0.5),
		Shuffle: chance(random, 0.7), Stick: chance(random, 0.2),
		Shards: pick(random, 1, 2, 3), BatchSize: pick(random, 8, 16), Seed: random.Uint64N(1000),
		Workers: pick(random, 1, 2, 4, 8), BatchWorkers: pick(random, 1, 2, 4), Depth: pick(random, 0, 1, 2, 5),
		Room:  pick(random, 0, 0, 0, 1, 2, 4, 8, 16),
		Cache: pick(random, "auto", "0", "100KiB"), CachePolicy: pick(random, "constant", "constant", "static", "tinylfu", "none"),
		ReadPath: pick(random, "auto", "auto", "direct"), IO: pick(random, "direct", "buffered"),
		FaultyFS: chance(random, 0.5), StuckLog: chance(random, 0.1),
		Order: pick(random, "ranges", "ranges", "elastic", "local", "window"),
	}
}

// flags returns the flags of batchfs mount.
func (s *settings) flags() []string {
	f := append(s.orderFlags(), []string{
		"--on-error", s.OnError, "--resize", s.Resize, "--dtype", s.DType, "--layout", s.Layout,
		"--workers", strconv.Itoa(s.Workers), "--batch-workers", strconv.Itoa(s.BatchWorkers),
		"--prefetch-queue-depth", strconv.Itoa(s.Depth), "--memory-limit", strconv.FormatInt(s.Limit, 10),
		"--cache-policy", s.CachePolicy, "--read-path", s.ReadPath, "--io", s.IO,
	}...)
	if s.CachePolicy != "none" {
		f = append(f, "--cache-size", s.Cache)
	}
	if s.Resize != "none" {
		f = append(f, "--size", fmt.Sprintf("%dx%d", s.Side, s.Side))
	}
	if s.Resize == "center-crop" {
		f = append(f, "--resize-to", strconv.Itoa(s.Side+16))
	}
	if s.Gray {
		f = append(f, "--color", "gray")
	}
	if s.Flip {
		f = append(f, "--flip", "0.5")
	}
	return f
}

// options returns the options of an engine that makes the same bytes in another way: with
// ample memory, no prefetching and no cache.
func (s *settings) options() (engine.Options, error) {
	o := engine.Options{
		Options: catalog.Options{
			Config:    s.order(),
			Transform: resample.Options{ResizeTo: s.Side + 16, CropArea: [2]float64{0.08, 1}, CropRatio: [2]float64{3. / 4, 4. / 3}},
			Decoding:  decode.Options{MaxPixels: 1 << 28}, Epochs: 100,
		},
		Workers: runtime.NumCPU(), BatchWorkers: 1, MemoryLimit: 1 << 30, Anonymous: true,
	}
	for o.Transform.Mode.String() != s.Resize {
		if o.Transform.Mode++; o.Transform.Mode > resample.RandomResizedCrop {
			return o, fmt.Errorf("no mode is called %s", s.Resize)
		}
	}
	o.OnError = map[string]catalog.OnError{"fail": engine.Fail, "replace": engine.Replace, "zero": engine.Zero}[s.OnError]
	for o.DType.String() != s.DType {
		if o.DType++; o.DType > layout.Float32 {
			return o, fmt.Errorf("no type is called %s", s.DType)
		}
	}
	if s.Layout == "nchw" {
		o.Layout = layout.NCHW
	}
	if s.Resize != "none" {
		o.Transform.Height, o.Transform.Width = s.Side, s.Side
	}
	if s.Gray {
		o.Decoding.Color = decode.Gray
	}
	if s.Flip {
		o.Transform.Flip = 0.5
	}
	return o, nil
}
