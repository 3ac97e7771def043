package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"runtime"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/batchfs/batchfs/dataset"
	"github.com/batchfs/batchfs/internal/catalog"
	"github.com/batchfs/batchfs/internal/keep"
	"github.com/batchfs/batchfs/internal/option"
	"github.com/batchfs/batchfs/shard"
)

func planCommand(c *console) *cli.Command {
	r := &planRequest{console: c}
	return command("plan [DATASET | --samples N]", func(f *flagSet) runner {
		f.check(func() error { return r.choose(f) })
		orderFlags(f, &r.order)
		datasetFlags(f, &r.source)
		f.group = ""
		f.derived("samples", "those of DATASET", "plan for `N` samples instead of a dataset", number(&r.order.Samples, 1, math.MaxInt64))
		f.derived("shard", "all", "the shard, `S` from 0", number(&r.shards[0], 0, math.MaxInt32))
		f.derived("epoch", "0, or 1 with --stats", "the epoch `A`, or A..B with B included",
			pair(&r.first, &r.last, "an epoch or a range of them, A..B with A at most B, as in 3 or 0..9",
				func(text string) (int, int, bool) { return parseSpan(text, "..") }))
		f.toggle(&r.stats, "stats", false, "print what a cache would do, what local placement has to fetch, or how well a window mixes, instead of batches")
		f.derived("cache-ratio", "none", "the cache holds `R` of what is read here in an epoch, 0 to 1", fraction(&r.cache.Ratio))
		localShardsFlag(f, &r.cache.LocalFrom, &r.cache.LocalTo)
		rankFlag(f, &r.cache.LocalFrom, &r.cache.LocalTo)
		jsonFlag(c, f, "print JSON, one object per line")
		f.check(func() error { return r.complete(f) })
		return func(ctx context.Context, _ []string) error {
			r.source.Workers = c.machine.cpus
			err := r.plan(ctx)
			if _, bad := errors.AsType[*option.Error](err); bad && r.dataset != "" {
				return unfit(r.dataset, err)
			}
			return err
		}
	})
}

type planRequest struct {
	*console
	order       shard.Config
	dataset     string        // "" if the number of samples is given
	raw         *shard.RawSet // of the dataset, which has a part in the order only of a shuffle; nil: not known
	source      dataset.Options
	shards      [2]int // first and last, inclusive
	first, last int    // epochs, inclusive

	stats  bool // instead of batches
	cached bool // by a simulated cache
	cache  keep.Config
}

// choose finds out what to plan for.
func (r *planRequest) choose(f *flagSet) error {
	switch {
	case !f.Changed("samples"):
		if err := f.arguments("plan", f.args, "DATASET (or --samples N)"); err != nil {
			return err
		}
		r.dataset = f.args[0]
	case len(f.args) > 0:
		return f.surplus(f.args, usage("DATASET and --samples exclude each other: plan for one of them"))
	}
	return nil
}

// complete checks the flags together.
func (r *planRequest) complete(f *flagSet) error {
	for _, name := range []string{"cache-ratio", "local-shards"} {
		if f.Changed(name) && !r.stats {
			return usage("--%s is for --stats", name)
		}
	}
	r.cached = f.Changed("cache-ratio")
	switch {
	case r.stats && f.Changed("shard"):
		return usage("--shard is for batches; --stats covers all shards, or those of --local-shards")
	case r.stats && !f.Changed("cache-ratio") && r.order.Window == 0 && r.order.Partition != shard.Local:
		return usage("--stats needs --cache-ratio, as in --cache-ratio 0.3, or --shuffle window=W, or --placement local")
	case r.stats && !f.Changed("epoch"):
		r.first, r.last = 1, 1 // the first epoch in which a cache helps
	}
	switch {
	case f.Changed("shard"):
		r.shards[1] = r.shards[0]
	case f.Changed("rank"):
		r.shards = [2]int{r.cache.LocalFrom, r.cache.LocalFrom}
	default:
		r.shards[1] = r.order.Shards - 1
	}
	if err := checkLocalShards(f, r.cache.LocalTo, r.order.Shards); err != nil {
		return err
	}
	if r.shards[1] >= r.order.Shards {
		return badValue("shard", fmt.Sprintf("a whole number from 0 to %d", r.order.Shards-1), f.text("shard"))
	}
	return nil
}

