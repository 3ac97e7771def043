package engine

import (
	"bytes"
	"context"
	"fmt"
	"image"
	"image/png"
	"log/slog"
	"path/filepath"
	"testing"

	"github.com/batchfs/batchfs/cache"
	"github.com/batchfs/batchfs/decode"
	"github.com/batchfs/batchfs/decode/resample"
	"github.com/batchfs/batchfs/internal/dataset"
	"github.com/batchfs/batchfs/internal/sample"
	"github.com/batchfs/batchfs/internal/testkit"
	"github.com/batchfs/batchfs/layout"
	"github.com/batchfs/batchfs/shard"
)

// evenDir writes n square images of one size, in one class.
func evenDir(t testing.TB, n, side int) string {
	t.Helper()
	dir := t.TempDir()
	for i := range n {
		writePPM(t, filepath.Join(dir, fmt.Sprintf("%04d.ppm", i)), side, side, picture(i, side, side))
	}
	return dir
}

// caching configures a cache of size bytes with a policy.
func caching(policy cache.Policy, size int64) func(*Options) {
	return func(o *Options) {
		o.Shuffle, o.BatchSize, o.Epochs, o.CachePolicy, o.CacheSize = true, 16, 5, policy, size
	}
}

// readEpochs reads the shards in lock step, like a training program with one process per
// shard.
func readEpochs(t testing.TB, e *Engine, from, to int) (all [][]byte) {
	t.Helper()
	for epoch := from; epoch < to; epoch++ {
		e.caches.planner.settled() // in training, epochs last longer than planning
		for batch := range e.catalog.Plan.Batches(0, epoch) {
			for s := range e.catalog.Options.Shards {
				all = append(all, read(t, e, Key{Shard: s, Epoch: epoch, Batch: batch}, layout.NHWCForm))
			}
		}
	}
	return all
}

// TestHitsAreTheSameForEachBatch: from the second epoch on, the hits of all full batches
// differ by at most one, and everything planned to be kept fits.
func TestHitsAreTheSameForEachBatch(t *testing.T) {
	const n, side = 192, 64
	dir := evenDir(t, n, side)
	size := int64(n*side*side*3) * 3 / 10
	plain := readEpochs(t, start(t, dir, caching(cache.None, 0)), 0, 4)
	for _, shards := range []int{1, 3} {
		e := start(t, dir, caching(cache.Constant, size), func(o *Options) {
			o.Shards, o.PrefetchDepth = shards, 0 // no batch of the next epoch is made before the last of this one
		})
		got := readEpochs(t, e, 0, 4)
		if shards == 1 {
			for i := range plain {
				if !bytes.Equal(got[i], plain[i]) {
					t.Fatalf("batch %d has other bytes with a cache", i)
				}
			}
		}
		_, share := e.Budget().cacheSize()
		if share < 0.2 {
			t.Errorf("%d shards: only %v of the samples fit in 30 %% of their size", shards, share)
		}
		for _, s := range e.Stats().Epochs[1:4] {
			d := s.HitsPerBatch
			if d.Max-d.Min > 1 || d.Mean < 16*share-1 || d.Mean > 16*share+1 {
				t.Errorf("%d shards, epoch %d: hits %+v with %v kept", shards, s.Epoch, d, share)
			}
			if s.NotKept != 0 {
				t.Errorf("%d shards, epoch %d: %d samples were not kept, as there was no room", shards, s.Epoch, s.NotKept)
			}
		}
		if used := e.Stats().Memory.Cache; used > size {
			t.Errorf("the cache takes %d of %d bytes", used, size)
		}
	}
}

// TestWarningsAtTheStart: a cache that can keep nothing is worth a warning; otherwise there is
// none.
func TestWarningsAtTheStart(t *testing.T) {
	for size, want := range map[int64]int{1 << 20: 0, 20 << 10: 1} {
		var log bytes.Buffer
		unstarted(t, 64, caching(cache.Constant, size), func(o *Options) { o.Logger = slog.New(slog.NewTextHandler(&log, nil)) })
		if n := logLines(log.Bytes(), "the cache keeps nothing"); n != want || logLines(log.Bytes(), "\n") != want {
			t.Errorf("a cache of %d bytes: %s", size, log.String())
		}
	}
}

