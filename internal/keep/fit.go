package keep

import (
	"math"

	"github.com/batchfs/batchfs/shard"
)

// fit is the state of graph.fit. Its lists are by leaf.
type fit struct {
	*graph
	tolerance     float64   // relative to a target, and to 1
	target, total []float64 // what all edges should carry, and do carry
	base          []float64 // what edges that are not loose carry
	count         []float64 // number of loose edges
	scale, shift  []float64 // the next values of the loose edges are scale·value + shift
}

const (
	fitRounds    = 24
	fitTolerance = 1e-12
)

// fit computes what the loose edges must carry if all others carry the share, so that every leaf
// reaches its target, or comes as close to it from below as the edges allow. It says whether all
// targets are reached.
//
// The leaves of the two sides are corrected in turn. A leaf with too much scales down the values of
// its loose edges; one with too little scales down what they lack to 1. So a value is always
// between 0 and 1. With a shuffled order, a few rounds are exact.
func (g *graph) fit(target []float64, share float64) bool {
	s := g.nested()
	defer s.end()
	f := fit{graph: g, target: target, tolerance: fitTolerance}
	if g.packed > 0 {
		f.tolerance *= 16 // since dividing targets rounds them
	}
	for _, list := range []*[]float64{&f.base, &f.total, &f.count, &f.scale, &f.shift} {
		*list = zeros[float64](s, g.leaves())
	}
	f.list(share)
	for range fitRounds {
		if a, b := f.correct(now, true), f.correct(next, true); a && b {
			return true
		}
	}
	f.correct(now, false)
	f.correct(next, false)
	return false
}

// list lists the loose edges, with the share as their first values.
func (f *fit) list(share float64) {
	g := f.graph
	give(g.scratch, g.loose)
	give(g.scratch, g.value)
	g.loose, g.value = nil, nil
	for edge := range g.steps(len(g.head)) {
		if g.head[edge] >= 0 && g.isLoose(edge) {
			g.loose, g.value = push(g.scratch, g.loose, int32(edge)), push(g.scratch, g.value, share)
			f.count[g.tail[edge]]++
			f.count[g.head[edge]]++
		}
	}
	for leaf, edges := range g.edges {
		f.base[leaf], f.total[leaf] = float64(share*(float64(edges)-f.count[leaf])), float64(share*float64(edges))
	}
}

// correct corrects the leaves of a side, or without raise, only those with too much. It says
// whether all leaves of the side had already reached their targets.
func (f *fit) correct(side int, raise bool) (reached bool) {
	reached = true
	if f.packed > 0 {
		f.divideAll(side)
	}
	for leaf, target := range f.target {
		f.scale[leaf], f.shift[leaf] = 1, 0
		if f.side(leaf) != side || math.Abs(f.total[leaf]-target) <= f.tolerance*(1+target) {
			continue
		}
		reached = false
		want, have, most := target-f.base[leaf], f.total[leaf]-f.base[leaf], f.count[leaf]
		if want < have {
			if have > 0 { // otherwise, it has no loose edges
				f.scale[leaf] = max(want, 0) / have
			}
		} else if raise && have < most {
			f.scale[leaf] = max(most-want, 0) / (most - have)
			f.shift[leaf] = 1 - f.scale[leaf]
		}
	}
	if !reached {
		f.apply([2][]int32{f.tail, f.head}[side])
	}
	return reached
}

// divideAll divides the targets of batches between packed samples and others in their present
// proportion: only the sum of both is fixed.
func (f *fit) divideAll(side int) {
	for batch := f.first[side]; batch < f.first[side+1]; batch += f.kinds {
		encoded, packed := batch+int(f.leaf[shard.Encoded]), batch+int(f.packed)
		both, have := f.target[encoded]+f.target[packed], f.total[encoded]+f.total[packed]
		want := f.total[packed]
		if have > both {
			want = float64(want * both / have)
		} else if most := f.base[packed] + f.count[packed]; have < both {
			all := most + f.base[encoded] + f.count[encoded]
			want = most - float64((most-want)*max(0, all-both)/(all-have))
		}
		f.divide(f.target, encoded, packed, want)
	}
}

// apply changes the values of the loose edges as their leaves on one side require, and sums them.
// Products are rounded before anything is added to them, so that every CPU computes the same
// result.
func (f *fit) apply(leaf []int32) {
	copy(f.total, f.base)
	for i := range f.steps(len(f.loose)) {
		edge := f.loose[i]
		value := float64(f.value[i]*f.scale[leaf[edge]]) + f.shift[leaf[edge]]
		f.value[i] = value
		f.total[f.tail[edge]] += value
		f.total[f.head[edge]] += value
	}
}
