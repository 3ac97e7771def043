package profile

import (
	"cmp"
	"context"
	"errors"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/batchfs/batchfs/cache"
	"github.com/batchfs/batchfs/internal/convert"
	"github.com/batchfs/batchfs/internal/dataset"
	"github.com/batchfs/batchfs/internal/engine"
	"github.com/batchfs/batchfs/internal/pixels"
	"github.com/batchfs/batchfs/internal/sample"
	"github.com/batchfs/batchfs/layout"
	"github.com/batchfs/batchfs/pinned"
)

// leastLoads is the minimum number of files to read, however long that takes.
const leastLoads = 8

// loadsAtOnce is how many concurrent reads keep a disk busy.
const loadsAtOnce = 16

// measureLoad returns the seconds to load an image of a mix from storage. It makes as many
// concurrent reads as keep storage busy, or as a mount may have. A share of kept of the images is
// cached and therefore read whole.
func (p *profiler) measureLoad(ctx context.Context, s convert.Shares, kept float64) (seconds float64, err error) {
	m, err := p.openMix(ctx, s, len(p.images), p.o.Storage, true)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, m.Close()) }()
	store, err := p.openEntries(m.Dataset)
	if err != nil {
		return 0, err
	}
	defer store.Close() // nothing is written
	o := &p.o.Engine
	if o.CachePolicy == cache.Static || o.CachePolicy == cache.TinyLFU {
		kept = 1 // these policies may keep any sample
	}
	var next, bytes atomic.Int64
	started, n := time.Now(), int64(m.Len())
	group, ctx := errgroup.WithContext(ctx)
	for range cmp.Or(o.Loads, loadsAtOnce) {
		group.Go(func() error {
			buf := pinned.NewHost(pinned.DefaultPolicy(), nil)
			defer buf.Free()
			grow := func(n int) []byte {
				p, _ := buf.Grow(n) // without memory, Load fails
				return p
			}
			var known *sample.Entries
			if store != nil {
				known = sample.NewEntries(m.Dataset, store, o.VerifyReads)
			}
			loader := sample.NewLoader(m.Dataset, o.Transform, pixels.Options{Options: o.Decoding, FullJPEGs: o.FullJPEGs}, known)
			for k := next.Add(1) - 1; ctx.Err() == nil && (k < leastLoads || time.Since(started) < p.o.Least); k = next.Add(1) - 1 {
				whole := among(k, kept)
				known.AllowParts(!whole)
				data, _, _, err := loader.Load(ctx, int(k/n), k%n, whole, grow)
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
	return time.Since(started).Seconds() * mean(m.sizes) / float64(bytes.Load()), nil
}

// measureDecode returns the seconds per image of a mix with all files in the cache, in the mix's
// forms.
func (p *profiler) measureDecode(ctx context.Context, s convert.Shares) (float64, error) {
	r, err := p.start(ctx, s, p.few, dataset.Storage{Direct: p.o.Storage.Direct}, 1)
	if err != nil {
		return 0, err
	}
	defer r.close()
	if err := r.measure(ctx, p.o.Least); err != nil {
		return 0, err
	}
	return r.turns[0], nil
}

// rounds is the number of turns per mix of a contest.
const rounds = 5

// contest runs the engine with some mixes in turns, so that a temporary slowdown of the machine
// affects all of them.
func (p *profiler) contest(ctx context.Context, m model, mixes []convert.Shares) error {
	var runs []*reading
	defer func() {
		for _, r := range runs {
			r.close()
		}
	}()
	for _, s := range mixes {
		// The whole first epoch has to come from storage.
		slower := max(m.load.at(s), m.decode.at(s), 1e-6)
		n := min(p.few, p.lasting(1/slower, 4*p.o.Least.Seconds()))
		r, err := p.start(ctx, s, n, p.o.Storage, p.hits.at(s))
		if err != nil {
			return err
		}
		runs = append(runs, r)
		p.measured()
	}
	for range rounds {
		for _, r := range runs {
			if err := r.measure(ctx, p.o.Least/2); err != nil {
				return err
			}
		}
	}
	for k, r := range runs {
		p.result.Runs = append(p.result.Runs, newTrial(mixes[k], r.hits(), r.first, r.turns))
	}
	return nil
}

// A reading is an engine whose batches are read in order.
type reading struct {
	mix    *mix
	engine *engine.Engine
	ahead  int // batches made while nothing reads
	form   layout.Form
	next   engine.Key
	turns  []float64 // seconds per image, for each measurement
	first  float64   // seconds per image in the first epoch
	before [2]int64  // counts in the first epoch of batches made ahead
}

// start starts an engine with the mount's settings, but with a mix of the first n images as its
// dataset and a cache for a share of hits. It reads the first epoch, which fills the cache.
func (p *profiler) start(ctx context.Context, s convert.Shares, n int, storage dataset.Storage, hits float64) (*reading, error) {
	m, err := p.openMix(ctx, s, n, storage, false)
	if err != nil {
		return nil, err
	}
	o := p.o.Engine
	// One reader reads everything: sharding does not change the cost.
	o.Shards, o.Nodes, o.LocalFrom, o.LocalTo = 1, 0, 0, 0
	o.Anonymous, o.Lock = true, false // nothing maps these batches
	o.StrictEntries = true
	o.IdleAfter = time.Hour
	if o.OnError == engine.Fail {
		o.OnError = engine.Zero // every image was readable before
	}
	switch o.CacheSize = limitFor(hits, m, &o); {
	case o.CacheSize == 0:
		o.CachePolicy, o.CacheForm = cache.None, engine.FormAuto
	case hits >= 1: // as they are: only the constant cache packs
		o.CachePolicy, o.CacheSize, o.CacheForm = cache.Static, o.CacheSize+o.CacheSize/8+4<<20, engine.FormAuto
	}
	o.MemoryLimit += o.CacheSize
	e, err := engine.New(m.Dataset, o)
	if err != nil {
		return nil, errors.Join(err, m.Close())
	}
	r := &reading{mix: m, engine: e, ahead: o.PrefetchDepth + 1, form: layout.NPY}
	if e.HasGPU() && (o.DecodeOnDevice || o.NVJPEG != "") {
		r.form = layout.CUDA // batches stay where they are made
	}
	images, began := 0, time.Now()
	for r.next.Epoch == 0 {
		some, err := r.read(ctx)
		if err != nil {
			r.close()
			return nil, err
		}
		images += some
	}
	r.first = time.Since(began).Seconds() / float64(max(images, 1))
	r.before[0], r.before[1] = r.counts()
	return r, nil
}

func (r *reading) close() {
	r.engine.Close()
	r.mix.Close()
}

// read reads a batch and returns its number of images.
func (r *reading) read(ctx context.Context) (images int, err error) {
	k := r.next
	f, err := r.engine.Open(ctx, k, r.form)
	if err != nil {
		return 0, err
	}
	f.Close()
	if r.next.Batch++; r.next.Batch == r.batches() {
		r.next = engine.Key{Epoch: k.Epoch + 1}
	}
	return r.engine.Catalog().Valid(k), nil
}

// batches is the number of batches in an epoch.
func (r *reading) batches() int { return r.engine.Catalog().Plan.Batches(0, r.next.Epoch) }

// measure reads batches for at least the given time, and for at least an epoch if epochs are short.
// It first reads, untimed, the batches made while nothing read. When it returns, no batch is in
// progress that would slow down other readings.
func (r *reading) measure(ctx context.Context, least time.Duration) error {
	for range r.ahead {
		if _, err := r.read(ctx); err != nil {
			return err
		}
	}
	images, batches, started := 0, 0, time.Now()
	for {
		n, err := r.read(ctx)
		if err != nil {
			return err
		}
		images, batches = images+n, batches+1
		elapsed := time.Since(started)
		if elapsed >= least && (batches%r.batches() == 0 || elapsed >= 3*least && batches >= 2) {
			r.turns = append(r.turns, elapsed.Seconds()/float64(max(images, 1)))
			return r.engine.Quiet(ctx)
		}
	}
}

// hits is the share of samples found in the cache since the first epoch, which fills it.
func (r *reading) hits() float64 {
	hits, all := r.counts()
	return float64(hits-r.before[0]) / float64(max(all-r.before[1], 1))
}

// counts returns how many samples were found in the cache, and how many were read, after the first
// epoch.
func (r *reading) counts() (hits, all int64) {
	for _, epoch := range r.engine.Stats().Epochs {
		if epoch.Epoch > 0 {
			hits, all = hits+epoch.Hits, all+epoch.Hits+epoch.Misses
		}
	}
	return hits, all
}
