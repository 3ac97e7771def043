package engine

import (
	"cmp"
	"math"
	"sync"

	"github.com/batchfs/batchfs/cache"
	"github.com/batchfs/batchfs/internal/option"
	"github.com/batchfs/batchfs/internal/sample"
	"github.com/batchfs/batchfs/shard"
)

// A Form is how samples wait in memory.
type Form uint8

const (
	// FormAuto packs what gains by it.
	FormAuto Form = iota
	// FormEncoded keeps samples as they are stored.
	FormEncoded
	// FormPacked packs all that can be packed.
	FormPacked
)

var formNames = []string{"auto", "encoded", "packed"}

// String is the form's name on the command line.
func (f Form) String() string { return formNames[f] }

// Set implements [flag.Value].
func (f *Form) Set(name string) error {
	return option.Named(f, "cache form", formNames, name)
}

// A mix is how much of a plan's samples is packed.
type mix struct {
	packed float64 // share of the samples to be packed, if they can be
	grows  int64   // bytes that the packed samples may take beyond what their files would
	needs  int64   // bytes of the cache without that growth
	reason string
}

// forms decide which of the kept samples are packed. A packed sample takes a little more memory
// than an encoded one, and is decoded in a fraction of the time: packing more costs reads, and
// saves processor time.
//
// Let s be the bytes that are read of a sample, c and c' the times that drawing an encoded and a
// packed one takes, rho the size of a packed one as a multiple of the encoded, m the share of the
// dataset that memory has room for, B the rate of the storage, and P the number of drawers. The
// samples that are kept change from epoch to epoch, so a share of 1 - m of the packed ones is
// packed anew in each; c' includes that. With a share p of the dataset packed and e encoded, e +
// rho*p = m, an epoch takes the greater of
//
//	s (1 - e - p) / B   and   ((1 - p) c + p c') / P
//
// for each sample. These are equal at
//
//	p = (c/P - s (1-m)/B) / ((c - c')/P + (rho-1) s/B)
//
// Less is packed if that is below 0, and all that fits if it is above m/rho. If m is above 1, at
// least (m - 1)/(rho - 1) is packed, which costs no read. A few samples are packed until the costs
// of packing are measured.
type forms struct {
	budget    Budget
	limit     int64 // size of the cache
	room      int64 // part of it for samples
	rates     *rates
	cache     *cache.Cache
	ledger    *ledger
	planning  int64       // bytes that a plan takes
	readsFree func() bool // reports whether reads take no time

	// Known once learn was called.
	costs    cache.Costs // of encoded samples
	packable float64     // share of the encoded bytes that can be packed

	mu   sync.Mutex
	now  mix   // of the latest plan
	left int64 // bytes that the latest plan leaves for packed samples to grow
}

// newForms decides for a cache of that size; nil: samples stay encoded.
func newForms(c Budget, limit int64) *forms {
	o := c.Options
	if o.CacheForm == FormEncoded || c.mayPack() != nil {
		return nil
	}
	if o.CacheForm == FormAuto && c.Dataset.LocalSamples() != nil {
		return nil // mounts that share a local cache share one plan, which must not depend on what each of them has measured
	}
	return &forms{budget: c, limit: limit, room: cache.Room(cache.Constant, limit, o.Samples), left: math.MaxInt64}
}

// mayPack returns an *option.Error if samples cannot be packed in memory: packing is planned, and a
// GPU does not decode packed samples.
func (c Budget) mayPack() error {
	o := c.Options
	switch {
	case o.CacheSize == 0:
		return &option.Error{Field: "cache size", Rule: "more than 0 for packed samples", Value: "0"}
	case o.CachePolicy != cache.Constant:
		return &option.Error{Field: "cache policy", Rule: "constant for packed samples", Value: o.CachePolicy.String()}
	case o.DecodeOnDevice || o.NVJPEG != "":
		return &option.Error{Field: "cache form", Rule: "encoded where a GPU decodes", Value: o.CacheForm.String()}
	}
	return nil
}

// learn finds out how much memory encoded samples take.
func (f *forms) learn() {
	c, all, packable := f.budget, 0.0, 0.0
	f.costs = cache.CostsOf(c.Options.Samples, func(id int64) (int64, int) {
		size, cost := cache.Cost(c.encodedSize(int(id))), sample.CostOf(c.Dataset, int(id))
		if all += float64(size); cost == shard.Encoded { // samples of other costs are decoded as fast as packed ones
			packable += float64(size)
		}
		return size, c.Options.Kind(cost)
	})
	f.packable = packable / max(1, all)
}

const nothingPacked = "encoded, as nothing is packed here"

