package profile

import (
	"context"
	"slices"
	"time"

	"github.com/batchfs/batchfs/cache"
	"github.com/batchfs/batchfs/dataset"
	"github.com/batchfs/batchfs/engine"
	"github.com/batchfs/batchfs/layout"
)

// engineOptions returns the mount's settings, applied to a mix instead of the whole
// dataset.
func (p *profiler) engineOptions() engine.Options {
	o := p.o.Engine
	// One reader reads everything: sharding does not change the cost.
	o.Shards, o.LocalFrom, o.LocalTo = 1, 0, 0
	o.Epochs = maxEpochs
	o.Anonymous, o.Lock = true, false // nothing maps these batches
	o.IdleAfter = time.Hour
	o.Logger = p.o.Logger
	if o.OnError == engine.Fail {
		o.OnError = engine.Zero // every image was readable before
	}
	return o
}

// maxEpochs is more than any measurement reads.
const maxEpochs = 1 << 20

// measureDecode returns the seconds per image of the mix with all files in the cache.
func (p *profiler) measureDecode(ctx context.Context, m *mix) (float64, error) {
	ds, err := p.open(ctx, m, dataset.Storage{Direct: p.o.Storage.Direct})
	if err != nil {
		return 0, err
	}
	defer ds.Close()
	o := p.engineOptions()
	o.CachePolicy, o.CacheSize = cache.Static, everything(m.sizes)
	o.MemoryLimit += o.CacheSize
	r, err := startReading(ctx, ds, o)
	if err != nil {
		return 0, err
	}
	defer r.close()
	if err := r.measure(ctx, p.o.Least); err != nil {
		return 0, err
	}
	return r.turns[0], nil
}

// everything is the size of a cache that holds files of all these sizes.
func everything(sizes []int64) int64 {
	need, n := int64(0), int64(len(sizes))
	for _, size := range sizes {
		need += cache.Cost(size)
	}
	limit := need + need/8 + 4<<20
	for cache.Room(cache.Static, limit, n) < need {
		limit += limit / 8
	}
	return limit
}

// A contest runs several mixes in turns, so that a temporary slowdown of the machine
// affects all of them.
type contest struct {
	ratios []float64
	runs   []*reading
	open   []*dataset.Dataset
}

// enter starts an engine on a mix of the first n images. It does everything a mount does.
func (c *contest) enter(ctx context.Context, p *profiler, raw float64, n int) error {
	m, err := p.makeMix(raw, n)
	if err != nil {
		return err
	}
	ds, err := p.open(ctx, m, p.o.Storage)
	if err != nil {
		return err
	}
	c.open = append(c.open, ds)
	o := p.engineOptions()
	o.CacheSize = p.hits.limitFor(p.hits.at(m.raw), m)
	if o.CacheSize == 0 {
		o.CachePolicy = cache.None
	}
	o.MemoryLimit = max(o.MemoryLimit, o.MemoryLimit/2+o.CacheSize)
	r, err := startReading(ctx, ds, o)
	if err != nil {
		return err
	}
	r.images = n
	c.ratios, c.runs = append(c.ratios, raw), append(c.runs, r)
	return nil
}

// rounds is the number of turns per mix of a contest.
const rounds = 5

// hold lets all mixes take their turns.
func (c *contest) hold(ctx context.Context, least time.Duration) ([]Trial, error) {
	for range rounds {
		for _, r := range c.runs {
			if err := r.measure(ctx, least); err != nil {
				return nil, err
			}
		}
	}
	trials := make([]Trial, len(c.runs))
	for k, r := range c.runs {
		hits, bytes := r.found()
		trials[k] = Trial{
			RawRatio: c.ratios[k], HitRatio: hits, Throughput: rateOf(median(r.turns)), StorageBytes: bytes, Images: r.images, turns: r.turns,
		}
	}
	return trials, nil
}

func (c *contest) close() {
	for _, r := range c.runs {
		r.close()
	}
	for _, ds := range c.open {
		ds.Close()
	}
}

// A reading is an engine whose batches are read in order.
type reading struct {
	engine *engine.Engine
	form   layout.Form
	ahead  int // batches it makes while nothing reads
	images int // in its mix
	epoch  int
	batch  int       // the next batch
	turns  []float64 // seconds per image, for each measurement
	before total
}

// startReading starts an engine and reads one epoch, which fills the cache.
func startReading(ctx context.Context, ds *dataset.Dataset, o engine.Options) (*reading, error) {
	e, err := engine.New(ds, o)
	if err != nil {
		return nil, err
	}
	r := &reading{engine: e, form: layout.NHWCForm, ahead: o.PrefetchDepth + 1}
	if o.Layout == layout.NCHW {
		r.form = layout.NCHWForm
	}
	for r.epoch == 0 {
		if _, err := r.next(ctx); err != nil {
			r.close()
			return nil, err
		}
	}
	r.before = totals(e)
	return r, nil
}

func (r *reading) close() { r.engine.Close() }

// next reads a batch and returns its number of images.
func (r *reading) next(ctx context.Context) (images int, err error) {
	k := engine.Key{Epoch: r.epoch, Batch: r.batch}
	f, err := r.engine.Open(ctx, k, r.form)
	if err != nil {
		return 0, err
	}
	f.Close()
	if r.batch++; r.batch == r.engine.Batches(0, r.epoch) {
		r.epoch, r.batch = r.epoch+1, 0
	}
	return r.engine.Valid(k), nil
}

// measure reads batches for at least the given time, and for at least an epoch if epochs
// are short. Batches made while nothing read are read first, off the clock. On return no
// batch is in progress that would slow down other readings.
func (r *reading) measure(ctx context.Context, least time.Duration) error {
	for range r.ahead {
		if _, err := r.next(ctx); err != nil {
			return err
		}
	}
	images, batches, started := 0, 0, time.Now()
	for elapsed := time.Duration(0); ; elapsed = time.Since(started) {
		whole := batches > 0 && batches%r.engine.Batches(0, r.epoch) == 0
		if elapsed >= least && (whole || elapsed >= 3*least && batches >= 2) {
			r.turns = append(r.turns, elapsed.Seconds()/float64(max(images, 1)))
			return r.engine.Quiet(ctx)
		}
		n, err := r.next(ctx)
		if err != nil {
			return err
		}
		images, batches = images+n, batches+1
	}
}

// found is the share of samples found in the cache, and the bytes per image from storage,
// from the second epoch on.
func (r *reading) found() (hitRatio, bytes float64) {
	after := totals(r.engine)
	all := after.hits + after.misses - r.before.hits - r.before.misses
	if all <= 0 {
		return 0, 0
	}
	return float64(after.hits-r.before.hits) / float64(all), float64(after.bytes-r.before.bytes) / float64(all)
}

func median(x []float64) float64 {
	x = slices.Clone(x)
	slices.Sort(x)
	return (x[(len(x)-1)/2] + x[len(x)/2]) / 2
}

type total struct{ hits, misses, bytes int64 }

// totals sums all epochs but the first, which fills the cache.
func totals(e *engine.Engine) (t total) {
	for _, epoch := range e.Stats().Epochs {
		if epoch.Epoch > 0 {
			t.hits, t.misses, t.bytes = t.hits+epoch.Hits, t.misses+epoch.Misses, t.bytes+epoch.StorageBytes
		}
	}
	return t
}
