package shard

import (
	"fmt"
	"math"
	"strconv"
)

// KeepConfig says how much may be kept from one epoch to the next, and by which shards.
type KeepConfig struct {
	// Ratio is the share, 0 to 1, of the samples read by the local shards in an epoch that may
	// be kept. With all shards local it is a share of the dataset.
	Ratio float64
	// LocalFrom and LocalTo are the range of shards that are read here, excluding LocalTo. Both
	// 0: all shards.
	LocalFrom, LocalTo int
}

// Keep is a choice of samples: of those that one epoch reads, the ones to hold in memory until
// the next epoch reads them. It is immutable, and its memory is one bit per sample of the
// dataset.
//
// # What is chosen
//
// Connect a batch of the epoch and a batch of the next by an edge for each sample that both
// read; to keep a sample is to choose its edge. The edges are the candidates. In padded plans a
// batch has as many candidates as valid slots, if all shards are local and no batch is dropped.
// Otherwise it may have fewer: a sample that one of the two epochs does not read, or not here,
// has no edge. A sample that an epoch reads twice, which happens in unpadded plans, counts
// where it is read first in lock step: batch i of every shard before batch i+1 of any.
//
// Let r be the ratio, and d the number of valid slots in a set of batches. If no batch lacks
// candidates, floor(r·d) or ceil(r·d) are chosen
//
//   - of each batch of either epoch: it keeps, and later hits, as often as any other of its size,
//     exactly r·d times if that is whole;
//   - of the raw and of the encoded samples of each batch;
//   - of the batches 0 to i of all shards together, for every i, in either epoch: if shards move
//     in lock step, the number of samples in memory stays within 3 of r·n;
//   - of all;
//
// and each sample is chosen with probability r, over seeds.
//
// If batches lack candidates, none of these sets has more than ceil(r·d), and batches of one
// size still keep and hit equally often, unless r is so large that some of them have too few
// candidates: those keep nearly all they have.
//
// # Why that is possible
//
// Consider a network in which the edges are arcs that carry r each, from the batches of the
// epoch to those of the next. In the epoch, each batch draws on the sum of all batches up to
// its step, this sum on the sum up to the next step, and so on up to the total; within a batch,
// each of two classes draws on the batch. In the next epoch the same arcs run the other way,
// and one arc carries the total back. So each of the sets above is one arc, which carries r·d,
// and the inflow of every node equals its outflow: it is a circulation. The matrix of a network
// is totally unimodular, so there is a circulation of whole numbers in which each arc carries
// the floor or the ceiling of its former value.
//
// It can be found in steps that each preserve a circulation. An arc with a fractional value
// shares both of its nodes with other such arcs, so there is a cycle of them. Along the cycle,
// an amount can be added to the arcs that run one way and taken from those that run the other
// way, until some arc is whole. If a coin decides the direction, and the amounts are equal,
// expectations are preserved: each edge is chosen with the probability that it carried. Three
// techniques make this nearly linear.
//
// Halving (halving). While all edges carry the same v, at first r, take a few out so that every
// batch has an even number, and split the others into closed trails. Along a trail, every other
// edge gains min(v, 1-v) and the rest lose it. Half of them are then whole, and the others
// carry the fractional part of 2v: repeat with these. About log2(d) rounds, each half as long
// as the previous one, leave a few edges for each batch.
//
// Bits (network). What is left are edges with several values, and the other arcs. Their values
// are rounded to multiples of 2^-t so that the network stays a circulation. At every node an
// even number of arcs then has the last bit set. These arcs can be split into closed trails,
// and adding or subtracting 2^-t along them clears that bit. After t rounds all values are
// whole.
//
// Fitting (fit). If batches lack candidates, equal shares would be too little for some. Then
// the shares of some edges are first fitted so that every batch has r·d.
type Keep struct {
	samples    int64
	words      []uint64
	kept       [classCount]int64
	candidates [classCount]int64
}

// The classes of samples that are balanced separately.
const (
	classEncoded = 0
	classRaw     = 1
	classCount   = 2
)

// Keep chooses what to keep from an epoch for the next one. The choice depends only on the
// plan, the epoch and c; the order of samples never depends on it. It uses up to KeepMemory
// bytes while it works. An error is a *ConfigError.
func (p *Plan) Keep(epoch int, c KeepConfig) (*Keep, error) {
	return p.KeepIn(epoch, c, onHeap{})
}