// stats says how samples of the latest plan are kept, and why.
func (f *forms) stats() (s FormStats) {
	if f == nil {
		return FormStats{Reason: nothingPacked}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	return FormStats{PackedShare: f.now.packed, Reason: cmp.Or(f.now.reason, nothingPacked), Drawn: f.rates.drawnPacked()}
}

// choose says in which form a plan keeps its samples, and how many it keeps, as a share of those
// that an epoch reads. disk is the share that a local cache should have: a sample that leaves
// memory packed has no file for it. Only the planner calls it.
func (f *forms) choose(disk float64) (mix, float64) {
	if f.costs == (cache.Costs{}) {
		f.learn()
	}
	o := f.budget.Options
	readHere, inFlight := o.readHere(), o.InFlight()
	plain := f.costs.Share(f.room, readHere, inFlight)
	if plain == 0 || f.packable == 0 {
		return mix{}, plain
	}
	now := f.rates.measure(float64(o.drawers()), f.readsFree(), true)
	now.larger = 1 + f.packable*(now.larger-1)
	m := plain
	if plain == 1 {
		m = max(1, float64(f.room)/max(1, f.costs.Needs(1, readHere, 0)))
	}
	x := mix{packed: 1, reason: "packed, as asked for"}
	if o.CacheForm == FormAuto {
		x = best(now, m, float64(o.drawers()))
	}
	if most := mostBeside(disk, plain, o.BatchSize); x.packed > most {
		if x = (mix{packed: most, reason: "packed as far as the local cache can do without what leaves memory"}); most == 0 {
			x.reason = "encoded, as the local cache keeps what leaves memory"
		}
	}
	replacing := now.larger * f.costs.Needs(0, readHere, o.drawers()) // each drawer has the sample that it replaces twice
	if replacing > mostReplaced*float64(f.room) {
		x = mix{reason: "encoded, as the cache has room for few samples"}
	}
	room, grown := float64(f.room)-replacing, float64(f.cache.Grown())
	share, left := plain, int64(0)
	if x.packed > 0 || grown > 0 {
		grows := max(grown, room*(1-1/(1+(now.larger-1)*x.packed)))
		share = f.costs.Share(int64(room-grows), readHere, inFlight)
		left = int64(max(0, room-f.costs.Needs(share, readHere, inFlight)))
	}
	f.ledger.nextPeriod()
	f.mu.Lock()
	defer f.mu.Unlock()
	x.grows = min(left, f.left) // samples of the plan before are still there, too
	x.needs = f.limit - left
	f.left, f.now = left, x
	return x, share
}

// mostBeside is the share of the samples in memory that can be packed beside a local cache. Memory
// and the disk each keep a share of all samples. A sample that leaves memory packed cannot go to
// the disk. Such samples are memory*(1-memory) of all if everything is packed, and up to two more
// in some batches. In each batch, the remaining samples outside memory must be enough for the
// disk's share, with one to spare.
func mostBeside(disk, memory float64, batch int) float64 {
	if disk == 0 || memory >= 1 {
		return 1
	}
	left := float64(batch)*(1-memory-disk) - 3
	return max(0, min(1, left/(float64(batch)*memory*(1-memory))))
}

// mayGrow is how many bytes packed samples may take beyond what their files would: the least of
// what a plan, the latest plan, and all other memory allow.
func (f *forms) mayGrow(x mix) int64 {
	there := f.leaves()
	f.mu.Lock()
	defer f.mu.Unlock()
	return min(x.grows, f.now.grows, there)
}

// leaves is how many bytes other memory, and samples as they are stored, leave for packed samples
// and for packing.
func (f *forms) leaves() int64 {
	there := f.ledger.forCache() - f.planning
	f.mu.Lock()
	defer f.mu.Unlock()
	return there - f.now.needs
}

// mostReplaced bounds the room that is set aside for replacing samples, as a share of all.
const mostReplaced = 1.0 / 16

// fewPacked is the share of the kept samples that is packed until enough is measured.
const fewPacked = 1.0 / 32

// mostTime is the most time that an epoch with fewer samples in memory may take, relative to one
// with as many as possible: packed samples may be many times larger than their files.
const mostTime = 0.97

// epoch is how long an epoch takes, per sample, with a share of the dataset packed, and memory for
// m times the dataset.
func (now measured) epoch(packed, m, drawers float64) float64 {
	kept := min(1, m-(now.larger-1)*packed)
	return max(now.reading*(1-kept), ((1-packed)*now.encoded+packed*now.packed)/drawers)
}

// best is the mix that makes an epoch fastest, with memory for m times the dataset.
func best(now measured, m, drawers float64) mix {
	now.packed += max(0, 1-m) * now.packing
	most := min(1, m/now.larger) // the most that can be packed, as a share of the dataset
	free := 0.0                  // the share that can be packed without another read
	switch {
	case now.larger <= 1:
		free = most
	case m > 1:
		free = min(most, (m-1)/(now.larger-1))
	}
	x := mix{reason: "packed where memory is left"}
	p := free
	switch {
	case now.known && now.packed >= now.encoded:
		p, x.reason = 0, "encoded, as packed samples are not decoded faster"
	case free == 1:
		x.reason = "packed, as there is memory for all"
	case now.known:
		slow := (now.encoded/drawers - now.reading*(1-m)) / ((now.encoded-now.packed)/drawers + (now.larger-1)*now.reading)
		if p = max(free, min(most, slow)); now.epoch(p, m, drawers) > mostTime*now.epoch(free, m, drawers) {
			p = free
		}
		if p > free {
			x.reason = "packed, as samples wait for processors rather than for storage"
		} else if free == 0 {
			if x.reason = "encoded, as packed samples would save too little"; slow <= 0 {
				x.reason = "encoded, as samples wait for storage rather than for processors"
			}
		}
	case free == 0:
		x.reason = "encoded, until it is measured what takes longer"
	}
	kept := min(1, m-(now.larger-1)*p)
	if x.packed = min(1, p/kept); now.guessed || !now.known {
		x.packed = max(fewPacked, x.packed)
	}
	return x
}
