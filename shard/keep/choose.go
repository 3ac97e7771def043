package keep

import "math"

// choose marks the chosen edges.
//
// If no batch lacks candidates, every edge carries the ratio. Otherwise most edges can still
// carry one share, the mean, and be halved fast, if a few loose edges at each leaf compensate
// for the excess or deficit; if not, all edges are loose.
func (g *graph) choose(ratio float64, c *coin) {
	if g.even() {
		g.round(ratio, nil, c)
		return
	}
	target := g.targets(ratio)
	share := g.meanShare(target)
	enough := g.loosen(target, share, c)
	s := g.nested()
	defer s.end()
	f := newFit(g, target, share, s)
	if !enough || !f.run() {
		s.end()
		for i := range g.loose {
			g.loose[i] = math.MaxUint64
		}
		share = 0
		f = newFit(g, target, share, s)
		if !f.run() {
			f.cut()
		}
	}
	g.round(share, f, c)
}

// even says whether every leaf has as many candidates as valid slots, or none at all.
func (g *graph) even() bool {
	for leaf, edges := range g.edges {
		if edges != g.valid[leaf] && edges != 0 {
			return false
		}
	}
	return true
}

// targets returns how many edges of each leaf to choose: the ratio of its valid slots, but at
// most the number of its edges. If one side could choose more of a class than the other, it is
// scaled down to the other's total.
func (g *graph) targets(ratio float64) []float64 {
	target := take[float64](g.scratch, g.leaves())
	var all [2][mostClasses]float64
	for leaf := range target {
		target[leaf] = min(float64(ratio*float64(g.valid[leaf])), float64(g.edges[leaf]))
		all[g.side(leaf)][leaf%g.classes] += target[leaf]
	}
	for leaf := range target {
		side, class := g.side(leaf), leaf%g.classes
		if here, there := all[side][class], all[1-side][class]; here > there {
			target[leaf] *= there / here
		}
	}
	return target
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

// loosen picks loose edges: a few everywhere, and all edges of a leaf where a few may not be
// enough to make up for what the others carry. It says whether most edges are not loose.
func (g *graph) loosen(target []float64, share float64, c *coin) bool {
	if share == 0 || share == 1 {
		return false
	}
	edges, loose := 0, 0
	for _, n := range g.edges[:g.first[next]] {
		edges += int(n)
	}
	poor := func(leaf int32) bool {
		excess := float64(share*float64(g.edges[leaf])) - target[leaf]
		return math.Abs(excess) > looseEdges/2*min(share, 1-share)
	}
	every := max(1, 2*edges/(looseEdges*len(target)))
	skip := int(c.numbers.Uint64() % uint64(every))
	for edge, head := range g.head {
		if edge&checkMask == 0 {
			g.check()
		}
		if head < 0 {
			continue
		}
		if skip == 0 || poor(g.tail[edge]) || poor(head) {
			g.loose[edge/64] |= 1 << (edge % 64)
			loose++
		}
		skip = (skip + every - 1) % every
	}
	return edges > 2*loose
}

// attempts bounds how often all edges are rounded, in case of bad luck; see network.round.
const attempts = 8

// round chooses edges, each with the probability that it carries: the share, or what a fit says
// for loose edges. The fit is nil if there are none.
func (g *graph) round(share float64, f *fit, c *coin) {
	for range attempts {
		clear(g.chosen)
		if g.roundOnce(share, f, c) {
			return
		}
	}
}

func (g *graph) roundOnce(share float64, f *fit, c *coin) bool {
	all := units(share)
	n := network{nodes: g.nodes(), near: one >> 24, scratch: g.nested()}
	defer n.end()
	carried := take[uint64](n.scratch, g.leaves())
	for leaf, edges := range g.edges {
		carried[leaf] = uint64(edges) * all
	}
	if f != nil {
		g.addLoose(&n, f, carried, all)
	}
	g.halve(&n, all, c)
	g.addSums(&n, carried)
	good := n.round(c)
	for i, edge := range n.edge {
		if edge >= 0 && n.value[i] == one {
			g.keep(edge)
		}
	}
	return good
}

// addLoose adds the loose edges to a network, and the difference that they make to a leaf.
func (g *graph) addLoose(n *network, f *fit, carried []uint64, share uint64) {
	for i, edge := range f.list {
		value := units(f.carries(i))
		if value == one {
			g.keep(edge)
		}
		n.add(g.tail[edge], g.head[edge], edge, value)
		carried[g.tail[edge]] += value - share
		carried[g.head[edge]] += value - share
	}
}

// units converts a number to units.
func units(x float64) uint64 { return uint64(math.Round(math.Ldexp(x, precision))) }