// KeepIn is Keep in the memory of a workspace, and returns all of that memory to it before it
// returns. The result is ordinary memory, of KeepBytes. An error is a *ConfigError or the
// workspace's own.
func (p *Plan) KeepIn(epoch int, c KeepConfig, w Workspace) (k *Keep, err error) {
	if err := p.validateKeep(epoch, &c); err != nil {
		return nil, err
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
	g := p.keepGraph(epoch, c, s)
	g.choose(c.Ratio, newCoin(p.cfg.Seed, epoch))
	return p.collect(epoch, c, g), nil
}

// collect records the samples of the chosen edges.
func (p *Plan) collect(epoch int, c KeepConfig, g *keepGraph) *Keep {
	k := &Keep{samples: p.samples, words: make([]uint64, ceilDiv(p.samples, 64))}
	for leaf, edges := range g.now.edges {
		k.candidates[g.class(leaf)] += int64(edges)
	}
	read, edge := 0, 0
	p.eachRead(epoch, c, &g.now, g.scratch, func(_ int32, slots []Slot) {
		for _, slot := range slots {
			if has(g.joined, read) {
				if g.kept(edge) {
					k.words[slot.ID/64] |= 1 << (slot.ID % 64)
					k.kept[g.class(int(g.tail[edge]))]++
				}
				edge++
			}
			read++
		}
	})
	return k
}

// Kept says whether a sample is kept; false if there is no such sample.
func (k *Keep) Kept(id int64) bool {
	return id >= 0 && id < k.samples && k.words[id/64]>>(id%64)&1 != 0
}

// Count is the number of samples kept, and how many of them are raw.
func (k *Keep) Count() (all, raw int64) {
	return k.kept[classEncoded] + k.kept[classRaw], k.kept[classRaw]
}

// Candidates is the number of samples that could be kept at any ratio, because both epochs read
// them here, and how many of them are raw.
func (k *Keep) Candidates() (all, raw int64) {
	return k.candidates[classEncoded] + k.candidates[classRaw], k.candidates[classRaw]
}

// Bytes is the memory that the choice holds.
func (k *Keep) Bytes() int64 { return int64(cap(k.words)) * 8 }

// KeepBytes is the memory that a choice of this plan holds.
func (p *Plan) KeepBytes() int64 { return ceilDiv(p.samples, 64) * 8 }

// KeepMemory is approximately the most memory that Keep takes from its workspace at a time, in
// bytes: 14 per sample unless batches are small, up to four times that if batches lack
// candidates, and much more for the smallest batches. It is 0 for what Keep rejects.
func (p *Plan) KeepMemory(c KeepConfig) int64 {
	if p.validateKeep(0, &c) != nil {
		return 0
	}
	nodes := p.keepNodes(c)
	some := 1<<16 + 24*p.batch + 12*min(p.samples, chunkEdges) + 76*nodes
	if p.cfg.PadLastBatch && p.cfg.LastBatch != Drop && c.LocalTo-c.LocalFrom == p.cfg.Shards {
		return some + 14*p.samples
	}
	return some + 56*p.samples
}

// keepNodes is an upper bound of the nodes in the network of two epochs.
func (p *Plan) keepNodes(c KeepConfig) int64 {
	local := int64(c.LocalTo - c.LocalFrom)
	steps := int64(p.Batches(c.LocalFrom, 0)) + 1 // some epochs have one more
	nodes := steps + local*steps
	if p.cfg.Raw != nil {
		nodes += classCount * local * steps
	}
	return 2 * nodes
}

// validateKeep also resolves which shards are local.
func (p *Plan) validateKeep(epoch int, c *KeepConfig) error {
	if c.LocalFrom == 0 && c.LocalTo == 0 {
		c.LocalTo = p.cfg.Shards
	}
	switch {
	case !(c.Ratio >= 0 && c.Ratio <= 1): // also rejects NaN
		return &ConfigError{Field: "cache ratio", Rule: "from 0 to 1", Value: strconv.FormatFloat(c.Ratio, 'g', -1, 64)}
	case c.LocalFrom < 0 || c.LocalTo > p.cfg.Shards || c.LocalFrom >= c.LocalTo:
		return &ConfigError{
			Field: "local shards",
			Rule:  fmt.Sprintf("at least one of 0 to %d", p.cfg.Shards-1),
			Value: fmt.Sprintf("%d to %d", c.LocalFrom, c.LocalTo-1),
		}
	case epoch < 0 || epoch >= MaxEpochs-1:
		return &ConfigError{Field: "epoch", Rule: fmt.Sprintf("from 0 to %d", MaxEpochs-2), Value: strconv.Itoa(epoch)}
	case p.samples > maxKeepSamples:
		return &ConfigError{Field: "samples", Rule: fmt.Sprintf("at most %d to plan what is kept", maxKeepSamples), Value: strconv.FormatInt(p.samples, 10)}
	case p.samples+p.keepNodes(*c) > math.MaxInt32/2: // the ends of all arcs are numbered with an int32
		return &ConfigError{Field: "batch size", Rule: "larger to plan what is kept of so many samples", Value: strconv.Itoa(p.cfg.BatchSize)}
	}
	return nil
}

const maxKeepSamples = 1 << 29