func (r *planRequest) plan(ctx context.Context) error {
	if r.dataset != "" {
		ds, err := r.openDataset(ctx, r.dataset, r.source)
		if err != nil {
			return err
		}
		defer ds.Close()
		r.order.Samples, r.order.Blocks = int64(ds.Len()), ds.Blocks()
		if r.raw = catalog.RawSamples(ds); r.order.Shuffle {
			r.order.Raw = r.raw
		}
	}
	plan, err := shard.New(r.order)
	if err != nil {
		return err
	}
	if r.stats {
		return r.simulate(ctx, plan)
	}
	for epoch := r.first; epoch <= r.last; epoch++ {
		for s := r.shards[0]; s <= r.shards[1]; s++ {
			if err := ctx.Err(); err != nil {
				return err
			}
			if err := r.show(planEpoch(plan, s, epoch)); err != nil {
				return err
			}
		}
	}
	return nil
}

// epochPlan is one line of plan --json.
type epochPlan struct {
	Shard   int         `json:"shard"`
	Epoch   int         `json:"epoch"`
	Batches []batchPlan `json:"batches"`
}

type batchPlan struct {
	Batch     int     `json:"batch"`
	Positions []int64 `json:"positions"`
	IDs       []int64 `json:"ids"`
	Valid     int     `json:"valid"`
}

func planEpoch(plan *shard.Plan, s, epoch int) epochPlan {
	e := epochPlan{Shard: s, Epoch: epoch, Batches: make([]batchPlan, plan.Batches(s, epoch))}
	var slots []shard.Slot
	for i := range e.Batches {
		var valid int
		slots, valid = plan.Batch(s, epoch, i, slots[:0])
		b := batchPlan{Batch: i, Positions: make([]int64, len(slots)), IDs: make([]int64, len(slots)), Valid: valid}
		for j, slot := range slots {
			b.Positions[j], b.IDs[j] = slot.Position, slot.ID
		}
		e.Batches[i] = b
	}
	return e
}

// print writes an epoch for people: one line per batch, long lines cut short.
func (e epochPlan) print(out io.Writer) {
	const few = 10
	fmt.Fprintf(out, "shard %d, epoch %d: %s\n", e.Shard, e.Epoch, count(len(e.Batches), "batch"))
	for _, b := range e.Batches {
		words, more := strings.Trim(fmt.Sprint(b.IDs[:min(few, len(b.IDs))]), "[]"), ""
		if len(b.IDs) > few {
			more = " ..."
		}
		fmt.Fprintf(out, "  batch %5d  %4d valid of %4d  samples %s%s\n", b.Batch, b.Valid, len(b.IDs), words, more)
	}
}

// planStats is the output of plan --stats: what a cache would do in one epoch, or the range
// over several, and what orders with steps or windows are like. Per-batch figures count full
// batches only.
type planStats struct {
	Samples       int64   `json:"samples"`
	Shards        int     `json:"shards"`
	BatchSize     int     `json:"batch_size"`
	CacheRatio    float64 `json:"cache_ratio"`
	HitsPerBatch  bounds  `json:"hits_per_batch"`
	KeptPerBatch  bounds  `json:"kept_per_batch"`
	Occupancy     bounds  `json:"occupancy"` // samples in the cache, after each step
	RawPerBatch   bounds  `json:"raw_per_batch"`
	Seconds       float64 `json:"seconds"`    // the longest time to plan one epoch
	PeakBytes     int64   `json:"peak_bytes"` // the most allocated to plan one epoch, an upper bound on its peak
	Epoch         int     `json:"epoch"`
	LastEpoch     int     `json:"last_epoch"`
	LocalShards   [2]int  `json:"local_shards"` // first and last
	Read          int64   `json:"read"`         // samples read here in an epoch
	Candidates    bounds  `json:"candidates"`   // samples that could be kept
	KeptEachEpoch bounds  `json:"kept_each_epoch"`

	Placement *placementStats `json:"placement,omitempty"`
	Shuffle   *shuffleStats   `json:"shuffle,omitempty"`
}

// bounds are the minimum and maximum of some figures; 0, 0 if there are none.
type bounds struct {
	Min int64 `json:"min"`
	Max int64 `json:"max"`

	any bool
}

func (b *bounds) add(n int64) {
	if !b.any {
		*b = bounds{n, n, true}
	}
	b.Min, b.Max = min(b.Min, n), max(b.Max, n)
}

func (b bounds) String() string {
	if b.Min == b.Max {
		return fmt.Sprint(b.Min)
	}
	return fmt.Sprintf("%d to %d", b.Min, b.Max)
}

