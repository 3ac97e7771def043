package keep

import "math"

// fit computes shares for some edges such that every leaf reaches its target, or comes as close
// to it from below as the edges allow. An edge carries f/(1+f), where f is the product of its
// leaves' factors, so its value is always between 0 and 1. The factors of the two sides are
// improved in turn. With a shuffled order a few rounds are exact.
type fit struct {
	*graph
	list   []int32   // the edges
	base   []float64 // what the other edges of a leaf carry
	target []float64 // by leaf
	factor []float64
	scale  []float64 // at most 1: scales what an edge carries; by leaf

	total []float64 // what all edges of the leaf carry
	slope []float64 // derivative of total by the logarithm of the factor

	*scratch
}

const (
	fitRounds    = 40
	fitTolerance = 1e-12 // relative to a target, and to 1
	mostFactor   = 1e15  // if an edge has to carry 1, no factor suffices
)

// newFit starts to fit the loose edges, while the others carry share each.
func newFit(g *graph, target []float64, share float64, s *scratch) *fit {
	f := &fit{graph: g, target: target, scratch: s}
	for _, list := range []*[]float64{&f.base, &f.factor, &f.scale, &f.total, &f.slope} {
		*list = take[float64](f.scratch, g.leaves())
	}
	for leaf, edges := range g.edges {
		f.base[leaf], f.factor[leaf], f.scale[leaf] = share*float64(edges), 1, 1
	}
	for edge, head := range g.head {
		if edge&checkMask == 0 {
			f.check()
		}
		if head >= 0 && has(g.loose, edge) {
			f.list = push(f.scratch, f.list, int32(edge))
			f.base[g.tail[edge]] -= share
			f.base[head] -= share
		}
	}
	return f
}

// carries is the value of edge i of the list. Products are rounded before they are added to
// anything, so that every CPU computes the same result.
func (f *fit) carries(i int) float64 {
	t, h := f.tail[f.list[i]], f.head[f.list[i]]
	both := float64(f.factor[t] * f.factor[h])
	return float64(both / (1 + both) * f.scale[t] * f.scale[h])
}

// run computes the factors, and says whether all targets were reached.
func (f *fit) run() bool {
	f.add()
	for range fitRounds {
		for side := range f.steps {
			f.improve(f.first[side], f.first[side+1])
			f.add()
		}
		if f.reachedAll() {
			return true
		}
	}
	return false
}

// add sums what the edges of each leaf carry.
func (f *fit) add() {
	clear(f.slope)
	copy(f.total, f.base)
	for i, edge := range f.list {
		if i&checkMask == 0 {
			f.check()
		}
		t, h := f.tail[edge], f.head[edge]
		share := f.carries(i)
		f.total[t] += share
		f.total[h] += share
		slope := float64(share * (1 - share))
		f.slope[t] += slope
		f.slope[h] += slope
	}
}

// improve moves leaves closer to their targets, by a step of Newton's method that is limited in
// length because it cannot always be trusted.
func (f *fit) improve(from, to int) {
	for leaf := from; leaf < to; leaf++ {
		by := (f.target[leaf] - f.total[leaf]) / max(f.slope[leaf], 1e-300)
		if by > 0 {
			f.factor[leaf] = min(f.factor[leaf]*(1+min(by, 6)), mostFactor)
		} else {
			f.factor[leaf] = max(f.factor[leaf]/(1+min(-by, 6)), 1/mostFactor)
		}
	}
}

// cut scales down all edges of leaves that exceed their targets.
func (f *fit) cut() {
	for side := range f.steps {
		for leaf := f.first[side]; leaf < f.first[side+1]; leaf++ {
			if f.total[leaf] > f.target[leaf] && !f.reached(leaf) {
				f.scale[leaf] = f.target[leaf] / f.total[leaf]
			}
		}
		f.add()
	}
}

// reached says whether a leaf has its target.
func (f *fit) reached(leaf int) bool {
	return math.Abs(f.total[leaf]-f.target[leaf]) <= fitTolerance*(1+f.target[leaf])
}

func (f *fit) reachedAll() bool {
	for leaf := range f.target {
		if !f.reached(leaf) {
			return false
		}
	}
	return true
}
