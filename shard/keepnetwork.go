package shard

import "math/bits"

// network is a set of arcs with values from 0 to 1, in multiples of 2^-precision. Arcs with
// whole values may be left out, so it is a circulation if the inflow and the outflow of every
// node differ by a whole number.
type network struct {
	nodes     int
	precision uint

	tail, head []int32
	value      []uint64
	edge       []int32 // the number of an edge; -1 for other arcs

	*scratch
}

func (n *network) add(tail, head, edge int32, value uint64) {
	if len(n.value)&checkMask == 0 {
		n.check()
	}
	n.tail, n.head = push(n.scratch, n.tail, tail), push(n.scratch, n.head, head)
	n.value, n.edge = push(n.scratch, n.value, value), push(n.scratch, n.edge, edge)
}

func (n *network) free() {
	give(n.scratch, n.tail)
	give(n.scratch, n.head)
	give(n.scratch, n.value)
	give(n.scratch, n.edge)
}

// one is the number 1, in the units of the values.
func (n *network) one() uint64 { return 1 << n.precision }

// refine converts values from units of 1/q to multiples of 2^-precision. It rounds down or up
// at random, so that expectations are preserved.
func (n *network) refine(q uint64, c *coin) {
	for i, value := range n.value {
		if i&checkMask == 0 {
			n.check()
		}
		high, low := bits.Mul64(value, n.one())
		units, rest := bits.Div64(high, low, q)
		if rest > 0 && c.below(q) < rest {
			units++
		}
		n.value[i] = units
	}
}

// balance turns a network that is a circulation except for small errors into a circulation. It
// changes only arcs of a spanning forest: starting at the forest's leaves, each arc corrects
// what its node lacks. It fails if an arc would have to carry less than 0 or more than 1, so it
// prefers arcs that are far from both.
func (n *network) balance() bool {
	far, near := take[int32](n.scratch, len(n.value))[:0], []int32(nil)
	defer func() {
		give(n.scratch, far)
		give(n.scratch, near)
	}()
	for i, value := range n.value {
		if margin := n.one() / 16; value >= margin && value <= n.one()-margin {
			far = append(far, int32(i))
		} else {
			near = push(n.scratch, near, int32(i))
		}
	}
	f := newForest(n.nodes, n.scratch)
	defer f.free()
	f.span(n.tail, n.head, far, n.nodes-1)
	f.span(n.tail, n.head, near, n.nodes-1)
	ok, lack := true, n.lacks()
	defer func() { give(n.scratch, lack) }()
	f.peel(n.tail, n.head, func(node, arc, other int32) {
		if n.head[arc] == node {
			n.value[arc] += lack[node]
		} else {
			n.value[arc] -= lack[node]
		}
		ok = ok && n.value[arc] <= n.one()
		lack[other] += lack[node]
		lack[node] = 0
	})
	for _, left := range lack {
		ok = ok && left == 0
	}
	return ok
}

// lacks returns how much the inflow of each node has to grow for the inflow minus the outflow
// to be a whole number.
func (n *network) lacks() []uint64 {
	lack := take[uint64](n.scratch, n.nodes)
	for i, value := range n.value {
		if i&checkMask == 0 {
			n.check()
		}
		lack[n.head[i]] += value
		lack[n.tail[i]] -= value
	}
	for v, net := range lack {
		lack[v] = (net+n.one()/2)&^(n.one()-1) - net
	}
	return lack
}

// round makes every arc of a circulation carry 0 or 1, bit by bit.
func (n *network) round(c *coin) {
	t, odd := newTrails(n.nodes, len(n.value), c, n.scratch), take[int32](n.scratch, len(n.value))
	defer func() {
		t.free()
		give(n.scratch, odd)
	}()
	for bit := range n.precision {
		odd = odd[:0]
		for i, value := range n.value {
			if value>>bit&1 != 0 {
				odd = append(odd, int32(i))
			}
		}
		t.find(n.tail, n.head, odd)
		for i, arc := range odd {
			if t.turned(i) == up {
				n.value[arc] += 1 << bit
			} else {
				n.value[arc] -= 1 << bit
			}
		}
	}
}
