package shard

import "math"

// fit computes edge values such that every leaf reaches its target, or comes as close to it
// from below as the edges allow. An edge carries f/(1+f), where f is the product of its leaves'
// factors, so its value is always between 0 and 1. The factors of the two sides are improved in
// turn. With a shuffled order a few rounds are exact.
type fit struct {
	*keepGraph
	edges  []int32
	target []float64 // by leaf
	factor []float64
	trim   []float64 // scales what an edge carries; by leaf

	total []float64 // sum of what the leaf's edges carry
	slope []float64 // derivative of total by the logarithm of the factor
}

const (
	fitRounds    = 40
	fitTolerance = 1e-12 // relative to a target, and to 1
	mostFactor   = 1e15  // if an edge has to carry 1, no factor suffices
)

func newFit(g *keepGraph, edges []int32, target []float64) *fit {
	leaves := len(target)
	f := &fit{
		keepGraph: g, edges: edges, target: target,
		factor: take[float64](g.scratch, leaves), trim: take[float64](g.scratch, leaves),
		total: take[float64](g.scratch, leaves), slope: take[float64](g.scratch, leaves),
	}
	for leaf := range leaves {
		f.factor[leaf], f.trim[leaf] = 1, 1
	}
	return f
}

func (f *fit) free() {
	for _, list := range [][]float64{f.factor, f.trim, f.total, f.slope} {
		give(f.scratch, list)
	}
}

// carries is the value of edge i of the list. Products are rounded before they are added to
// anything, so that every CPU computes the same result.
func (f *fit) carries(i int) float64 {
	t, h := f.tail[f.edges[i]], f.head[f.edges[i]]
	both := float64(f.factor[t] * f.factor[h])
	return float64(both / (1 + both) * f.trim[t] * f.trim[h])
}

// run computes the factors.
func (f *fit) run() {
	now, leaves := f.now.leaves(), len(f.target)
	f.add()
	for range fitRounds {
		f.improve(0, now)
		f.add()
		f.improve(now, leaves)
		f.add()
		if f.reachedAll() {
			return
		}
	}
	f.cut(0, now)
	f.add()
	f.cut(now, leaves)
	f.add()
}

// add sums what the edges of each leaf carry.
func (f *fit) add() {
	clear(f.slope)
	clear(f.total)
	for i, edge := range f.edges {
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

// improve moves the leaves of one side closer to their targets, by a step of Newton's method
// that is limited in length because it cannot always be trusted.
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

// cut scales down leaves of one side that exceed their targets.
func (f *fit) cut(from, to int) {
	for leaf := from; leaf < to; leaf++ {
		if f.total[leaf] > f.target[leaf] && !f.reached(leaf) {
			f.trim[leaf] = f.target[leaf] / f.total[leaf]
		}
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