// TestCropsReadOnlyTheirRows: raw images that the cache does not keep are read only as far as their
// crops need. The batches are the same.
func TestCropsReadOnlyTheirRows(t *testing.T) {
	const n, side = 48, 400
	dir := evenDir(t, n, side)
	crops := func(o *Options) {
		o.Transform.Mode, o.Transform.Height, o.Transform.Width, o.Transform.CropArea, o.Transform.CropRatio = resample.RandomResizedCrop, 32, 32, [2]float64{0.05, 0.2}, [2]float64{0.5, 2}
	}
	bytesOf := func(e *Engine) (loaded int64) {
		for _, s := range e.Stats().Epochs[:2] {
			loaded += s.StorageBytes
		}
		return loaded
	}
	everything := start(t, dir, caching(cache.Static, 1<<30), crops)
	want := readEpochs(t, everything, 0, 2)
	if all := int64(n * side * side * 3); bytesOf(everything) < all {
		t.Errorf("%d of %d bytes were read for a cache of everything", bytesOf(everything), all)
	}
	for name, e := range map[string]*Engine{
		"no cache": start(t, dir, caching(cache.None, 0), crops),
		"a cache":  start(t, dir, caching(cache.Constant, n*side*side*3/3), crops),
	} {
		got := readEpochs(t, e, 0, 2)
		for i := range want {
			if !bytes.Equal(got[i], want[i]) {
				t.Fatalf("%s: batch %d has other bytes where only rows are read", name, i)
			}
		}
		if loaded, most := bytesOf(e), int64(2*n*side*side*3)*2/3; loaded == 0 || loaded > most {
			t.Errorf("%s: %d bytes were read, not %d at most", name, loaded, most)
		}
		if s := e.Stats().Epochs[1]; s.Hits+s.Misses != n {
			t.Errorf("%s: %d hits and %d misses of %d", name, s.Hits, s.Misses, n)
		}
	}
}

// rawAndEncodedDir writes n images, alternately raw and encoded, in one class.
func rawAndEncodedDir(t *testing.T, n, side int) (dir string, total int64) {
	t.Helper()
	dir = t.TempDir()
	for i := range n {
		name := filepath.Join(dir, fmt.Sprintf("%04d", i))
		if i%2 == 0 {
			writePPM(t, name+".ppm", side, side, picture(i, side, side))
			total += int64(side * side * 3)
			continue
		}
		img := image.NewGray(image.Rect(0, 0, side, side))
		for k := range img.Pix {
			img.Pix[k] = byte(k*k*(i+1)>>7) & 0xfc
		}
		var out bytes.Buffer
		testkit.Must(t, png.Encode(&out, img))
		writeFile(t, name+".png", out.Bytes())
		total += int64(out.Len())
	}
	return dir, total
}

// TestDecodingOrderOfCosts: raw and encoded samples are spread evenly within a batch, each kind
// separately, whether they leave the cache, enter it, or do neither.
func TestDecodingOrderOfCosts(t *testing.T) {
	const n, side, size = 768, 64, 96
	dir, total := rawAndEncodedDir(t, n, side)
	e := start(t, dir, caching(cache.Constant, total/2), func(o *Options) { o.BatchSize, o.PrefetchDepth = size, 0 })
	e.caches.planner.settled()
	readEpochs(t, e, 0, 1)
	e.caches.planner.settled()
	type kind struct {
		held, kept bool
		cost       shard.Cost
	}
	for i := 1; i < e.catalog.Plan.Batches(0, 1); i++ {
		b := &batch{key: Key{Epoch: 1, Batch: i}}
		b.slots, b.valid = e.catalog.Plan.Batch(0, 1, i, nil)
		b.items = b.valid
		all, half := map[kind]int{}, map[kind]int{}
		for k, slot := range e.caches.decodingOrder(b) {
			id := b.slots[slot].ID
			kept, _ := e.caches.planner.Keep(1, id)
			of := kind{e.caches.cache.Holds(id), kept, sample.CostOf(e.catalog.Dataset, int(id))}
			if all[of]++; k < size/2 {
				half[of]++
			}
		}
		if len(all) != 8 {
			t.Errorf("batch %d has %v", i, all)
		}
		for of, n := range all {
			if off := 2*half[of] - n; off < -2 || off > 2 {
				t.Errorf("batch %d: %d of %d samples that are %+v come in its first half", i, half[of], n, of)
			}
		}
	}
}

