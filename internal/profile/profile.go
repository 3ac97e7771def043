package profile

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"math"
	"os"
	"slices"

	"github.com/batchfs/batchfs/dataset"
	"github.com/batchfs/batchfs/decode"
	"github.com/batchfs/batchfs/engine"
	"github.com/batchfs/batchfs/internal/entries"
	"github.com/batchfs/batchfs/internal/option"
	"github.com/batchfs/batchfs/internal/promptly"
	"github.com/batchfs/batchfs/layout"
)

// profiler is the state of one Run.
type profiler struct {
	ds     *dataset.Dataset
	o      Options
	budget engine.Budget // of the mount
	work   string        // the directory for all files
	images []picture
	few    int // number of images the engine decodes in a few seconds
	hits   *hitTable
	mixes  int // manifests made
	result Result

	figures, expected int64 // figures measured so far, and in total
}

// Run profiles a dataset. The dataset is read without regard to Options.Storage: open it
// without a bandwidth limit. Run removes everything it makes before it returns.
//
// When ctx is done, Run returns promptly, even if storage hangs.
//
// Errors: an [option.Error], ErrInside, ErrSpace, ErrNoSample, those of the engine about its
// options, and ctx's own.
func Run(ctx context.Context, ds *dataset.Dataset, o Options) (result Result, err error) {
	if err := o.validate(); err != nil {
		return Result{}, err
	}
	o = o.filled()
	if err := option.AtLeast("samples", int64(cmp.Or(o.Samples, ds.Len())), int64(ds.Len())); err != nil {
		return Result{}, err
	}
	if o.AsKept {
		if kept, err := ds.OpenEntries(entries.Options{Rule: int32(o.EntryPoints)}); err == nil {
			o.EntryPoints = decode.EntryRule(kept.Rule())
			_ = kept.Close() // nothing was written
		}
	}
	budget, err := engine.NewBudget(ds, o.Engine)
	if err != nil {
		return Result{}, err
	}
	work, err := makeWorkspace(o.Work, rootOf(ds))
	if err != nil {
		return Result{}, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(work)) }()
	var stopCopied, stopMeasured func()
	o.Copied, stopCopied = promptly.Progress(o.Copied)
	defer stopCopied()
	o.Measured, stopMeasured = promptly.Progress(o.Measured)
	defer stopMeasured()
	return promptly.Do(ctx, func() (Result, error) {
		p := &profiler{ds: ds, o: o, budget: budget, work: work}
		err := p.prepare(ctx)
		if err == nil {
			err = p.measure(ctx)
		}
		if err != nil {
			return Result{}, cmp.Or(ctx.Err(), err) // ctx causes other errors
		}
		return p.result, nil
	}, nil)
}

// rootOf is the directory of a dataset of files of this machine, "" for others.
func rootOf(ds *dataset.Dataset) string {
	if ds.Packed() || ds.Remote() {
		return ""
	}
	return ds.Root()
}

// prepare makes the raw copies and fills in everything known without measuring.
func (p *profiler) prepare(ctx context.Context) error {
	rate, err := p.makeCopies(ctx)
	if err != nil {
		return err
	}
	var encoded, raw []int64
	for _, img := range p.images {
		encoded, raw = append(encoded, img.encoded.size), append(raw, img.raw.size)
	}
	p.few = p.enough(rate, 3*p.o.Least.Seconds())
	p.hits = newHitTable(p.budget, p.o.Raw, mean(encoded), p.o.Samples)
	r := &p.result
	r.Dataset, r.Work, r.Samples, r.Images = p.ds.Name(), p.work, p.ds.Len(), len(p.images)
	r.AlreadyRaw, r.CacheBytes, r.Workers = p.hits.already, p.hits.limit, p.o.Engine.Workers
	r.Encoded.Bytes, r.Raw.Bytes = mean(encoded), mean(raw)
	r.Notes = []Note{}
	p.noteIf(rootOf(p.ds) == "", CopiedOut)
	p.noteIf(rootOf(p.ds) != "" && !sameDevice(p.work, p.ds.Root()), OtherStorage)
	p.noteIf(!p.o.Storage.Direct, PageCache)
	p.o.Storage.Direct = true
	p.noteIf(p.hits.left, SmallDataset)
	return nil
}

func (p *profiler) noteIf(applies bool, n Note) {
	if applies {
		p.result.Notes = append(p.result.Notes, n)
	}
}

// enough is the number of images that take the given seconds at a rate. It is a multiple of
// ten, so that the mixes of the search have exact shares.
func (p *profiler) enough(rate, seconds float64) int {
	least := max(leastImages, 2*p.o.Engine.BatchSize)
	n := min(len(p.images), max(least, int(min(rate*seconds, math.MaxInt32))))
	if n > tenths {
		n -= n % tenths
	}
	return n
}

// rises reports that more raw images do not slow down loading: they are smaller, or the
// cache holds everything.
func (p *profiler) rises() bool {
	return (1-p.hits.at(1))*p.result.Raw.Bytes <= (1-p.hits.at(0))*p.result.Encoded.Bytes
}

