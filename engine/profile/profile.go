package profile

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"math"
	"slices"

	"github.com/batchfs/batchfs/dataset"
	"github.com/batchfs/batchfs/internal/promptly"
)

// profiler is the state of one Run.
type profiler struct {
	ds     *dataset.Dataset
	o      Options
	work   workspace
	images []picture
	few    int // number of images the engine decodes in a few seconds
	hits   *hitTable
	mixes  int // manifests made
	result Result

	figures, expected int // figures measured so far, and in total
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
	if _, err := planOf(ds, &o.Engine); err != nil {
		return Result{}, err
	}
	work, remove, err := openWorkspace(o.Work, ds.Root())
	if err != nil {
		return Result{}, err
	}
	defer func() { err = errors.Join(err, remove()) }()
	o = o.filled()
	var told promptly.Gate
	defer told.Shut()
	progress, measured := o.Progress, o.Measured
	o.Progress = func(phase Phase, done, total int) { told.Pass(func() { progress(phase, done, total) }) }
	o.Measured = func(s Step) { told.Pass(func() { measured(s) }) }
	return promptly.Do(ctx, func() (Result, error) {
		p := &profiler{ds: ds, o: o, work: work}
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

// prepare makes the raw copies and fills in everything known without measuring.
func (p *profiler) prepare(ctx context.Context) error {
	var rate float64
	var err error
	if p.images, rate, err = p.makeCopies(ctx); err != nil {
		return err
	}
	var encoded, raw []int64
	for _, img := range p.images {
		encoded, raw = append(encoded, img.size), append(raw, img.rawSize)
	}
	p.few = p.enough(rate, 3*p.o.Least.Seconds())
	p.hits = newHitTable(p.ds, p.o, mean(encoded))
	r := &p.result
	r.Dataset, r.Work, r.Samples, r.Images = p.ds.Root(), p.work.dir, p.ds.Len(), len(p.images)
	r.AlreadyRaw, r.CacheBytes, r.Workers = p.hits.already, p.hits.limit, p.o.Engine.Workers
	r.Encoded.Bytes, r.Raw.Bytes = mean(encoded), mean(raw)
	r.Notes = []Note{}
	if p.work.other {
		p.note(OtherStorage)
	}
	if !p.o.Storage.Direct {
		p.note(PageCache)
	}
	return nil
}

func (p *profiler) note(n Note) { p.result.Notes = append(p.result.Notes, n) }

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
	fromStorage := func(raw, bytes float64) float64 { return (1 - p.hits.at(raw)) * bytes }
	return fromStorage(1, p.result.Raw.Bytes) <= fromStorage(0, p.result.Encoded.Bytes)
}

// measure finds the answer.
func (p *profiler) measure(ctx context.Context) error {
	points := map[int]Point{}
	mix := func(i int) (Point, error) {
		if pt, ok := points[i]; ok {
			return pt, nil
		}
		pt, err := p.point(ctx, float64(i)/tenths)
		points[i] = pt
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
	best, err := search(tenths, p.rises(), mix, func(pt Point, from, to int) {
		s := Step{pt, pt.Throughput(), pt.Limit(), float64(from) / tenths, float64(to) / tenths}
		r.Steps = append(r.Steps, s)
		p.o.Measured(s)
	})
	if err != nil {
		return err
	}
	var all []Point
	for _, i := range slices.Sorted(maps.Keys(points)) {
		all = append(all, points[i])
	}
	m := modelOf(all, p.hits.at)
	r.BestOf11 = max(float64(best)/tenths, r.AlreadyRaw)
	r.Crossing = round(m.best(r.AlreadyRaw))
	r.Encoded.Load, r.Encoded.Decode = m.load.encoded, m.decode.encoded
	r.Raw.Load, r.Raw.Decode = m.load.raw, m.decode.raw
	r.Curve = m.curve(10 * tenths)
	if r.Raw.Bytes < r.Encoded.Bytes {
		p.note(RawSmaller)
	}
	return p.verify(ctx, m)
}

// round rounds to whole percent, which is finer than measurements can resolve.
func round(raw float64) float64 { return math.Round(raw*100) / 100 }

// point measures loading and decoding of one mix.
func (p *profiler) point(ctx context.Context, raw float64) (Point, error) {
	m, ds, err := p.openMix(ctx, raw, len(p.images), p.o.Storage)
	if err != nil {
		return Point{}, err
	}
	raw = max(raw, p.result.AlreadyRaw)
	bytes := (1-raw)*p.result.Encoded.Bytes + raw*p.result.Raw.Bytes
	if p.result.AlreadyRaw > 0 {
		bytes = mean(m.sizes)
	}
	hits := p.hits.at(raw)
	load, err := measureLoad(ctx, ds, bytes, hits, &p.o.Engine, p.o.Least)
	if err := errors.Join(err, ds.Close()); err != nil {
		return Point{}, err
	}
	p.measured()
	decode, err := p.measureDecode(ctx, raw)
	if err != nil {
		return Point{}, err
	}
	p.measured()
	return Point{
		RawRatio: raw, HitRatio: hits, Storage: rateOf(load), Loading: rateOf((1 - hits) * load), Decoding: rateOf(decode),
	}, nil
}

func (p *profiler) measured() {
	p.figures++
	p.o.Progress(Measuring, p.figures, max(p.expected, p.figures))
}

// verify runs the engine at the crossing of the curves, at the neighboring mixes of the
// search, and at the ends. The fastest is the answer.
func (p *profiler) verify(ctx context.Context, m model) error {
	r := &p.result
	below := math.Floor(r.Crossing*tenths+1e-9) / tenths
	ratios := []float64{r.Crossing, r.AlreadyRaw, 1, r.BestOf11, below, min(below+1.0/tenths, 1)}
	if p.o.Exhaustive {
		for i := range tenths + 1 {
			ratios = append(ratios, float64(i)/tenths)
		}
	}
	var chosen []float64
	for k, raw := range ratios {
		raw = max(raw, r.AlreadyRaw)
		near := func(other float64) bool { return math.Abs(other-raw) < nearby }
		if asked := p.o.Exhaustive && k > 5; asked && !slices.Contains(chosen, raw) || !slices.ContainsFunc(chosen, near) {
			chosen = append(chosen, raw)
		}
	}
	group := p.atOnce()
	for some := range slices.Chunk(chosen, group) {
		trials, err := p.hold(ctx, m, some)
		if err != nil {
			return err
		}
		r.Runs = append(r.Runs, trials...)
	}
	if best := r.fastest(); best >= group && group > 1 {
		// The best was not measured in turns with the first, which it may replace.
		trials, err := p.hold(ctx, m, []float64{chosen[0], chosen[best]})
		if err != nil {
			return err
		}
		r.Runs[0], r.Runs[best] = trials[0], trials[1]
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
	batch := min(batchBytes(p.ds, e), e.MemoryLimit/ahead+1) // a larger batch does not fit even once
	each := min(p.hits.limit, 2*held) + ahead*batch + int64(e.Workers)*worker
	return int(min(max((e.MemoryLimit-process)/each, 1), most))
}

// hold runs the engine with some mixes in turns.
func (p *profiler) hold(ctx context.Context, m model, ratios []float64) ([]Trial, error) {
	var runs []*reading
	defer func() {
		for _, r := range runs {
			r.close()
		}
	}()
	for _, raw := range ratios {
		// The whole first epoch has to come from storage.
		slower := max(m.load.at(raw), m.decode.at(raw), 1e-6)
		r, err := p.enter(ctx, raw, min(p.few, p.enough(1/slower, 4*p.o.Least.Seconds())))
		if err != nil {
			return nil, err
		}
		runs = append(runs, r)
		p.measured()
	}
	return p.contest(ctx, runs)
}

const (
	nearby    = 0.02 // mixes closer than this count as one
	certainly = 1.01 // a speedup, turn by turn, that is not noise
	expected  = 0.85 // share of the modeled throughput
)

// decide chooses the crossing unless another run was clearly faster.
func (p *profiler) decide(m model) {
	r := &p.result
	answer := r.Runs[0]
	if best := r.Runs[r.fastest()]; best.over(&answer) > certainly {
		answer = best
		p.note(OtherWins)
	}
	for _, run := range r.Runs {
		if math.Abs(run.RawRatio-r.AlreadyRaw) < nearby {
			r.EncodedOnly = run.Throughput
		}
	}
	r.RawRatio, r.EncodedRatio = answer.RawRatio, round(1-answer.RawRatio)
	r.Verified, r.Predicted = answer.Throughput, m.at(answer.RawRatio).Throughput()
	if float64(r.Runs[0].Throughput) < expected*float64(m.at(r.Runs[0].RawRatio).Throughput()) {
		p.note(Waiting)
	}
	slices.SortFunc(r.Runs, func(a, b Trial) int { return cmp.Compare(a.RawRatio, b.RawRatio) })
}
