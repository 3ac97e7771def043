// Package keep decides what a cache keeps: of the samples that one epoch reads, the ones to
// hold in memory until the next epoch reads them, so that every batch of either epoch keeps,
// and later hits, the same number. The choice is a pure function of the plan, the epoch and the
// ratio; the order of samples never depends on it.
//
// # What is chosen
//
// Connect a batch of the epoch and a batch of the next by an edge for each sample that both read;
// keeping a sample means choosing its edge. The edges are the candidates. In padded plans a batch
// has as many candidates as valid slots, if all shards are local and no batch is dropped. Otherwise
// it may have fewer: a sample that one of the two epochs does not read, or does not read here, has
// no edge. A sample that an epoch reads twice, which happens in unpadded plans, counts where it is
// read first in lock step: batch i of every shard before batch i+1 of any.
//
// Let r be the ratio, and d the number of valid slots in a set of batches. If no batch lacks
// candidates, floor(r·d) or ceil(r·d) are chosen
//
//   - of each batch of either epoch: exactly r·d if that is whole;
//   - of the samples of each cost in each batch;
//   - of the batches 0 to i of all shards together, for every i, in either epoch: if shards move
//     in lock step, the number of samples in memory stays within 3 of r·n;
//   - of all;
//
// and each sample is chosen with probability r, over seeds.
//
// If batches lack candidates, none of these sets has more than ceil(r·d), and batches of one size
// still keep and hit equally often, unless r is so large that some of them have too few candidates:
// those keep nearly all that they have.
//
// # Two caches
//
// A second choice, for another cache, chooses among the samples that the first one leaves
// ([Config.Except]). Its batches lack the others as candidates, so the same holds for it: with a
// ratio s, no set has more than ceil(s·d). In a shuffled order full batches also have floor(s·d),
// unless they are very small or r+s is nearly 1. The number that neither cache keeps of such a
// batch then differs from (1-r-s)·d by less than 2. With s = 1, the second choice keeps everything
// that is left.
//
// # Packed samples
//
// Some of the kept samples are packed. Only samples that are encoded in the dataset can be
// ([Config.Packed], [Config.PackedShare]). A sample stays packed for as long as it is kept, so the
// choice of what is kept also decides how many of a batch's hits are packed. Therefore a batch's
// packed samples are a leaf of their own in the network below. At most the share p of a batch's
// hits in the next epoch is chosen from packed samples. Others make up for the difference, each
// carrying (3+r)/4 at most, so that there is still a choice. Then as many of the others are packed
// as the batch lacks. So each batch of the next epoch hits its share of packed samples, to within
// one, unless r is so large, or batches are so small, that too few samples could replace those that
// are packed already. All batches together have their share in any case.
//
// # Why that is possible
//
// Consider a network whose arcs are the edges. Each carries r, from a batch of the epoch to a batch
// of the next. In the epoch, each batch draws on the sum of all batches up to its step, this sum on
// the sum up to the next step, and so on up to the total; within a batch, each of several costs
// draws on the batch. In the next epoch the same arcs run the other way, and one arc carries the
// total back. So each of the sets above is one arc, which carries r·d, and the inflow of every node
// equals its outflow: it is a circulation. The matrix of a network is totally unimodular, so there
// is a circulation of whole numbers in which each arc carries the floor or the ceiling of its
// former value.
//
// It is found in steps that each preserve a circulation. All values are multiples of a power of
// two. Along a closed trail, an amount can be added to the arcs that run one way and taken from
// those that run the other way. If a coin decides the direction, expectations are preserved:
// each edge is chosen with the probability that it carried. Two techniques make this nearly
// linear in time.
//
// Halving (halving). While many edges carry the same v, at first r, take a few out so that every
// batch has an even number, and split the others into closed trails. Along a trail, every other
// edge gains min(v, 1-v) and the rest lose it. Half of them are then whole, and the others carry
// the fractional part of 2v: repeat with these. A few edges for each batch remain. Without
// halving, 1.28 million samples in batches of 256 take seven times as long, and four times the
// memory.
//
// Bits (network). At every node, an even number of the remaining arcs has the lowest bit set.
// They can be split into closed trails, too, and adding or subtracting that bit along them
// clears it. After the last bit all values are whole. A sum that should be whole, but for a
// rounding error, almost never becomes another number; if one does, other coins are tossed.
//
// If batches lack candidates, equal shares would be too little for some of them. Then the shares
// of some edges are first fitted so that every batch has r·d (fit).
package keep

import (
	"fmt"
	"math"
	"strconv"

	"github.com/batchfs/batchfs/internal/option"
	"github.com/batchfs/batchfs/shard"
)

// Config says how much may be kept from one epoch to the next, and by which shards.
type Config struct {
	// Ratio is the share, 0 to 1, of the samples read by the local shards in an epoch that may
	// be kept. With all shards local it is a share of the dataset.
	Ratio float64
	// LocalFrom and LocalTo are the range of shards that are read here, excluding LocalTo. Both
	// 0: all shards.
	LocalFrom, LocalTo int
	// Except says which samples are not candidates, such as those that another cache keeps of the
	// same epoch. nil: none.
	Except func(id int64) bool
	// Packed says which samples of the lowest cost are packed when the epoch reads them; nil: none.
	// They stay packed while they are kept.
	Packed func(id int64) bool
	// PackedShare is the share, 0 to 1, of the kept samples of the lowest cost to be packed.
	PackedShare float64
}

