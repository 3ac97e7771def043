package profile

import (
	"context"
	"slices"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/batchfs/batchfs/cache"
	"github.com/batchfs/batchfs/dataset"
	"github.com/batchfs/batchfs/dataset/sample"
	"github.com/batchfs/batchfs/engine"
	"github.com/batchfs/batchfs/layout"
	"github.com/batchfs/batchfs/pinned"
)

// leastLoads is the minimum number of files to read, however long that takes.
const leastLoads = 8

// measureLoad returns the seconds to load an image of mean bytes from storage, with as many
// workers as the mount, which read a mix and do nothing else. A share of kept of the images
// is cached and therefore read whole.
func measureLoad(ctx context.Context, ds *dataset.Dataset, mean, kept float64, o *engine.Options, least time.Duration) (float64, error) {
	if o.CachePolicy == cache.Static || o.CachePolicy == cache.TinyLFU {
		kept = 1 // these policies may keep any sample
	}
	var next, bytes atomic.Int64
	started, n := time.Now(), int64(ds.Len())
	group, ctx := errgroup.WithContext(ctx)
	for range o.Workers {
		group.Go(func() error {
			buf := pinned.NewHost(pinned.DefaultPolicy(), nil)
			defer buf.Free()
			grow := func(n int) []byte {
				p, _ := buf.Grow(n) // without memory, Load fails
				return p
			}
			loader := sample.NewLoader(ds, o.Transform, o.Decoding)
			for k := next.Add(1) - 1; ctx.Err() == nil && (k < leastLoads || time.Since(started) < least); k = next.Add(1) - 1 {
				data, _, _, err := loader.Load(int(k/n), k%n, golden(k) < kept, grow, ctx.Done())
				if err != nil {
					return err
				}
				bytes.Add(int64(len(data)))
			}
			return ctx.Err()
		})
	}
	if err := group.Wait(); err != nil {
		return 0, err
	}
	// The files read may be larger or smaller than the average of the mix.
	return time.Since(started).Seconds() * mean / float64(bytes.Load()), nil
}

