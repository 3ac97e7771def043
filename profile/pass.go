package profile

import (
	"context"
	"time"

	"github.com/batchfs/batchfs/cache"
	"github.com/batchfs/batchfs/dataset"
	"github.com/batchfs/batchfs/engine"
	"github.com/batchfs/batchfs/layout"
)

// engineOptions are the mount's settings for a mix in place of the whole dataset.
func (p *profiler) engineOptions() engine.Options {
	o := p.o.Engine
	// One reading of everything: how it is divided does not matter to what it costs.
	o.Shards, o.LocalFrom, o.LocalTo = 1, 0, 0
	o.Epochs = maxEpochs
	o.Anonymous, o.Lock = true, false // nobody maps these batches
	o.IdleAfter = time.Hour
	o.Logger = p.o.Logger
	if o.OnError == engine.Fail {
		o.OnError = engine.Zero // every image was readable a moment ago
	}
	return o
}

// maxEpochs is more than any measurement gets through.
const maxEpochs = 1 << 20

// measureDecode returns the seconds that an image of the mix takes with all files in
// the cache.
func (p *profiler) measureDecode(ctx context.Context, m *mix) (float64, error) {
	ds, err := p.open(ctx, m, dataset.Storage{Direct: p.o.Storage.Direct})
	if err != nil {
		return 0, err
	}
	defer ds.Close()
	o := p.engineOptions()
	o.CachePolicy, o.CacheSize = cache.Static, everything(m.sizes)
	o.MemoryLimit += o.CacheSize
	r, err := runEngine(ctx, ds, o, p.o.Least)
	return r.seconds, err
}

// everything is the size of a cache that holds all of it.
func everything(sizes []int64) int64 {
	need, n := int64(0), int64(len(sizes))
	for _, size := range sizes {
		need += cache.Cost(cache.Static, size)
	}
	limit := need + need/8 + 4<<20
	for cache.Room(cache.Static, limit, n) < need {
		limit += limit / 8
	}
	return limit
}

// run lets the engine do with a mix of the first n images all that a mount does.
func (p *profiler) run(ctx context.Context, raw float64, n int) (Trial, error) {
	m, err := p.makeMix(raw, n)
	if err != nil {
		return Trial{}, err
	}
	ds, err := p.open(ctx, m, p.o.Storage)
	if err != nil {
		return Trial{}, err
	}
	defer ds.Close()
	o := p.engineOptions()
	o.CacheSize = p.hits.limitFor(p.hits.at(m.raw), m)
	if o.CacheSize == 0 {
		o.CachePolicy = cache.None
	}
	o.MemoryLimit = max(o.MemoryLimit, o.MemoryLimit/2+o.CacheSize)
	r, err := runEngine(ctx, ds, o, p.o.Least)
	if err != nil {
		return Trial{}, err
	}
	return Trial{
		RawRatio: m.raw, HitRatio: r.hitRatio, Throughput: rateOf(r.seconds), StorageBytes: r.bytes, Images: n,
	}, nil
}

// reading is what an engine did from its second epoch on.
type reading struct {
	seconds  float64 // an image
	hitRatio float64
	bytes    float64 // from storage, an image
}

// runEngine reads an epoch to fill the cache, and then batches for as long as it
// takes, whole epochs where they are short.
func runEngine(ctx context.Context, ds *dataset.Dataset, o engine.Options, least time.Duration) (r reading, err error) {
	e, err := engine.New(ds, o)
	if err != nil {
		return r, err
	}
	defer e.Close()
	form := layout.NHWCForm
	if o.Layout == layout.NCHW {
		form = layout.NCHWForm
	}
	read := func(epoch, batch int) (int, error) {
		k := engine.Key{Epoch: epoch, Batch: batch}
		f, err := e.Open(ctx, k, form)
		if err != nil {
			return 0, err
		}
		f.Close()
		return e.Valid(k), nil
	}
	for b := range e.Batches(0, 0) {
		if _, err := read(0, b); err != nil {
			return r, err
		}
	}
	before := totals(e)
	images, epoch, batch, batches := 0, 1, 0, 0
	started := time.Now()
	for elapsed := time.Duration(0); ; elapsed = time.Since(started) {
		whole := batch == 0 && epoch > 1
		if elapsed >= least && (whole || elapsed >= 3*least && batches >= 2) {
			break
		}
		n, err := read(epoch, batch)
		if err != nil {
			return r, err
		}
		images, batches = images+n, batches+1
		if batch++; batch == e.Batches(0, epoch) {
			epoch, batch = epoch+1, 0
		}
	}
	r.seconds = time.Since(started).Seconds() / float64(max(images, 1))
	after := totals(e)
	if all := after.hits + after.misses - before.hits - before.misses; all > 0 {
		r.hitRatio = float64(after.hits-before.hits) / float64(all)
		r.bytes = float64(after.bytes-before.bytes) / float64(all)
	}
	return r, nil
}

type total struct{ hits, misses, bytes int64 }

// totals are over all epochs but the first, which fills the cache.
func totals(e *engine.Engine) (t total) {
	for _, epoch := range e.Stats().Epochs {
		if epoch.Epoch > 0 {
			t.hits, t.misses, t.bytes = t.hits+epoch.Hits, t.misses+epoch.Misses, t.bytes+epoch.StorageBytes
		}
	}
	return t
}
