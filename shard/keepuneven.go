package shard

import "math"

// If batches lack candidates, edges carry values that are no simple fractions. They are exact
// to 2^-unevenPrecision, and a value within unevenNear such units of a whole number counts as
// whole.
const (
	unevenPrecision   = 40
	unevenNear        = 1 << 12
	unevenDenominator = 1 << 12
)

// looseEdges is the approximate number of edges per leaf that compensate for the others.
const looseEdges = 24

// chooseUneven chooses from every batch as many candidates as if none were lacking, or as close
// to that as possible. It fails if it cannot make a circulation of the edges' values.
//
// Most edges can carry the same simple fraction, as in the even case, and be halved fast, if a
// few loose edges at each leaf compensate for the excess or deficit.
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

// all lists every edge.
func (g *keepGraph) all() []int32 {
	all := take[int32](g.scratch, len(g.tail))
	for i := range all {
		all[i] = int32(i)
	}
	return all
}

// targets returns how many edges of each leaf to choose: the ratio of its valid slots, but at
// most the number of its edges. If one side could choose more of a class than the other, it is
// scaled down to the other's total.
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

// meanShare is the average value of an edge.
func (g *keepGraph) meanShare(target []float64) float64 {
	all := 0.0
	for _, t := range target[:g.now.leaves()] {
		all += t
	}
	return all / float64(len(g.tail))
}

// loosen splits the edges into fixed ones, which carry share, and loose ones, which compensate:
// a few everywhere, and all edges of a leaf where a few may not be enough.
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

// chooseLoose fits the values of the loose edges to the targets, less the p/q that each fixed
// edge carries.
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
	for leaf := range base { // what the fixed edges carry
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

// addLoose adds the loose edges to a network, and all arcs that are not edges.
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

// units converts a number to units of 2^-unevenPrecision.
func units(x float64) uint64 { return uint64(math.Round(math.Ldexp(x, unevenPrecision))) }
