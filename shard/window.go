package shard

import (
	"sort"
	"sync/atomic"
)

// blocks are runs of consecutive samples that make up a dataset.
type blocks struct {
	samples int64
	starts  []int64 // the first sample of each block, then n; nil: all have BlockSamples except the last
}

func newBlocks(samples int64, sizes []int64) blocks {
	b := blocks{samples: samples}
	if sizes != nil {
		b.starts = make([]int64, 1, len(sizes)+1)
		for i, size := range sizes {
			b.starts = append(b.starts, b.starts[i]+size)
		}
	}
	return b
}

func (b *blocks) count() int64 {
	if b.starts == nil {
		return ceilDiv(b.samples, BlockSamples)
	}
	return int64(len(b.starts)) - 1
}

// start is the first sample of block i, 0 <= i <= count.
func (b *blocks) start(i int64) int64 {
	if b.starts == nil {
		return min(i*BlockSamples, b.samples)
	}
	return b.starts[i]
}

// border is the start of a block that is nearest to a sample; the sample itself without blocks.
func (b *blocks) border(id int64) int64 {
	if b.starts == nil {
		return id
	}
	i := sort.Search(len(b.starts)-1, func(i int) bool { return b.starts[i] >= id })
	if i > 0 && id-b.starts[i-1] <= b.starts[i]-id {
		i--
	}
	return b.starts[i]
}

// windows make the orders of a shuffle that mixes a few blocks at a time.
type windows struct {
	*blocks
	costs *Costs // nil: one cost
	seed  uint64
	count int64 // of windows
	// recent caches orders of epochs, by epoch modulo its length. It does not affect results.
	recent [4]atomic.Pointer[blockOrder]
}

func newWindows(b *blocks, size int64, seed uint64, costs *Costs) *windows {
	return &windows{blocks: b, costs: costs, seed: seed, count: ceilDiv(b.count(), size)}
}

// blockOrder is the order of the blocks in an epoch.
type blockOrder struct {
	*windows
	epoch  int
	order  permutation
	starts []int64 // by place in the order: the position at which a block begins; then n
	// before is like starts, but counts only the samples of one cost; nil for a cost without
	// samples.
	before [NumCosts][]int64
}

// in returns the order of an epoch.
func (w *windows) in(epoch int) *blockOrder {
	recent := &w.recent[epoch%len(w.recent)]
	if o := recent.Load(); o != nil && o.epoch == epoch {
		return o
	}
	n := w.blocks.count()
	o := &blockOrder{windows: w, epoch: epoch, starts: make([]int64, n+1), order: newPermutation(uint64(n), w.seed, uint64(epoch), tagBlocks)}
	if w.costs == nil {
		o.before[Encoded] = o.starts
	} else {
		for _, cost := range w.costs.Present() {
			o.before[cost] = make([]int64, n+1)
		}
	}
	for place := range n {
		block := int64(o.order.at(uint64(place)))
		first, end := w.start(block), w.start(block+1)
		o.starts[place+1] = o.starts[place] + end - first
		if w.costs == nil {
			continue
		}
		from, to := w.costs.before(first), w.costs.before(end)
		for cost, before := range o.before {
			if before != nil {
				before[place+1] = before[place] + to[cost] - from[cost]
			}
		}
	}
	recent.Store(o)
	return o
}

// window is the blocks at places [first, end) of an epoch, which are mixed.
type window struct {
	*blockOrder
	first, end int64
	lo, hi     int64 // its positions
}

// find is the rank-th sample of a cost in the window.
func (w *window) find(cost Cost, rank uint64) int64 {
	before := w.before[cost]
	at := before[w.first] + int64(rank)
	place := w.first + find(before[w.first:w.end+1], at)
	block := w.start(int64(w.order.at(uint64(place))))
	return w.costs.find(w.costs.before(block)[cost]+at-before[place], cost)
}

// enter moves to the window that contains a position, and says how it is mixed.
func (w *window) enter(position int64) blend {
	n := w.blocks.count()
	number := partOf(n, find(w.starts, position), w.count)
	w.first, w.end = partStart(n, number, w.count), partStart(n, number+1, w.count)
	w.lo, w.hi = w.starts[w.first], w.starts[w.end]
	var counts [NumCosts]int64
	for cost, before := range w.before {
		if before != nil {
			counts[cost] = before[w.end] - before[w.first]
		}
	}
	return newBlend(counts, func(cost Cost, n uint64) permutation {
		return newPermutation(n, w.seed, uint64(w.epoch), tagWindow+uint64(number)+w.costs.tags(cost).window)
	})
}

// find is the last i with starts[i] <= x.
func find(starts []int64, x int64) int64 {
	return int64(sort.Search(len(starts), func(i int) bool { return starts[i] > x })) - 1
}

// Block is the number of the block that a sample is in. The sample must exist.
func (p *Plan) Block(id int64) int64 {
	if p.blocks.starts == nil {
		return id / BlockSamples
	}
	return find(p.blocks.starts, id)
}

// Blocks counts the blocks of the dataset.
func (p *Plan) Blocks() int64 { return p.blocks.count() }

// MemoryBytes is the most memory that a plan uses for blocks and recent epochs.
func (p *Plan) MemoryBytes() int64 {
	bytes := 8 * int64(len(p.blocks.starts)+len(p.owners))
	if p.windows != nil {
		lists := 1
		if p.costs != nil {
			lists += len(p.costs.Present())
		}
		bytes += int64(len(p.windows.recent)*lists) * 8 * (p.blocks.count() + 1)
	}
	return bytes
}
