package main

import (
	"context"
	"fmt"
	"io"
	"runtime"
	"time"

	"github.com/batchfs/batchfs/shard"
	"github.com/batchfs/batchfs/shard/keep"
)

// planStats is the output of plan --stats: what a cache would do in one epoch, or the range
// over several. Per-batch figures count full batches only.
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

// planStats simulates the cache over epochs.
func (c *console) planStats(ctx context.Context, plan *shard.Plan, r planRequest) error {
	if r.cache.LocalTo == 0 {
		r.cache.LocalTo = r.order.Shards
	}
	s := &simulation{plan: plan, order: r.order, config: r.cache, planStats: planStats{
		Samples: r.order.Samples, Shards: r.order.Shards, BatchSize: r.order.BatchSize, CacheRatio: r.cache.Ratio,
		Epoch: r.first, LastEpoch: r.last, LocalShards: [2]int{r.cache.LocalFrom, r.cache.LocalTo - 1},
	}}
	for x := r.cache.LocalFrom; x < r.cache.LocalTo; x++ {
		_, valid := plan.Samples(x, r.first)
		s.Read += valid
	}
	for epoch := max(0, r.first-1); epoch <= r.last; epoch++ {
		if ctx.Err() != nil {
			return errInterrupted
		}
		held := s.held
		if err := s.choose(epoch); err != nil {
			return r.unfit(err)
		}
		if epoch >= r.first {
			s.run(epoch, held)
		}
	}
	return show(c.out, &s.planStats, r.asJSON)
}

// simulation is a cache that keeps what the plan chooses.
type simulation struct {
	planStats
	plan   *shard.Plan
	order  shard.Config
	config keep.Config

	held *keep.Choice // left by the latest epoch; nil: nothing
	read []uint64     // one bit per sample: read in this epoch
}

// choose computes what an epoch keeps, and measures the time and memory that takes.
func (s *simulation) choose(epoch int) (err error) {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	began := time.Now()
	if s.held, err = keep.Choose(s.plan, epoch, s.config, nil); err != nil {
		return err
	}
	s.Seconds = max(s.Seconds, time.Since(began).Seconds())
	runtime.ReadMemStats(&after)
	s.PeakBytes = max(s.PeakBytes, int64(after.TotalAlloc-before.TotalAlloc))
	return nil
}

// run reads an epoch in lockstep: batch i of all shards before batch i+1 of any. The epoch
// before left what is held.
func (s *simulation) run(epoch int, held *keep.Choice) {
	var occupancy int64
	if held != nil {
		occupancy = held.Count()
	}
	s.Candidates.add(s.held.Candidates())
	s.KeptEachEpoch.add(s.held.Count())
	s.read = make([]uint64, (s.Samples+63)/64)
	s.Occupancy.add(occupancy)
	var slots []shard.Slot
	for i := range s.plan.Batches(s.config.LocalFrom, epoch) {
		for x := s.config.LocalFrom; x < s.config.LocalTo; x++ {
			var valid int
			slots, valid = s.plan.Batch(x, epoch, i, slots)
			occupancy += s.batch(slots[:valid], held)
		}
		s.Occupancy.add(occupancy)
	}
}

// batch reads one batch and returns by how many samples the cache grows.
func (s *simulation) batch(slots []shard.Slot, held *keep.Choice) (grows int64) {
	var hits, kept, raw int64
	for _, slot := range slots {
		id := slot.ID
		if s.order.Raw != nil && s.order.Raw.Contains(id) {
			raw++
		}
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
		s.RawPerBatch.add(raw)
	}
	return grows
}

func (s *planStats) print(out io.Writer) {
	t := newTable(out)
	t.row("cache", "%v of the %s read here in an epoch", s.CacheRatio, count(s.Read, "sample"))
	t.row("hits per full batch", "%v of %d", s.HitsPerBatch, s.BatchSize)
	t.row("kept per full batch", "%v", s.KeptPerBatch)
	t.row("raw per full batch", "%v", s.RawPerBatch)
	t.row("held at a time", "%v", s.Occupancy)
	t.row("kept in all", "%v of %v that are read again", s.KeptEachEpoch, s.Candidates)
	t.row("planned in", "%.3f s, with %s", s.Seconds, formatBytes(s.PeakBytes))
	t.end()
}
