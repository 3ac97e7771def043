package keep

import "github.com/batchfs/batchfs/shard"

// The two epochs of a graph.
const (
	now  = 0
	next = 1
)

// graph is the bipartite multigraph of two consecutive epochs.
//
// A leaf is the samples of one cost in one batch. In lock step, batch i of every local shard
// makes up step i. The leaves of both epochs are numbered together in that order, those of the
// next epoch last.
type graph struct {
	plan    *shard.Plan
	epoch   int
	config  Config
	costs   int                   // how many of them occur: the leaves of a batch
	leaf    [shard.NumCosts]int32 // which of those the samples of a cost are
	batches [2]int                // steps
	first   [3]int                // the first leaf of now, of next, and the number of leaves

	valid, edges []int32 // valid slots and candidates, by leaf

	// What now reads, in order: tail is the leaf in now, and head the leaf in next. A head of -1
	// says that the sample is not a candidate; the others are the edges, numbered with gaps.
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
		g.leaf[cost] = int32(g.costs)
		g.costs++
	}
	for side := range g.batches {
		g.batches[side] = p.Batches(c.LocalFrom, epoch+side)
		g.first[side+1] = g.first[side] + g.batches[side]*(c.LocalTo-c.LocalFrom)*g.costs
	}
	g.valid, g.edges = take[int32](s, g.leaves()), take[int32](s, g.leaves())

	// reader is the leaf that first reads a sample in the next epoch, plus 1; 0 if there is
	// none or its edge already exists.
	reader := take[int32](s, int(samples))
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
	g.tail, g.head = take[int32](s, reads)[:0], take[int32](s, reads)[:0]
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
	g.chosen = take[uint64](s, words(reads))
	return g
}

// eachRead visits the valid slots of an epoch in lock step, and counts them.
func (g *graph) eachRead(side int, read func(leaf int32, id int64)) {
	slots := take[shard.Slot](g.scratch, g.plan.Config().BatchSize)
	defer give(g.scratch, slots)
	first, since, costs := int32(g.first[side]), 0, g.plan.Config().Costs
	clear(g.valid[first:g.first[side+1]])
	for i := range g.batches[side] {
		for x := g.config.LocalFrom; x < g.config.LocalTo; x++ {
			batch, valid := g.plan.Batch(x, g.epoch+side, i, slots)
			if since += len(batch); since > checkMask {
				since = 0
				g.check()
			}
			for _, slot := range batch[:valid] {
				leaf := first + g.leaf[costs.Of(slot.ID)]
				g.valid[leaf]++
				read(leaf, slot.ID)
			}
			first += int32(g.costs)
		}
	}
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
	return k
}

// nodes counts the leaves and the nodes above them.
func (g *graph) nodes() int {
	nodes := g.leaves() + g.batches[now] + g.batches[next]
	if g.costs > 1 {
		nodes += g.leaves() / g.costs
	}
	return nodes
}

// addSums adds every arc that is not an edge to a network: the sum of what the leaves below it
// carry. These arcs run from each leaf to its batch (with several costs), from each batch to its
// step, from each step to the next, and from the last step of the next epoch to the last step
// of this one, which closes the circulation. On this epoch's side they run in the opposite
// direction.
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
				if g.costs > 1 {
					batch = node
					node++
				}
				for range g.costs {
					add(leaf, batch, carried[leaf])
					sum += carried[leaf]
					leaf++
				}
				if g.costs > 1 {
					add(batch, step, sum)
				}
				total += sum
			}
		}
	}
	n.add(last[next], last[now], -1, total)
}
