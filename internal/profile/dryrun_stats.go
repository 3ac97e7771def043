package profile

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"runtime"
	"time"

	"github.com/batchfs/batchfs/internal/keep"
	"github.com/batchfs/batchfs/shard"
)

// DryRunOptions say which epochs are read, by which shards, and with which cache.
type DryRunOptions struct {
	keep.Config      // of the cache, and of the local shards
	Cached      bool // there is a cache
	First, Last int  // epochs
}

// DryRunStats describe what a cache would do in one epoch, or the range over several, and orders
// with steps or windows. Per-batch figures count full batches only.
type DryRunStats struct {
	Samples       int64   `json:"samples"`
	Shards        int     `json:"shards"`
	BatchSize     int     `json:"batch_size"`
	CacheRatio    float64 `json:"cache_ratio"`
	HitsPerBatch  Bounds  `json:"hits_per_batch"`
	KeptPerBatch  Bounds  `json:"kept_per_batch"`
	Occupancy     Bounds  `json:"occupancy"` // samples in the cache, after each step
	RawPerBatch   Bounds  `json:"raw_per_batch"`
	Seconds       float64 `json:"seconds"`    // the longest time to plan one epoch
	PeakBytes     int64   `json:"peak_bytes"` // the most bytes allocated to plan one epoch, an upper bound on its peak
	Epoch         int     `json:"epoch"`
	LastEpoch     int     `json:"last_epoch"`
	LocalShards   [2]int  `json:"local_shards"` // first and last
	Read          int64   `json:"read"`         // samples read here in an epoch
	Candidates    Bounds  `json:"candidates"`   // samples that could be kept
	KeptEachEpoch Bounds  `json:"kept_each_epoch"`

	PackedPerBatch Bounds `json:"packed_per_batch"`

	Placement *placement `json:"placement,omitempty"`
	Shuffle   *mixed     `json:"shuffle,omitempty"`
}

// placement says how many of the samples read here belong to other nodes.
type placement struct {
	Nodes    int     `json:"nodes"`
	Fetched  float64 `json:"fetched"`  // share of the samples
	Expected float64 `json:"expected"` // according to the formula
}

// Bounds are the minimum and maximum of some figures; 0, 0 if there are none.
type Bounds struct {
	Min   int64 `json:"min"`
	Max   int64 `json:"max"`
	Known bool  `json:"-"` // there are any
}

func (b *Bounds) add(n int64) {
	if !b.Known {
		*b = Bounds{n, n, true}
	}
	b.Min, b.Max = min(b.Min, n), max(b.Max, n)
}

func (b Bounds) String() string {
	if b.Min == b.Max {
		return fmt.Sprint(b.Min)
	}
	return fmt.Sprintf("%d to %d", b.Min, b.Max)
}

// Stats reads epochs as a mount would. An error is ctx's, or an *option.Error.
func (o *DryRun) Stats(ctx context.Context, c DryRunOptions) (*DryRunStats, error) {
	config := o.plan.Config()
	if c.LocalTo == 0 {
		c.LocalTo = config.Shards
	}
	s := &simulation{DryRun: o, o: c, config: config, DryRunStats: DryRunStats{
		Samples: config.Samples, Shards: config.Shards, BatchSize: config.BatchSize, CacheRatio: c.Ratio,
		Epoch: c.First, LastEpoch: c.Last, LocalShards: [2]int{c.LocalFrom, c.LocalTo - 1},
	}}
	for x := c.LocalFrom; x < c.LocalTo; x++ {
		_, valid := o.plan.Samples(x, c.First)
		s.Read += valid
	}
	if config.Window > 0 {
		var err error
		if s.Shuffle, err = shuffleOf(ctx, o.plan, c.First); err != nil {
			return nil, err
		}
	}
	for epoch := max(0, c.First-1); epoch <= c.Last; epoch++ {
		held := s.held
		if err := s.choose(epoch); err != nil {
			return nil, err
		}
		if epoch < c.First { // it only fills the cache
			continue
		}
		if err := s.run(ctx, epoch, held); err != nil {
			return nil, err
		}
	}
	s.addPlacement()
	return &s.DryRunStats, nil
}

