package keep

import (
	"math"

	"github.com/batchfs/batchfs/shard"
)

// choose marks the chosen edges.
//
// If no batch lacks candidates, every edge carries the ratio. Otherwise most edges can still
// carry one share, the mean, and be halved fast, if a few loose edges at each leaf compensate
// for the excess or deficit; if not, all edges are loose.
func (g *graph) choose(ratio float64, c *coin) {
	share := ratio
	if !g.even() {
		target := g.targets(ratio)
		share = g.meanShare(target)
		g.loosen(target, share, c)
		if !g.fit(target, share) {
			g.every, g.offset = 1, 0
			g.fit(target, share)
		}
	}
	// All edges are rounded again in case of bad luck; see network.round.
	for range 8 {
		clear(g.chosen)
		if g.round(units(share), c) {
			return
		}
	}
}

// even says whether every leaf has either no candidates or as many as valid slots, and every leaf
// may get its full share.
func (g *graph) even() bool {
	for leaf, edges := range g.edges {
		if edges != 0 && (edges != g.valid[leaf] || g.packed > 0) {
			return false
		}
	}
	return true
}

// targets returns how many edges of each leaf to choose: the ratio of its valid slots, but at most
// the number of its edges. If one side could choose more of a cost than the other, it is scaled
// down to the other's total.
func (g *graph) targets(ratio float64) []float64 {
	target := zeros[float64](g.scratch, g.leaves())
	for leaf := range target {
		target[leaf] = min(float64(ratio*float64(g.valid[leaf])), float64(g.edges[leaf]))
	}
	var all [2][shard.NumCosts]float64
	for leaf := range target {
		all[g.side(leaf)][g.cost(leaf)] += target[leaf]
	}
	for leaf := range target {
		side, cost := g.side(leaf), g.cost(leaf)
		if here, there := all[side][cost], all[1-side][cost]; here > there {
			target[leaf] *= there / here
		}
	}
	if g.packed > 0 {
		for batch := g.first[next]; batch < len(target); batch += g.kinds {
			encoded, packed := batch+int(g.leaf[shard.Encoded]), batch+int(g.packed)
			g.divide(target, encoded, packed, target[packed])
		}
	}
	return target
}

// cost numbers the costs of leaves.
func (g *graph) cost(leaf int) int {
	if kind := leaf % g.kinds; g.packed == 0 || kind != int(g.packed) {
		return kind
	}
	return int(g.leaf[shard.Encoded])
}

// divide divides a batch's choice of the lowest cost into samples that are packed already and
// others. In the next epoch, packed ones are reduced to the batch's share, provided that others can
// make up for them.
func (g *graph) divide(target []float64, encoded, packed int, want float64) {
	both := target[encoded] + target[packed]
	if g.side(packed) == next {
		others := float64((3 + g.config.Ratio) / 4 * float64(g.edges[encoded]))
		want = min(want, max(float64(g.config.PackedShare*both), both-others))
	}
	target[encoded], target[packed] = both-want, want
}

// meanShare is the average value of an edge, in whole units.
func (g *graph) meanShare(target []float64) float64 {
	all, edges := 0.0, int64(0)
	for leaf, t := range target[:g.first[next]] {
		all += t
		edges += int64(g.edges[leaf])
	}
	return float64(units(all/float64(edges))) / float64(one)
}

// looseEdges is the approximate number of loose edges per leaf.
const looseEdges = 24

// loosen picks loose edges: a few everywhere, and all edges of a leaf if a few may not compensate
// for what the others carry.
func (g *graph) loosen(target []float64, share float64, c *coin) {
	g.every = uint32(max(1, 2*len(g.head)/(looseEdges*len(target))))
	g.offset = uint32(c.numbers.Uint64() % uint64(g.every))
	g.poor = zeros[int32](g.scratch, g.leaves())
	for leaf, edges := range g.edges {
		excess, some := float64(share*float64(edges))-target[leaf], float64(looseEdges)
		if g.packed > 0 { // some leaves are much smaller than others
			some = min(some, float64(edges)/float64(g.every))
		}
		if math.Abs(excess) > float64(some/2*min(share, 1-share)) {
			g.poor[leaf] = 1
		}
	}
}

// isLoose says whether an edge carries a share of its own.
func (g *graph) isLoose(edge int) bool {
	return g.every > 0 && (uint32(edge)%g.every == g.offset || g.poor[g.tail[edge]]|g.poor[g.head[edge]] != 0)
}

// round chooses edges, each with the probability that it carries: the fitted value for loose edges,
// the share for the others.
func (g *graph) round(share uint64, c *coin) bool {
	n := network{nodes: g.nodes(), near: one >> 24, scratch: g.nested()}
	defer n.end()
	carried := zeros[uint64](n.scratch, g.leaves())
	for leaf, edges := range g.edges {
		carried[leaf] = uint64(edges) * share
	}
	for i, edge := range g.loose {
		value := units(g.value[i])
		if value == one {
			g.keep(edge)
		}
		n.add(g.tail[edge], g.head[edge], edge, value)
		carried[g.tail[edge]] += value - share
		carried[g.head[edge]] += value - share
	}
	g.halve(&n, share, c)
	g.addSums(&n, carried)
	good := n.round(c)
	for i, edge := range n.edge {
		if edge >= 0 && n.value[i] == one {
			g.keep(edge)
		}
	}
	return good
}

// units converts a number to units.
func units(x float64) uint64 { return uint64(math.Round(math.Ldexp(x, precision))) }