// measure finds the answer.
func (p *profiler) measure(ctx context.Context) error {
	points := map[int]Point{}
	mix := func(i int) (pt Point, err error) {
		pt, known := points[i]
		if !known {
			pt, err = p.point(ctx, float64(i)/tenths)
			points[i] = pt
		}
		return pt, err
	}
	p.expected = 2*4 + 6
	if p.o.Exhaustive {
		p.expected = 2*(tenths+1) + tenths + 3
		for i := range tenths + 1 {
			if _, err := mix(i); err != nil {
				return err
			}
		}
	}
	r := &p.result
	steps, best, err := search(p.rises(), mix)
	if err != nil {
		return err
	}
	m := modelOf(slices.Collect(maps.Values(points)), p.hits.at)
	r.Steps, r.Curve = steps, m.curve()
	r.BestOf11 = max(float64(best)/tenths, r.AlreadyRaw)
	r.Crossing = round(m.best(r.AlreadyRaw))
	r.Encoded.Load, r.Encoded.Decode = m.load.encoded, m.decode.encoded
	r.Raw.Load, r.Raw.Decode = m.load.raw, m.decode.raw
	p.noteIf(r.Raw.Bytes < r.Encoded.Bytes, RawSmaller)
	return p.verify(ctx, m)
}

// round rounds to whole percent, which is finer than measurements can resolve.
func round(raw float64) float64 { return math.Round(raw*100) / 100 }

// point measures loading and decoding of one mix.
func (p *profiler) point(ctx context.Context, raw float64) (Point, error) {
	raw = max(raw, p.result.AlreadyRaw)
	hits := p.hits.at(raw)
	load, err := p.measureLoad(ctx, raw, hits)
	if err != nil {
		return Point{}, err
	}
	p.measured()
	decode, err := p.measureDecode(ctx, raw)
	if err != nil {
		return Point{}, err
	}
	p.measured()
	return pointOf(raw, hits, load, decode), nil
}

func (p *profiler) measured() {
	p.figures++
	if p.o.Measured != nil {
		p.o.Measured(p.figures, max(p.expected, p.figures))
	}
}

// verify runs the engine at the crossing of the curves, at the neighboring mixes of the
// search, and at the ends. The fastest is the answer.
func (p *profiler) verify(ctx context.Context, m model) error {
	r := &p.result
	below := math.Floor(r.Crossing*tenths+1e-9) / tenths
	ratios := []float64{r.Crossing, r.AlreadyRaw, 1, r.BestOf11, below, below + 1.0/tenths}
	if p.o.Exhaustive {
		for i := range tenths + 1 {
			ratios = append(ratios, float64(i)/tenths)
		}
	}
	for k := range ratios {
		ratios[k] = min(max(ratios[k], r.AlreadyRaw), 1)
	}
	slices.Sort(ratios)
	ratios = slices.CompactFunc(ratios, func(a, b float64) bool { return math.Abs(a-b) < nearby })
	for some := range slices.Chunk(ratios, p.atOnce()) {
		if err := p.contest(ctx, m, some); err != nil {
			return err
		}
	}
	p.decide(m)
	return nil
}

// atOnce is how many engines fit under the memory limit, including their prefetched
// batches.
func (p *profiler) atOnce() int {
	const most, process, worker = 6, 28 << 20, 4 << 20
	e := &p.o.Engine
	held := int64(float64(p.few) * max(p.result.Encoded.Bytes, p.result.Raw.Bytes))
	ahead := int64(e.PrefetchDepth + 2)
	batch := min(p.budget.Size(engine.Key{}, layout.NPY), e.MemoryLimit/ahead+1) // a larger batch does not fit even once
	each := min(p.hits.limit, 2*held) + ahead*batch + int64(e.Workers)*worker
	return int(min(max((e.MemoryLimit-process)/each, 1), most))
}

const (
	nearby    = 0.02 // mixes closer than this count as one
	certainly = 1.01 // the least speedup that tells two mixes apart
	noisy     = 0.2  // noise that something else on the machine makes
	expected  = 0.85 // share of the modeled throughput
)

// LeastGain is how many times as fast as the dataset as it is a mix has to be for Run to recommend it.
// Less is no reason to store a dataset twice, even if it can be measured.
const LeastGain = 1.03

// decide chooses the crossing unless another run was clearly faster. The run with the fewest raw
// images is the answer unless the chosen one was faster than that by LeastGain, and clearly.
func (p *profiler) decide(m model) {
	r := &p.result
	crossing := r.Runs[0]
	for _, run := range r.Runs {
		if math.Abs(run.RawRatio-r.Crossing) < math.Abs(crossing.RawRatio-r.Crossing) {
			crossing = run
		}
	}
	answer := slices.MaxFunc(r.Runs, func(a, b Trial) int { return cmp.Compare(a.Throughput, b.Throughput) })
	if !answer.beats(&crossing) {
		answer = crossing
	}
	within := answer.RawRatio != r.Runs[0].RawRatio && (answer.Throughput < LeastGain*r.Runs[0].Throughput || !answer.beats(&r.Runs[0]))
	if within {
		answer = r.Runs[0]
	}
	p.noteIf(within, WithinNoise)
	p.noteIf(slices.ContainsFunc(r.Runs, func(t Trial) bool { return t.Noise > noisy }), Noisy)
	r.RawRatio, r.EncodedRatio, r.Verified = answer.RawRatio, round(1-answer.RawRatio), answer.Throughput
	r.EncodedOnly = r.Runs[0].Throughput // of the run with the fewest raw images
	r.AsItIs = answer.RawRatio <= r.AlreadyRaw
	p.noteIf(answer.RawRatio != crossing.RawRatio && !within, OtherWins)
	p.noteIf(float64(crossing.Throughput) < expected*float64(m.at(crossing.RawRatio).Throughput), Waiting)
}