// Choice is the set of samples to keep of one epoch. It is immutable, and its memory is one bit
// per sample of the dataset, or two if some are packed.
type Choice struct {
	samples, kept, candidates, packs int64
	words, packed                    []uint64
}

// Choose chooses what to keep from an epoch for the next one. It works in the memory of a
// workspace, nil for the Go heap, and returns all of that memory to it. The result is ordinary
// memory, of Size bytes. An error is an *option.Error or the workspace's own.
func Choose(p *shard.Plan, epoch int, c Config, w Workspace) (k *Choice, err error) {
	if err := c.check(p, epoch); err != nil {
		return nil, err
	}
	if w == nil {
		w = onHeap{}
	}
	s := &scratch{from: w}
	defer func() {
		s.end()
		if r := recover(); r != nil {
			end, ok := r.(stopped)
			if !ok {
				panic(r)
			}
			k, err = nil, end.err
		}
	}()
	g := newGraph(p, epoch, c, s)
	tosses := epoch
	if c.Except != nil {
		tosses = ^epoch // different from those that decided the exceptions
	}
	g.choose(c.Ratio, newCoin(p.Config().Seed, tosses))
	return g.collect(), nil
}

// Kept says whether a sample is kept; false if there is no such sample. A nil Choice keeps nothing.
func (k *Choice) Kept(id int64) bool {
	return k != nil && id >= 0 && id < k.samples && has(k.words, int(id))
}

// Packs says whether a sample is kept, and will be packed when the next epoch reads it.
func (k *Choice) Packs(id int64) bool {
	return k != nil && id >= 0 && id/64 < int64(len(k.packed)) && has(k.packed, int(id))
}

// Count is the number of samples kept.
func (k *Choice) Count() int64 {
	if k == nil {
		return 0
	}
	return k.kept
}

// Packed is the number of samples that are packed.
func (k *Choice) Packed() int64 {
	if k == nil {
		return 0
	}
	return k.packs
}

// Candidates is the number of samples that could be kept at any ratio, because both epochs read
// them here.
func (k *Choice) Candidates() int64 { return k.candidates }

// Size is the memory that a choice for this plan holds, in bytes; twice that if samples are packed.
func Size(p *shard.Plan) int64 { return int64(words(int(p.Config().Samples))) * 8 }

// Needs is approximately the most memory that Choose takes from its workspace at a time, in bytes:
// 14 per sample unless batches are small; up to four times that if batches lack candidates, as
// beside another choice, or if samples are packed; and much more for the smallest batches. It is 0
// for a configuration that Choose rejects.
func Needs(p *shard.Plan, c Config) int64 {
	if c.check(p, 0) != nil {
		return 0
	}
	cfg := p.Config()
	some := 1<<16 + 24*int64(cfg.BatchSize) + 12*min(cfg.Samples, leastChunk) + 104*c.nodes(p)
	if c.Except == nil && c.Packed == nil && cfg.PadLastBatch && cfg.LastBatch != shard.Drop && c.LocalTo-c.LocalFrom == cfg.Shards {
		return some + 14*cfg.Samples
	}
	return some + 56*cfg.Samples
}

// nodes is an upper bound of the nodes in the network of two epochs.
func (c *Config) nodes(p *shard.Plan) int64 {
	local := int64(c.LocalTo - c.LocalFrom)
	steps := int64(p.Batches(c.LocalFrom, 0)) + 1 // some epochs have one more
	nodes := steps + local*steps
	kinds := len(p.Config().Costs.Present())
	if c.Packed != nil {
		kinds++
	}
	if kinds > 1 {
		nodes += int64(kinds) * local * steps
	}
	return 2 * nodes
}

const maxSamples = 1 << 29

// check also resolves which shards are local.
func (c *Config) check(p *shard.Plan, epoch int) error {
	cfg := p.Config()
	if c.LocalFrom == 0 && c.LocalTo == 0 {
		c.LocalTo = cfg.Shards
	}
	switch {
	case !(c.Ratio >= 0 && c.Ratio <= 1): // also rejects NaN
		return &option.Error{Field: "cache ratio", Rule: "from 0 to 1", Value: strconv.FormatFloat(c.Ratio, 'g', -1, 64)}
	case c.LocalFrom < 0 || c.LocalTo > cfg.Shards || c.LocalFrom >= c.LocalTo:
		rule := fmt.Sprintf("at least one of 0 to %d", cfg.Shards-1)
		return &option.Error{Field: "local shards", Rule: rule, Value: fmt.Sprintf("%d to %d", c.LocalFrom, c.LocalTo-1)}
	case !(c.PackedShare >= 0 && c.PackedShare <= 1):
		return &option.Error{Field: "packed share", Rule: "from 0 to 1", Value: strconv.FormatFloat(c.PackedShare, 'g', -1, 64)}
	case epoch < 0 || epoch >= shard.MaxEpochs-1:
		return &option.Error{Field: "epoch", Rule: fmt.Sprintf("from 0 to %d", shard.MaxEpochs-2), Value: strconv.Itoa(epoch)}
	case cfg.Samples > maxSamples:
		rule := fmt.Sprintf("at most %d to plan what is kept", maxSamples)
		return &option.Error{Field: "samples", Rule: rule, Value: strconv.FormatInt(cfg.Samples, 10)}
	case cfg.Samples+c.nodes(p) > math.MaxInt32/2: // the ends of all arcs are numbered with an int32
		rule := "larger to plan what is kept of so many samples"
		return &option.Error{Field: "batch size", Rule: rule, Value: strconv.Itoa(cfg.BatchSize)}
	}
	return nil
}