// simulation is a cache that keeps what the plan chooses.
type simulation struct {
	DryRunStats
	*DryRun
	o      DryRunOptions
	config shard.Config

	held       *keep.Choice // kept by the last epoch; nil: nothing
	read       []uint64     // one bit per sample: read in this epoch
	valid, own int          // samples read, and how many of them their node owns
}

// choose computes what an epoch keeps, and measures the time and memory for this.
func (s *simulation) choose(epoch int) (err error) {
	if !s.o.Cached {
		return nil
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	began := time.Now()
	if s.held, err = keep.Choose(s.plan, epoch, s.o.Config, nil); err != nil {
		return err
	}
	s.Seconds = max(s.Seconds, time.Since(began).Seconds())
	runtime.ReadMemStats(&after)
	s.PeakBytes = max(s.PeakBytes, int64(after.TotalAlloc-before.TotalAlloc))
	s.read = make([]uint64, (s.Samples+63)/64)
	return nil
}

// run reads an epoch in lockstep: batch i of all shards before batch i+1 of any. held is what the
// previous epoch kept.
func (s *simulation) run(ctx context.Context, epoch int, held *keep.Choice) error {
	var occupancy int64
	if held != nil {
		occupancy = held.Count()
	}
	if s.o.Cached {
		s.Candidates.add(s.held.Candidates())
		s.KeptEachEpoch.add(s.held.Count())
		s.Occupancy.add(occupancy)
	}
	var slots []shard.Slot
	for i := range s.plan.Batches(s.o.LocalFrom, epoch) {
		if err := ctx.Err(); err != nil {
			return err
		}
		for x := s.o.LocalFrom; x < s.o.LocalTo; x++ {
			var valid int
			slots, valid = s.plan.Batch(x, epoch, i, slots)
			s.valid += valid
			if s.config.Partition == shard.Local {
				s.own += s.plan.Owned(x, slots[:valid])
			}
			if valid == s.BatchSize {
				s.countCosts(slots)
			}
			if s.o.Cached {
				occupancy += s.batch(slots[:valid], held)
			}
		}
		if s.o.Cached {
			s.Occupancy.add(occupancy)
		}
	}
	return nil
}

// countCosts counts the raw and the packed samples of a full batch, if the dataset has any.
func (s *simulation) countCosts(slots []shard.Slot) {
	var counts [shard.NumCosts]int64
	for _, slot := range slots {
		counts[s.costs.Of(slot.ID)]++
	}
	for _, cost := range s.costs.Present() {
		switch cost {
		case shard.Raw:
			s.RawPerBatch.add(counts[cost])
		case shard.Packed:
			s.PackedPerBatch.add(counts[cost])
		}
	}
}

// batch reads one batch, and returns by how many samples the cache grows.
func (s *simulation) batch(slots []shard.Slot, held *keep.Choice) (grows int64) {
	var hits, kept int64
	for _, slot := range slots {
		id := slot.ID
		if s.read[id/64]>>(id%64)&1 != 0 { // already read in this epoch: cached if it is kept
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

// addPlacement records how many samples nodes had to fetch.
func (s *simulation) addPlacement() {
	if s.config.Partition != shard.Local {
		return
	}
	nodes := cmp.Or(s.config.Nodes, s.Shards)
	each, n := float64(s.Shards)*float64(s.BatchSize)/float64(nodes), float64(nodes)
	s.Placement = &placement{
		Nodes: nodes, Fetched: float64(s.valid-s.own) / float64(max(1, s.valid)), Expected: math.Sqrt((1 - 1/n) / (2 * math.Pi * each)),
	}
}
