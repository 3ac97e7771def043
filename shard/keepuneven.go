package shard

import "math"

// Where batches lack candidates, what edges carry is no simple fraction. It is exact to
// 2^-unevenPrecision, and what lies within unevenNear of those units of a whole
// number counts as whole.
const (
	unevenPrecision   = 40
	unevenNear        = 1 << 12
	unevenDenominator = 1 << 12
)

// looseEdges is how many edges of a leaf, about, make up for what the others lack.
const looseEdges = 24

// chooseUneven chooses as many candidates of every batch as it would have if it lacked
// none, or as near to that as it can. It fails where it cannot make a circulation of
// what its edges should carry.
//
// Most edges may carry one simple fraction, as where all is even, and be halved fast,
// if a few loose ones at each leaf make up for what is then too much or too little.
func (g *keepGraph) chooseUneven(ratio float64, c *coin) bool {
	target := g.targets(ratio)
	defer func() { give(g.scratch, target) }()
	p, q := fraction(g.meanShare(target), unevenDenominator)
	if p > 0 && p < q {
		fixed, loose := g.loosen(target, float64(p)/float64(q), c)
		done := len(fixed) > len(loose) && g.chooseLoose(target, fixed, loose, p, q, c)
		give(g.scratch, fixed)
		give(g.scratch, loose)
		if done {
			return true
		}
		clear(g.chosen)
	}
	all := g.all()
	defer func() { give(g.scratch, all) }()
	return g.chooseLoose(target, all[:0], all, 0, 1, c)
}

// all is every edge.
func (g *keepGraph) all() []int32 {
	all := take[int32](g.scratch, len(g.tail))
	for i := range all {
		all[i] = int32(i)
	}
	return all
}

// targets is how many edges of each leaf are to be chosen: the ratio of its valid slots,
// though not more than it has edges. The side that could have more of a class takes only
// its share of what the other can.
func (g *keepGraph) targets(ratio float64) []float64 {
	target := take[float64](g.scratch, g.leaves())
	now, next := target[:g.now.leaves()], target[g.now.leaves():]
	for class := range g.now.classes {
		a, b := g.now.setTargets(ratio, class, now), g.next.setTargets(ratio, class, next)
		if a > b {
			g.now.scale(class, now, b/a)
		} else if b > a {
			g.next.scale(class, next, a/b)
		}
	}
	return target
}

func (s *keepSide) setTargets(ratio float64, class int, target []float64) (all float64) {
	for leaf := class; leaf < len(target); leaf += s.classes {
		target[leaf] = min(ratio*float64(s.valid[leaf]), float64(s.edges[leaf]))
		all += target[leaf]
	}
	return all
}

func (s *keepSide) scale(class int, target []float64, by float64) {
	for leaf := class; leaf < len(target); leaf += s.classes {
		target[leaf] *= by
	}
}

// meanShare is what an edge carries on average.
func (g *keepGraph) meanShare(target []float64) float64 {
	all := 0.0
	for _, t := range target[:g.now.leaves()] {
		all += t
	}
	return all / float64(len(g.tail))
}

// loosen parts the edges in those that carry one share, and those that make up for it: a few
// everywhere, and all where a few may not be enough.
func (g *keepGraph) loosen(target []float64, share float64, c *coin) (fixed, loose []int32) {
	enough := looseEdges / 2 * min(share, 1-share)
	poor := func(leaf int32) bool {
		return math.Abs(target[leaf]-float64(share*float64(g.edgesAt(int(leaf))))) > enough
	}
	every := max(1, 2*len(g.tail)/(looseEdges*len(target)))
	next := int(c.below(uint64(every)))
	for edge := range g.tail {
		if edge&checkMask == 0 {
			g.check()
		}
		if edge == next {
			next += every
			loose = push(g.scratch, loose, int32(edge))
		} else if poor(g.tail[edge]) || poor(g.head[edge]) {
			loose = push(g.scratch, loose, int32(edge))
		} else {
			fixed = push(g.scratch, fixed, int32(edge))
		}
	}
	return fixed, loose
}

// chooseLoose fits what the loose edges carry to the targets, less the p/q that each of the fixed
// ones does.
func (g *keepGraph) chooseLoose(target []float64, fixed, loose []int32, p, q uint64, c *coin) bool {
	base, rest := take[float64](g.scratch, len(target)), take[float64](g.scratch, len(target))
	defer func() {
		give(g.scratch, base)
		give(g.scratch, rest)
	}()
	for i, edge := range fixed {
		if i&checkMask == 0 {
			g.check()
		}
		base[g.tail[edge]]++
		base[g.head[edge]]++
	}
	for leaf := range base { // what the fixed ones carry
		base[leaf] = base[leaf] * float64(p) / float64(q)
		rest[leaf] = target[leaf] - base[leaf]
	}
	f := newFit(g, loose, rest)
	defer f.free()
	f.run()
	if len(fixed) > 0 && !f.reachedAll() {
		return false
	}
	n := network{nodes: g.nodes(), precision: unevenPrecision, scratch: g.scratch}
	defer n.free()
	g.halve(&n, fixed, p, q, c)
	n.refine(q, c)
	g.addLoose(&n, f, base)
	if !n.balance() {
		return false
	}
	n.round(c)
	g.keepWhole(&n)
	return true
}

// addLoose adds the loose edges to a network, and all arcs that are no edges.
func (g *keepGraph) addLoose(n *network, f *fit, base []float64) {
	carried := take[uint64](g.scratch, len(base)) // by leaf
	defer func() { give(g.scratch, carried) }()
	for i, edge := range f.edges {
		if i&checkMask == 0 {
			g.check()
		}
		value := units(f.carries(i))
		switch {
		case value < unevenNear:
			continue
		case value > n.one()-unevenNear:
			value = n.one()
			g.keep(edge)
		default:
			n.add(g.tail[edge], g.head[edge], edge, value)
		}
		carried[g.tail[edge]] += value
		carried[g.head[edge]] += value
	}
	for leaf := range carried {
		carried[leaf] += units(base[leaf])
		if f.reached(leaf) {
			carried[leaf] = units(base[leaf] + f.target[leaf])
		}
	}
	sums(g, carried[:g.now.leaves()], carried[g.now.leaves():], func(tail, head int32, sum uint64) {
		if value := sum & (n.one() - 1); value >= unevenNear && value <= n.one()-unevenNear {
			n.add(tail, head, -1, value)
		}
	})
}

// units is a number in units of 2^-unevenPrecision.
func units(x float64) uint64 { return uint64(math.Round(math.Ldexp(x, unevenPrecision))) }