// simulate reads epochs as a mount would.
func (r *planRequest) simulate(ctx context.Context, plan *shard.Plan) error {
	if r.cache.LocalTo == 0 {
		r.cache.LocalTo = r.order.Shards
	}
	s := &simulation{plan: plan, planRequest: r, planStats: planStats{
		Samples: r.order.Samples, Shards: r.order.Shards, BatchSize: r.order.BatchSize, CacheRatio: r.cache.Ratio,
		Epoch: r.first, LastEpoch: r.last, LocalShards: [2]int{r.cache.LocalFrom, r.cache.LocalTo - 1},
	}}
	for x := r.cache.LocalFrom; x < r.cache.LocalTo; x++ {
		_, valid := plan.Samples(x, r.first)
		s.Read += valid
	}
	if err := s.addShuffle(ctx); err != nil {
		return err
	}
	for epoch := max(0, r.first-1); epoch <= r.last; epoch++ {
		held := s.held
		if err := s.choose(epoch); err != nil {
			return err
		}
		if epoch < r.first { // it only leaves something in the cache
			continue
		}
		if err := s.run(ctx, epoch, held); err != nil {
			return err
		}
	}
	s.addPlacement()
	return r.show(&s.planStats)
}

// simulation is a cache that keeps what the plan chooses.
type simulation struct {
	planStats
	*planRequest
	plan *shard.Plan

	held       *keep.Choice // left by the latest epoch; nil: nothing
	read       []uint64     // one bit per sample: read in this epoch
	valid, own int          // samples read, and those of them that their node owns
}

// choose computes what an epoch keeps, and measures the time and memory that takes.
func (s *simulation) choose(epoch int) (err error) {
	if !s.cached {
		return nil
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	began := time.Now()
	if s.held, err = keep.Choose(s.plan, epoch, s.cache, nil); err != nil {
		return err
	}
	s.Seconds = max(s.Seconds, time.Since(began).Seconds())
	runtime.ReadMemStats(&after)
	s.PeakBytes = max(s.PeakBytes, int64(after.TotalAlloc-before.TotalAlloc))
	s.read = make([]uint64, (s.Samples+63)/64)
	return nil
}

// run reads an epoch in lockstep: batch i of all shards before batch i+1 of any. The epoch
// before left what is held.
func (s *simulation) run(ctx context.Context, epoch int, held *keep.Choice) error {
	var occupancy int64
	if held != nil {
		occupancy = held.Count()
	}
	if s.cached {
		s.Candidates.add(s.held.Candidates())
		s.KeptEachEpoch.add(s.held.Count())
		s.Occupancy.add(occupancy)
	}
	var slots []shard.Slot
	for i := range s.plan.Batches(s.cache.LocalFrom, epoch) {
		if err := ctx.Err(); err != nil {
			return err
		}
		for x := s.cache.LocalFrom; x < s.cache.LocalTo; x++ {
			var valid int
			slots, valid = s.plan.Batch(x, epoch, i, slots)
			s.valid += valid
			if s.order.Partition == shard.Local {
				s.own += s.plan.Owned(x, slots[:valid])
			}
			if valid == s.BatchSize && s.raw != nil && s.raw.Count() > 0 {
				s.RawPerBatch.add(s.countRaw(slots))
			}
			if s.cached {
				occupancy += s.batch(slots[:valid], held)
			}
		}
		if s.cached {
			s.Occupancy.add(occupancy)
		}
	}
	return nil
}

func (s *simulation) countRaw(slots []shard.Slot) (raw int64) {
	for _, slot := range slots {
		if s.raw.Contains(slot.ID) {
			raw++
		}
	}
	return raw
}

// batch reads one batch and returns by how many samples the cache grows.
func (s *simulation) batch(slots []shard.Slot, held *keep.Choice) (grows int64) {
	var hits, kept int64
	for _, slot := range slots {
		id := slot.ID
		if s.read[id/64]>>(id%64)&1 != 0 { // read before in this epoch: cached if it is kept
			if s.held.Kept(id) {
				hits++
			}
			continue
		}
		s.read[id/64] |= 1 << (id % 64)
		if held != nil && held.Kept(id) {
			hits++
			grows--
		}
		if s.held.Kept(id) {
			kept++
			grows++
		}
	}
	if len(slots) == s.BatchSize {
		s.HitsPerBatch.add(hits)
		s.KeptPerBatch.add(kept)
	}
	return grows
}

func (s *planStats) print(out io.Writer) {
	t := newTable(out)
	defer t.Flush()
	s.printOrder(t)
	if s.RawPerBatch.any {
		t.row("raw per full batch", "%v of %d", s.RawPerBatch, s.BatchSize)
	}
	if s.Seconds == 0 { // no cache was simulated
		return
	}
	t.row("cache", "%v of the %s read here in an epoch", s.CacheRatio, count(s.Read, "sample"))
	t.row("hits per full batch", "%v of %d", s.HitsPerBatch, s.BatchSize)
	t.row("kept per full batch", "%v", s.KeptPerBatch)
	t.row("held at a time", "%v", s.Occupancy)
	t.row("kept in all", "%v of %v that are read again", s.KeptEachEpoch, s.Candidates)
	t.row("planned in", "%.3f s, with %s", s.Seconds, formatBytes(s.PeakBytes))
}
