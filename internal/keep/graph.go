package keep

import (
	"math"

	"github.com/batchfs/batchfs/shard"
)

// The two epochs of a graph.
const (
	now  = 0
	next = 1
)

// perBatch describes the leaves of each batch.
type perBatch struct {
	kinds  int                   // number of leaves
	leaf   [shard.NumCosts]int32 // by cost: the leaf of its samples
	packed int32                 // the leaf of samples that are packed already; 0: none
}

// graph is the bipartite multigraph of two consecutive epochs.
//
// A leaf is the samples of one kind in one batch: samples of one cost, or samples that are packed
// already. In lock step, batch i of every local shard makes up step i. The leaves of both epochs
// are numbered together in that order, those of the next epoch last.
type graph struct {
	plan   *shard.Plan
	epoch  int
	config Config
	perBatch
	batches [2]int // steps
	first   [3]int // the first leaf of now, of next, and the number of leaves

	valid, edges []int32 // valid slots and candidates, by leaf

	// The samples that now reads, in order: tail is the leaf in now, and head the leaf in next. A
	// head of -1 says that the sample is not a candidate; the others are the edges, numbered with
	// gaps.
	tail, head []int32

	// Loose edges carry a share of their own: each edge whose remainder by every is the offset,
	// and all edges of poor leaves. There are none while every is 0.
	every, offset uint32
	poor          []int32   // by leaf: not 0
	loose         []int32   // the loose edges
	value         []float64 // what they carry

	chosen []uint64 // a bit for each edge

	*scratch
}

func (g *graph) leaves() int { return g.first[2] }

// side is the epoch of a leaf.
func (g *graph) side(leaf int) int {
	if leaf < g.first[next] {
		return now
	}
	return next
}

func (g *graph) keep(edge int32) { g.chosen[edge/64] |= 1 << (edge % 64) }

// has says whether a bit is set.
func has(words []uint64, bit int) bool { return words[bit/64]>>(bit%64)&1 != 0 }

// words is the number of words that hold that many bits.
func words(bits int) int { return (bits + 63) / 64 }

// newGraph finds the candidates.
func newGraph(p *shard.Plan, epoch int, c Config, s *scratch) *graph {
	g := &graph{plan: p, epoch: epoch, config: c, scratch: s}
	samples := p.Config().Samples
	for _, cost := range p.Config().Costs.Present() {
		g.leaf[cost] = int32(g.kinds)
		g.kinds++
	}
	if c.Packed != nil && c.PackedShare < 1 && p.Config().Costs.Present()[0] == shard.Encoded {
		g.packed = int32(g.kinds)
		g.kinds++
	}
	for side := range g.batches {
		g.batches[side] = p.Batches(c.LocalFrom, epoch+side)
		g.first[side+1] = g.first[side] + g.batches[side]*(c.LocalTo-c.LocalFrom)*g.kinds
	}
	g.valid, g.edges = zeros[int32](s, g.leaves()), zeros[int32](s, g.leaves())

	// reader is the leaf that first reads a sample in the next epoch, plus 1; 0 if there is none or
	// if its edge already exists.
	reader := zeros[int32](s, int(samples))
	defer give(s, reader)
	g.eachRead(next, func(leaf int32, id int64) {
		if reader[id] == 0 {
			reader[id] = leaf + 1
		}
	})
	reads := 0
	for x := c.LocalFrom; x < c.LocalTo; x++ {
		_, valid := p.Samples(x, epoch)
		reads += int(valid)
	}
	g.tail, g.head = zeros[int32](s, reads)[:0], zeros[int32](s, reads)[:0]
	g.eachRead(now, func(leaf int32, id int64) {
		head := reader[id] - 1
		if c.Except != nil && c.Except(id) {
			head = -1
		}
		if head >= 0 {
			g.edges[leaf]++
			g.edges[head]++
			reader[id] = 0
		}
		g.tail, g.head = append(g.tail, leaf), append(g.head, head)
	})
	g.chosen = zeros[uint64](s, words(reads))
	return g
}

// eachRead visits the valid slots of an epoch in lock step, and counts them.
func (g *graph) eachRead(side int, read func(leaf int32, id int64)) {
	slots := zeros[shard.Slot](g.scratch, g.plan.Config().BatchSize)
	defer give(g.scratch, slots)
	first, since := int32(g.first[side]), 0
	clear(g.valid[first:g.first[side+1]])
	for i := range g.batches[side] {
		for x := g.config.LocalFrom; x < g.config.LocalTo; x++ {
			batch, valid := g.plan.Batch(x, g.epoch+side, i, slots)
			if since += len(batch); since > checkMask {
				since = 0
				g.check()
			}
			for _, slot := range batch[:valid] {
				leaf := first + g.kind(slot.ID)
				g.valid[leaf]++
				read(leaf, slot.ID)
			}
			first += int32(g.kinds)
		}
	}
}

// kind says which leaf of its batch a sample belongs to.
func (g *graph) kind(id int64) int32 {
	cost := g.plan.Config().Costs.Of(id)
	if g.packed > 0 && cost == shard.Encoded && g.config.Packed(id) {
		return g.packed
	}
	return g.leaf[cost]
}

