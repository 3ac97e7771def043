package profile

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"math"
	"slices"

	"github.com/batchfs/batchfs/decode"
	"github.com/batchfs/batchfs/internal/convert"
	"github.com/batchfs/batchfs/internal/dataset"
	"github.com/batchfs/batchfs/internal/engine"
	"github.com/batchfs/batchfs/internal/entries"
	"github.com/batchfs/batchfs/internal/option"
	"github.com/batchfs/batchfs/internal/parallel"
	"github.com/batchfs/batchfs/layout"
	"github.com/batchfs/batchfs/shard"
)

// profiler is the state of one Run.
type profiler struct {
	ds     *dataset.Dataset
	o      Options
	budget engine.Budget // of the mount
	work   string        // the directory for all files
	images []picture
	path   path    // of the forms that are candidates
	most   float64 // the largest share of images other than raw ones that can be packed
	few    int     // number of images the engine decodes in a few seconds
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
// Errors: an [option.Error], [convert.ErrInside] and [convert.ErrSpace] about the directory for
// copies, ErrNoSample, those of the engine about its options, and ctx's own.
func Run(ctx context.Context, ds *dataset.Dataset, o Options) (result Result, err error) {
	o = o.filled()
	if err := option.AtLeast("samples", int64(cmp.Or(o.Samples, ds.Len())), int64(ds.Len())); err != nil {
		return Result{}, err
	}
	if o.AsKept {
		if kept, err := ds.OpenEntries(entries.Options{Rule: int32(o.Engine.Entries)}); err == nil {
			o.Engine.Entries = decode.EntryRule(kept.Rule())
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
	defer func() { err = errors.Join(err, work.remove()) }()
	var stopCopied, stopMeasured func()
	o.Copied, stopCopied = parallel.Progress(o.Copied)
	defer stopCopied()
	o.Measured, stopMeasured = parallel.Progress(o.Measured)
	defer stopMeasured()
	return parallel.Promptly(ctx, func() (Result, error) {
		p := &profiler{ds: ds, o: o, budget: budget, work: work.dir}
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

// rootOf is the directory of a dataset's files on this machine, "" for other datasets.
func rootOf(ds *dataset.Dataset) string {
	if ds.Packed || ds.Remote {
		return ""
	}
	return ds.Root
}

// prepare makes the copies and fills in everything known without measuring.
func (p *profiler) prepare(ctx context.Context) error {
	rate, err := p.makeCopies(ctx)
	if err != nil {
		return err
	}
	var bytes [shard.NumCosts]float64
	bytes, p.most = p.formBytes()
	p.path = candidates(p.may(shard.Packed) && p.most > 0, p.may(shard.Raw), bytes)
	p.few = p.lasting(rate, 3*p.o.Least.Seconds())
	growth := bytes[shard.Packed] / bytes[shard.Encoded]
	p.hits = newHitTable(p.budget, p.o.Raw, bytes[shard.Encoded], growth, p.o.Samples, p.path)
	r := &p.result
	r.Dataset, r.Work, r.Samples, r.Images = p.ds.Name, p.work, p.ds.Len(), len(p.images)
	r.AlreadyRaw, r.AlreadyPacked = p.hits.already.Raw, p.hits.already.Packed
	r.CacheBytes, r.Workers = p.hits.limit, p.o.Engine.Workers
	for f, cost := range r.costs() {
		cost.Bytes = bytes[f]
	}
	for _, f := range p.path {
		r.Forms = append(r.Forms, f.String())
	}
	r.Notes = []Note{}
	p.noteIf(rootOf(p.ds) == "", CopiedOut)
	p.noteIf(rootOf(p.ds) != "" && !sameDevice(p.work, p.ds.Root), OtherStorage)
	p.noteIf(!p.o.Storage.Direct, PageCache)
	p.o.Storage.Direct = true
	p.noteIf(p.hits.left, SmallDataset)
	p.noteIf(p.may(shard.Packed) && p.most == 0, NoPackedForm)
	return nil
}

// formBytes is the mean size of the images' files in each form, 0 for a form without files, and the
// share of images other than raw ones that have a packed form.
func (p *profiler) formBytes() (bytes [shard.NumCosts]float64, packable float64) {
	var sizes [shard.NumCosts][]int64
	var packed, others float64
	for _, img := range p.images {
		for f := range sizes {
			of := img.files[f]
			if of.path == "" && img.is != shard.Encoded {
				of = img.files[img.is]
			}
			if of.path != "" {
				sizes[f] = append(sizes[f], of.size)
			}
		}
		if img.is != shard.Raw {
			others++
			if img.files[shard.Packed].path != "" {
				packed++
			}
		}
	}
	for f, all := range sizes {
		if len(all) > 0 {
			bytes[f] = mean(all)
		}
	}
	return bytes, packed / max(others, 1)
}

// possible is the possible mix nearest to s: images that are raw or packed already stay so, and not
// all can be packed.
func (p *profiler) possible(s convert.Shares) convert.Shares {
	already := p.hits.already
	raw := max(s.Raw, already.Raw)
	packed := max(min(s.Packed, (1-raw)*p.most), already.Packed)
	return convert.Shares{Raw: min(raw, 1-packed), Packed: packed}
}

// tenth is the mix of the path with a number.
func (p *profiler) tenth(number int) convert.Shares {
	return p.possible(p.path.mix(float64(number) / tenths))
}

// pairs are the mixes of two forms, from the smallest files to the largest, with steps equal steps
// from one form alone to the next.
func (p *profiler) pairs(steps int) (all []convert.Shares) {
	for i := range steps*(len(p.path)-1) + 1 {
		all = append(all, p.possible(p.path.mix(float64(i)/float64(steps))))
	}
	if len(p.path) < 3 {
		return all
	}
	ends := path{p.path[0], p.path[2]}
	for i := 1; i < steps; i++ {
		all = append(all, p.possible(ends.mix(float64(i)/float64(steps))))
	}
	return all
}

func (p *profiler) noteIf(applies bool, n Note) {
	if applies {
		p.result.Notes = append(p.result.Notes, n)
	}
}

// lasting is how many images take the given seconds at a rate. It is a multiple of ten, so that the
// mixes of the search have exact shares.
func (p *profiler) lasting(rate, seconds float64) int {
	least := max(leastImages, 2*p.o.Engine.BatchSize)
	n := min(len(p.images), max(least, int(min(rate*seconds, math.MaxInt32))))
	if n > tenths {
		n -= n % tenths
	}
	return n
}

// rises reports that the mix after the given one does not load more slowly: its files are smaller,
// or the cache holds everything.
func (p *profiler) rises(mix int) bool {
	bytes := func(mix int) float64 {
		s := p.tenth(min(mix, p.path.last()))
		return (1 - p.hits.at(s)) * p.result.fileBytes(s)
	}
	return bytes(mix+1) <= bytes(mix)
}

// measure finds the answer.
func (p *profiler) measure(ctx context.Context) error {
	points := map[convert.Shares]Point{}
	at := func(s convert.Shares) (pt Point, err error) {
		pt, known := points[s]
		if !known {
			pt, err = p.point(ctx, s)
			points[s] = pt
		}
		return pt, err
	}
	last := p.path.last()
	p.expected = 2*4 + 6
	var also []convert.Shares // besides the search's
	switch {
	case p.o.Exhaustive:
		also = p.pairs(tenths)
		p.expected = int64(3*len(also)) + 3
	case len(p.path) > 2: // it may leave out a form
		also = []convert.Shares{p.tenth(0), p.tenth(last)}
		p.expected = 2*(5+2) + 8
	}
	for _, s := range also {
		if _, err := at(s); err != nil {
			return err
		}
	}
	r := &p.result
	steps, best, err := search(last, p.rises, func(mix int) (Point, error) { return at(p.tenth(mix)) })
	if err != nil {
		return err
	}
	m := modelOf(slices.Collect(maps.Values(points)), p.hits.at)
	r.Steps, r.BestTenths, r.Crossing = steps, p.tenth(best), m.best(p.pairs(100))
	for i := range 10*last + 1 {
		r.Curve = append(r.Curve, m.at(p.path.mix(float64(i)/100)))
	}
	for f, cost := range r.costs() {
		if slices.Contains(p.path, shard.Cost(f)) {
			cost.Load, cost.Decode = m.load[f], m.decode[f]
		}
	}
	p.noteIf(p.may(shard.Raw) && r.Raw.Bytes < r.Encoded.Bytes, RawSmaller)
	return p.verify(ctx, m)
}

// point measures loading and decoding of one mix.
func (p *profiler) point(ctx context.Context, s convert.Shares) (Point, error) {
	hits := p.hits.at(s)
	load, err := p.measureLoad(ctx, s, hits)
	if err != nil {
		return Point{}, err
	}
	p.measured()
	decode, err := p.measureDecode(ctx, s)
	if err != nil {
		return Point{}, err
	}
	p.measured()
	return pointOf(s, hits, load, decode), nil
}

func (p *profiler) measured() {
	p.figures++
	if p.o.Measured != nil {
		p.o.Measured(p.figures, max(p.expected, p.figures))
	}
}

// verify runs the engine with the unchanged dataset, at the crossing of the curves, with the
// neighboring mixes of the search, with each form alone, and with what should suffice for training.
// The fastest is the answer.
func (p *profiler) verify(ctx context.Context, m model) error {
	r := &p.result
	below := int(math.Floor(p.path.place(r.Crossing)*tenths + 1e-9))
	some := []convert.Shares{p.tenth(0), r.Crossing, r.BestTenths, p.tenth(below), p.tenth(min(below+1, p.path.last()))}
	for k := range p.path {
		some = append(some, p.tenth(k*tenths))
	}
	most := mostTaken(p.o.Consumer, p.budget.Options)
	some = append(some, r.enough(m, p.pairs(100), most)...)
	if p.o.Exhaustive {
		some = append(some, p.pairs(tenths)...)
	}
	var mixes []convert.Shares
	for _, s := range some {
		if !slices.ContainsFunc(mixes, func(other convert.Shares) bool { return apart(s, other) < nearby }) {
			mixes = append(mixes, s)
		}
	}
	slices.SortStableFunc(mixes[1:], func(a, b convert.Shares) int { return cmp.Compare(p.path.place(a), p.path.place(b)) })
	for some := range slices.Chunk(mixes, p.atOnce()) {
		if err := p.contest(ctx, m, some); err != nil {
			return err
		}
	}
	p.decide(m)
	if most > 0 {
		r.train(m, p.o.Consumer, most)
	}
	return nil
}

// apart is the largest difference of two mixes' shares.
func apart(a, b convert.Shares) float64 {
	return max(math.Abs(a.Raw-b.Raw), math.Abs(a.Packed-b.Packed))
}

// atOnce is how many engines fit under the memory limit, including their prefetched
// batches.
func (p *profiler) atOnce() int {
	const most, process, worker = 6, 28 << 20, 4 << 20
	e := &p.o.Engine
	held := int64(float64(p.few) * max(p.result.Encoded.Bytes, p.result.Packed.Bytes, p.result.Raw.Bytes))
	ahead := int64(e.PrefetchDepth + 2)
	batch := min(p.budget.Size(engine.Key{}, layout.NPY), e.MemoryLimit/ahead+1) // a larger batch does not fit even once
	each := min(p.hits.limit, 2*held) + ahead*batch + int64(e.Workers)*worker
	return int(min(max((e.MemoryLimit-process)/each, 1), most))
}

const (
	nearby    = 0.02 // mixes closer than this count as one
	certainly = 1.01 // the least speedup that tells two mixes apart
	noisy     = 0.2  // more noise than this comes from other programs on the machine
	expected  = 0.85 // share of the modeled throughput
)

// LeastGain is how many times as fast as the unchanged dataset a mix must be for Run to recommend
// it. Less does not justify storing a dataset twice, even if it can be measured.
const LeastGain = 1.03

// decide chooses the crossing unless another run was clearly faster. The unchanged dataset, whose
// run was first, is the answer unless the chosen mix was clearly faster, and by LeastGain.
func (p *profiler) decide(m model) {
	r := &p.result
	asItIs, crossing := &r.Runs[0], &r.Runs[0]
	for k := range r.Runs {
		if run := &r.Runs[k]; apart(run.Shares, r.Crossing) < apart(crossing.Shares, r.Crossing) {
			crossing = run
		}
	}
	answer := crossing
	for k := range r.Runs {
		if run := &r.Runs[k]; run.Throughput > answer.Throughput {
			answer = run
		}
	}
	if !answer.beats(crossing) {
		answer = crossing
	}
	within := answer != asItIs && (answer.Throughput < LeastGain*asItIs.Throughput || !answer.beats(asItIs))
	if within {
		answer = asItIs
	}
	p.noteIf(within, WithinNoise)
	p.noteIf(slices.ContainsFunc(r.Runs, func(t Trial) bool { return t.Noise > noisy }), Noisy)
	r.Shares = convert.Shares{Raw: round(answer.Raw), Packed: round(answer.Packed)}
	r.EncodedRatio, r.Verified = round(r.Of(shard.Encoded)), answer.Throughput
	r.EncodedOnly, r.AsItIs = asItIs.Throughput, answer == asItIs
	p.noteIf(answer != crossing && !within, OtherWins)
	p.noteIf(float64(crossing.Throughput) < expected*float64(m.at(crossing.Shares).Throughput), Waiting)
}

// round rounds to whole percent, which is finer than measurements can resolve.
func round(share float64) float64 { return math.Round(share*100) / 100 }
