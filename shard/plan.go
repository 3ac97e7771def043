package shard

import (
	"cmp"
	"math/bits"
)

// Plan answers which samples are in any batch. It is immutable.
type Plan struct {
	cfg     Config
	samples int64  // n
	shards  int64  // k
	batch   int64  // b
	largest int64  // largest range: ceil(n/k), Z in the package comment
	least   int64  // smallest range: floor(n/k)
	costs   *Costs // if a shuffle orders several costs separately; nil: one cost
	blocks  blocks
	windows *windows // nil: no windows
	owners  owners   // with Local
}

// New makes a plan. An error is an *option.Error.
func New(cfg Config) (*Plan, error) {
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	n, k := cfg.Samples, int64(cfg.Shards)
	p := &Plan{
		cfg: cfg, samples: n, shards: k, batch: int64(cfg.BatchSize), largest: ceilDiv(n, k), least: n / k,
		blocks: newBlocks(n, cfg.Blocks),
	}
	if cfg.Shuffle && len(cfg.Costs.Present()) > 1 {
		p.costs = cfg.Costs
	}
	if cfg.Window > 0 {
		p.windows = newWindows(&p.blocks, int64(cfg.Window), cfg.Seed, p.costs)
	}
	if cfg.Partition == Local {
		p.owners = newOwners(&p.blocks, cmp.Or(int64(cfg.Nodes), k))
	}
	return p, nil
}

// Config is what the plan was made from.
func (p *Plan) Config() Config { return p.cfg }

// Batches is the number of batches that a shard has in an epoch. It is the same for all shards,
// and 0 for a shard or an epoch that does not exist.
func (p *Plan) Batches(shard, epoch int) int {
	if !p.isShard(shard) || epoch < 0 || epoch >= MaxEpochs {
		return 0
	}
	return int(p.BatchesBefore(epoch+1) - p.BatchesBefore(epoch))
}

// BatchesBefore is the number of batches of a shard before an epoch from 0 to MaxEpochs. It is the
// same for all shards.
func (p *Plan) BatchesBefore(epoch int) int64 {
	e := int64(epoch)
	switch {
	case p.cfg.LastBatch == Drop:
		return e * (p.least / p.batch)
	case p.cfg.LastBatch == Fill && !p.cfg.PadLastBatch:
		return p.filledBefore(e)
	}
	return e * ceilDiv(p.largest, p.batch)
}

// Range is the range of positions [lo, hi) that a shard reads in an epoch; with Elastic and Local,
// it reads a part of each step in the range. 0, 0 for a shard or an epoch that does not exist. In
// an unpadded plan it contains every slot of the shard whose Slot.Epoch is this epoch.
func (p *Plan) Range(shard, epoch int) (lo, hi int64) {
	switch {
	case epoch < 0 || !p.isShard(shard):
		return 0, 0
	case p.cfg.Partition != Ranges:
		return 0, p.samples
	}
	x := int64(shard)
	if !p.cfg.StickToShard {
		x = (x + int64(epoch)%p.shards) % p.shards
	}
	return p.start(x), p.start(x + 1)
}

// RangeAt is the range [lo, hi) that contains a position; with Elastic and Local, the whole epoch.
// 0, 0 if there is no such position.
func (p *Plan) RangeAt(position int64) (lo, hi int64) {
	switch {
	case position < 0 || position >= p.samples:
		return 0, 0
	case p.cfg.Partition != Ranges:
		return 0, p.samples
	}
	r := partOf(p.samples, position, p.shards)
	return p.start(r), p.start(r + 1)
}

// Samples counts the slots that a shard delivers in an epoch, and the valid ones among them.
func (p *Plan) Samples(shard, epoch int) (total, valid int64) {
	last := p.Batches(shard, epoch) - 1
	if last < 0 {
		return 0, 0
	}
	slots, rest := p.Size(shard, epoch, last)
	full := int64(last) * p.batch
	return full + int64(slots), full + int64(rest)
}

// Size counts the slots of a batch, and the valid ones, which come first; 0, 0 for a batch that
// does not exist. It computes no ids.
func (p *Plan) Size(shard, epoch, batch int) (slots, valid int) {
	if batch < 0 || batch >= p.Batches(shard, epoch) {
		return 0, 0
	}
	if p.cfg.onlyFull() {
		return int(p.batch), int(p.batch)
	}
	lo, hi := p.span(shard, epoch, batch)
	valid = int(min(max(hi-lo, 0), p.batch))
	if p.cfg.LastBatch == Partial {
		return valid, valid
	}
	return int(p.batch), valid
}

// onlyFull says whether every batch is full of valid slots.
func (c *Config) onlyFull() bool {
	return c.LastBatch == Drop || c.LastBatch == Fill && !c.PadLastBatch
}

// span is a range of positions [lo, hi), empty if hi <= lo. The batch has its first BatchSize
// positions; padding repeats hi-1. With Local, only the number of positions is right.
func (p *Plan) span(shard, epoch, batch int) (lo, hi int64) {
	if p.cfg.Partition == Ranges {
		lo, hi = p.Range(shard, epoch)
		return lo + int64(batch)*p.batch, hi
	}
	lo, hi = p.step(batch)
	return lo + partStart(hi-lo, int64(shard), p.shards), lo + partStart(hi-lo, int64(shard)+1, p.shards)
}

// start is the first position of range x, 0 <= x <= k.
func (p *Plan) start(x int64) int64 { return partStart(p.samples, x, p.shards) }

// partStart is where part x begins, 0 <= x <= k, if n things are divided into k parts:
// floor(n·x/k).
func partStart(n, x, k int64) int64 {
	q, _ := mulDiv(uint64(n), uint64(x), uint64(k))
	return int64(q)
}

// partOf is the part that contains thing i: the largest x with floor(n·x/k) <= i, so n·x/k < i+1.
func partOf(n, i, k int64) int64 {
	q, rest := mulDiv(uint64(i)+1, uint64(k), uint64(n))
	if rest == 0 {
		q--
	}
	return int64(q)
}

func (p *Plan) isShard(shard int) bool {
	return shard >= 0 && int64(shard) < p.shards
}

// mulDiv is floor(a·b/c) and the remainder, with a 128-bit product. The quotient must fit in 64
// bits, which it always does here because a <= c or b <= c.
func mulDiv(a, b, c uint64) (quotient, remainder uint64) {
	high, low := bits.Mul64(a, b)
	return bits.Div64(high, low, c)
}

// ceilDiv is ceil(a/b) for a >= 0, b > 0.
func ceilDiv(a, b int64) int64 { return (a + b - 1) / b }