// collect records the samples of the chosen edges.
func (g *graph) collect() *Choice {
	samples := g.plan.Config().Samples
	k := &Choice{samples: samples, words: make([]uint64, words(int(samples)))}
	edge := 0
	g.eachRead(now, func(_ int32, id int64) {
		if g.head[edge] >= 0 {
			k.candidates++
			if has(g.chosen, edge) {
				k.words[id/64] |= 1 << (id % 64)
				k.kept++
			}
		}
		edge++
	})
	if g.config.Packed != nil || g.config.PackedShare > 0 {
		k.packed = make([]uint64, len(k.words))
		g.pack(k)
	}
	return k
}

// packing counts the hits of a batch that are or can be packed.
type packing struct {
	hits, packed int64 // all hits, and those that are packed already
	least, most  int64 // how many of the rest to pack, so that every batch has its share to within one
	pack, seen   int64 // how many of the rest to pack, and how many were seen so far
}

// pack chooses which of the kept samples are packed: those that already are, and as many others as
// batches of the next epoch lack, spread over the time in which this epoch reads them.
func (g *graph) pack(k *Choice) {
	batches := zeros[packing](g.scratch, (g.leaves()-g.first[next])/g.kinds)
	defer give(g.scratch, batches)
	g.eachPackable(k, batches, func(b *packing, _ int64, packed bool) {
		b.hits++
		if packed {
			b.packed++
		}
	})
	hits, packed, least, most := int64(0), int64(0), int64(0), int64(0)
	for i := range batches {
		b := &batches[i]
		share := float64(g.config.PackedShare * float64(b.hits))
		b.least, b.most = max(0, int64(share)-b.packed), max(0, int64(math.Ceil(share))-b.packed)
		hits, packed, least, most = hits+b.hits, packed+b.packed, least+b.least, most+b.most
	}
	// The total share is exact, so if some batches already have more, others get less.
	all := max(0, int64(g.config.PackedShare*float64(hits))-packed)
	if all < least {
		for i := range batches {
			b := &batches[i]
			b.least, b.most = 0, b.least
		}
		least, most = 0, least
	}
	extra, lack := min(all, most)-least, int64(0)
	for i := range batches {
		b, before := &batches[i], lack
		b.pack = b.least
		if lack += b.most - b.least; lack > before {
			b.pack += lack*extra/(most-least) - before*extra/(most-least)
		}
	}
	g.eachPackable(k, batches, func(b *packing, id int64, packed bool) {
		if rest := b.hits - b.packed; !packed {
			b.seen++
			packed = b.seen*b.pack/rest > (b.seen-1)*b.pack/rest
		}
		if packed {
			k.packed[id/64] |= 1 << (id % 64)
			k.packs++
		}
	})
}

// eachPackable visits the kept samples that are or can be packed, with their batch in the next
// epoch.
func (g *graph) eachPackable(k *Choice, batches []packing, visit func(b *packing, id int64, packed bool)) {
	edge, costs := 0, g.plan.Config().Costs
	g.eachRead(now, func(_ int32, id int64) {
		if head := int(g.head[edge]); head >= 0 && has(g.chosen, edge) && costs.Of(id) == shard.Encoded {
			visit(&batches[(head-g.first[next])/g.kinds], id, g.config.Packed != nil && g.config.Packed(id))
		}
		edge++
	})
}

// nodes counts the leaves and the nodes above them.
func (g *graph) nodes() int {
	nodes := g.leaves() + g.batches[now] + g.batches[next]
	if g.kinds > 1 {
		nodes += g.leaves() / g.kinds
	}
	return nodes
}

// addSums adds every arc that is not an edge to a network: the sum of what the leaves below it
// carry. These arcs run from each leaf to its batch (with several costs), from each batch to its
// step, from each step to the next, and from the last step of the next epoch to the last step of
// this one, which closes the circulation. Samples that are packed already draw on the leaf of the
// other samples of their cost. On this epoch's side the arcs run in the opposite direction.
func (g *graph) addSums(n *network, carried []uint64) {
	leaf, node := int32(0), int32(g.leaves())
	var last [2]int32
	var total uint64
	for side, steps := range g.batches {
		add := func(child, parent int32, sum uint64) {
			if side == now {
				child, parent = parent, child
			}
			n.add(child, parent, -1, sum)
		}
		total = 0
		for range steps {
			step := node
			node++
			if last[side] > 0 {
				add(last[side], step, total)
			}
			last[side] = step
			for range g.config.LocalTo - g.config.LocalFrom {
				batch, sum := step, uint64(0)
				if g.kinds > 1 {
					batch = node
					node++
				}
				encoded := leaf + g.leaf[shard.Encoded]
				for kind := range int32(g.kinds) {
					own := carried[leaf]
					if kind > 0 && kind == g.packed {
						add(leaf, encoded, own)
					} else {
						if leaf == encoded && g.packed > 0 {
							own += carried[encoded+g.packed]
						}
						add(leaf, batch, own)
						sum += own
					}
					leaf++
				}
				if g.kinds > 1 {
					add(batch, step, sum)
				}
				total += sum
			}
		}
	}
	n.add(last[next], last[now], -1, total)
}