// measureDecode returns the seconds per image of a mix with all files in the cache.
func (p *profiler) measureDecode(ctx context.Context, raw float64) (float64, error) {
	r, err := p.start(ctx, raw, p.few, dataset.Storage{Direct: p.o.Storage.Direct}, func(m *mix, o *engine.Options) {
		o.CachePolicy, o.CacheSize = cache.Static, everything(m.sizes)
		o.MemoryLimit += o.CacheSize
	})
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

// rounds is the number of turns per mix of a contest.
const rounds = 5

// contest runs several mixes in turns, so that a temporary slowdown of the machine affects all
// of them. The engines do everything a mount does.
func (p *profiler) contest(ctx context.Context, runs []*reading) ([]Trial, error) {
	for range rounds {
		for _, r := range runs {
			if err := r.measure(ctx, p.o.Least/2); err != nil {
				return nil, err
			}
		}
	}
	trials := make([]Trial, len(runs))
	for k, r := range runs {
		hits, bytes := r.found()
		trials[k] = Trial{
			RawRatio: r.raw, HitRatio: hits, Throughput: rateOf(median(r.turns)), StorageBytes: bytes, Images: r.images, turns: r.turns,
		}
	}
	return trials, nil
}

// enter starts an engine with a mix of the first n images for a contest.
func (p *profiler) enter(ctx context.Context, raw float64, n int) (*reading, error) {
	return p.start(ctx, raw, n, p.o.Storage, func(m *mix, o *engine.Options) {
		o.CacheSize = p.hits.limitFor(p.hits.at(m.raw), m)
		if o.CacheSize == 0 {
			o.CachePolicy = cache.None
		}
		o.MemoryLimit = max(o.MemoryLimit, o.MemoryLimit/2+o.CacheSize)
	})
}

// A reading is an engine whose batches are read in order.
type reading struct {
	ds     *dataset.Dataset
	engine *engine.Engine
	form   layout.Form
	ahead  int     // batches it makes while nothing reads
	raw    float64 // the share that was asked for
	images int     // in its mix
	next   engine.Key
	turns  []float64 // seconds per image, for each measurement
	before total
}

// maxEpochs is more than any measurement reads.
const maxEpochs = 1 << 20

// start starts an engine with the mount's settings, applied to a mix instead of the whole
// dataset, and reads one epoch, which fills the cache.
func (p *profiler) start(ctx context.Context, raw float64, n int, storage dataset.Storage, tune func(*mix, *engine.Options)) (*reading, error) {
	m, ds, err := p.openMix(ctx, raw, n, storage)
	if err != nil {
		return nil, err
	}
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
	tune(m, &o)
	e, err := engine.New(ds, o)
	if err != nil {
		ds.Close()
		return nil, err
	}
	r := &reading{ds: ds, engine: e, form: layout.NHWCForm, ahead: o.PrefetchDepth + 1, raw: raw, images: n}
	if o.Layout == layout.NCHW {
		r.form = layout.NCHWForm
	}
	for r.next.Epoch == 0 {
		if _, err := r.read(ctx); err != nil {
			r.close()
			return nil, err
		}
	}
	r.before = r.totals()
	return r, nil
}

func (r *reading) close() {
	r.engine.Close()
	r.ds.Close()
}

// read reads a batch and returns its number of images.
func (r *reading) read(ctx context.Context) (images int, err error) {
	k := r.next
	f, err := r.engine.Open(ctx, k, r.form)
	if err != nil {
		return 0, err
	}
	f.Close()
	if r.next.Batch++; r.next.Batch == r.engine.Catalog().Plan.Batches(0, k.Epoch) {
		r.next = engine.Key{Epoch: k.Epoch + 1}
	}
	return r.engine.Catalog().Valid(k), nil
}

// measure reads batches for at least the given time, and for at least an epoch if epochs
// are short. Batches made while nothing read are read first, off the clock. On return no
// batch is in progress that would slow down other readings.
func (r *reading) measure(ctx context.Context, least time.Duration) error {
	for range r.ahead {
		if _, err := r.read(ctx); err != nil {
			return err
		}
	}
	images, batches, started := 0, 0, time.Now()
	for elapsed := time.Duration(0); ; elapsed = time.Since(started) {
		whole := batches > 0 && batches%r.engine.Catalog().Plan.Batches(0, r.next.Epoch) == 0
		if elapsed >= least && (whole || elapsed >= 3*least && batches >= 2) {
			r.turns = append(r.turns, elapsed.Seconds()/float64(max(images, 1)))
			return r.engine.Quiet(ctx)
		}
		n, err := r.read(ctx)
		if err != nil {
			return err
		}
		images, batches = images+n, batches+1
	}
}

// found is the share of samples found in the cache, and the bytes per image from storage,
// from the second epoch on.
func (r *reading) found() (hitRatio, bytes float64) {
	after := r.totals()
	all := after.hits + after.misses - r.before.hits - r.before.misses
	if all <= 0 {
		return 0, 0
	}
	return float64(after.hits-r.before.hits) / float64(all), float64(after.bytes-r.before.bytes) / float64(all)
}

type total struct{ hits, misses, bytes int64 }

// totals sums all epochs but the first, which fills the cache.
func (r *reading) totals() (t total) {
	for _, epoch := range r.engine.Stats().Epochs {
		if epoch.Epoch > 0 {
			t.hits, t.misses, t.bytes = t.hits+epoch.Hits, t.misses+epoch.Misses, t.bytes+epoch.StorageBytes
		}
	}
	return t
}

func median(x []float64) float64 {
	x = slices.Sorted(slices.Values(x))
	return (x[(len(x)-1)/2] + x[len(x)/2]) / 2
}
