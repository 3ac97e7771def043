package shard

import "math/bits"

// choose marks the chosen edges.
func (g *keepGraph) choose(ratio float64, c *coin) {
	p, q := fraction(ratio, maxDenominator)
	switch {
	case p == 0 || len(g.tail) == 0:
	case p == q:
		for edge := range g.tail {
			g.keep(int32(edge))
		}
	case g.even() || !g.chooseUneven(ratio, c):
		clear(g.chosen)
		g.chooseEven(p, q, c)
	}
}

// chooseEven chooses p/q of the candidates of every batch.
func (g *keepGraph) chooseEven(p, q uint64, c *coin) {
	n := network{nodes: g.nodes(), scratch: g.scratch}
	defer n.free()
	g.halve(&n, nil, p, q, c)
	sums(g, g.now.edges, g.next.edges, func(tail, head int32, edges uint64) {
		if _, value := mulDiv(p, edges, q); value > 0 {
			n.add(tail, head, -1, value)
		}
	})
	// Fine enough, because no arc is closer than 1/q to a whole number.
	n.precision = uint(bits.Len(uint(len(n.value))) + bits.Len64(q) + 1)
	n.refine(q, c)
	if !n.balance() {
		panic("shard: the rounding errors of a circulation exceed their bound")
	}
	n.round(c)
	g.keepWhole(&n)
}

// keepWhole marks the edges that carry 1.
func (g *keepGraph) keepWhole(n *network) {
	for i, edge := range n.edge {
		if edge >= 0 && n.value[i] == n.one() {
			g.keep(edge)
		}
	}
}