// A shortLoader leaves no memory for the cache between the time when a sample is read and the time
// when it is judged. It does so for every other sample, because the next one is read while the
// first is drawn.
type shortLoader struct {
	loader
	ledger *ledger
	reads  *int
	taken  int64
}

func (s *shortLoader) Load(ctx context.Context, epoch int, id int64, whole bool, grow func(n int) []byte) (data []byte, read int64, seen dataset.Identity, err error) {
	data, read, seen, err = s.loader.Load(ctx, epoch, id, whole, grow)
	if *s.reads++; *s.reads%2 == 1 {
		s.taken = s.ledger.limit
		s.ledger.force(useRuntime, s.taken)
	}
	return data, read, seen, err
}

func (s *shortLoader) Judge(id int64, data []byte) (head decode.Header, height, width int, err error) {
	s.ledger.release(useRuntime, s.taken)
	s.taken = 0
	return s.loader.Judge(id, data)
}

// TestRoomComesLater: a sample for which the cache has no room when it is read is kept if there is
// room when it is drawn.
func TestRoomComesLater(t *testing.T) {
	const n = 64
	e := built(t, evenDir(t, n, 32), caching(cache.Constant, 1<<20), func(o *Options) { o.Workers, o.BatchWorkers, o.Loads, o.PrefetchDepth = 1, 1, 1, 0 })
	e.flow.ownReads.remote = true // one load reads, and no drawer beside it
	var reads int
	e.wrapLoaders(func(real loader) loader { return &shortLoader{loader: real, ledger: e.memory.ledger, reads: &reads} })
	e.start()
	readEpochs(t, e, 0, 2)
	if s := e.Stats().Epochs; s[0].Kept != n || s[0].NotKept != 0 || s[1].Hits != n {
		t.Errorf("%+v", s)
	}
}

// TestHitsOfAMix: with raw samples four times as large as encoded ones, all batches have
// the same number of hits and everything planned to be kept fits.
func TestHitsOfAMix(t *testing.T) {
	const n, side, batch = 768, 64, 48
	dir, total := rawAndEncodedDir(t, n, side)
	e := start(t, dir, caching(cache.Constant, total*3/10), func(o *Options) { o.BatchSize, o.PrefetchDepth = batch, 0 })
	readEpochs(t, e, 0, 4)
	_, share := e.Budget().cacheSize()
	if share < 0.22 {
		t.Errorf("only %v of the samples fit in 30 %% of their size", share)
	}
	for _, s := range e.Stats().Epochs[1:4] {
		if d := s.HitsPerBatch; d.Max-d.Min > 1 || s.NotKept != 0 {
			t.Errorf("epoch %d: hits %+v with %v kept, and %d not kept, as there was no room", s.Epoch, d, share, s.NotKept)
		}
	}
}

// TestCacheSizeBeyondTheLargest: a size that a cache cannot have is as good as the largest.
func TestCacheSizeBeyondTheLargest(t *testing.T) {
	b := Budget{Options: &Options{CachePolicy: cache.Static, CacheSize: cache.MaxLimit + 1}}
	if got := b.CacheLimit(); got != cache.MaxLimit {
		t.Errorf("%d bytes", got)
	}
}
