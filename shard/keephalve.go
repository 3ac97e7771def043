package shard

// halving is what it takes to halve edges.
type halving struct {
	*keepGraph
	*trails
	*forest
	degree []int32  // by leaf
	out    []uint64 // a bit for each edge; set for those that are being taken out
}

// halve makes edges whole that carry p/q each, 0 < p < q, as the comment of Keep explains;
// the list is used up. It adds the others to a network, with what they carry in
// units of 1/q.
func (g *keepGraph) halve(n *network, edges []int32, p, q uint64, c *coin) {
	chunk := max(chunkEdges, 8*g.leaves())
	h := halving{
		keepGraph: g,
		trails:    newTrails(g.leaves(), min(len(edges), chunk), c),
		forest:    newForest(g.leaves()),
		degree:    make([]int32, g.leaves()),
		out:       make([]uint64, len(g.chosen)),
	}
	for len(edges) > 0 {
		doubled, whole := 2*p, false
		if doubled >= q {
			doubled, whole = doubled-q, true
		}
		left, odd := h.round(edges, chunk, whole)
		for _, edge := range odd {
			n.add(g.tail[edge], g.head[edge], edge, p)
		}
		if doubled == 0 {
			break
		}
		edges, p = left, doubled
	}
}

// chunkEdges is how many edges are halved at a time: so few that what this takes stays in
// a processor's cache, where leaves have many edges.
const chunkEdges = 1 << 16

// round halves edges, which all carry the same: what turns up is whole then, or what turns
// down nothing. It returns the other kind, in the memory of the list, and the edges that
// had to be taken out; those of several chunks are halved together, once more.
func (h *halving) round(edges []int32, chunk int, whole bool) (left, odd []int32) {
	left = edges[:0]
	for {
		odd = nil
		for rest := edges; len(rest) > 0; {
			some := rest[:min(len(rest), chunk)]
			rest = rest[len(some):]
			some, odd = h.makeEven(some, odd)
			h.trails.find(h.tail, h.head, some)
			left = h.divide(some, left, whole)
		}
		if len(edges) <= chunk || len(odd) > len(edges)/2 {
			return left, odd
		}
		edges = odd
	}
}

// divide appends the edges that are not whole to left.
func (h *halving) divide(edges, left []int32, whole bool) []int32 {
	if !whole { // down carries nothing now
		for i, edge := range edges {
			if h.turned(i) == up {
				left = append(left, edge)
			}
		}
		return left
	}
	for i, edge := range edges {
		if h.turned(i) == up {
			h.keep(edge)
		} else {
			left = append(left, edge)
		}
	}
	return left
}

// makeEven takes edges out, the fewest that a forest allows, so that every leaf has an even
// number of them. It returns the others, in the memory of the list, and appends those to odd.
func (h *halving) makeEven(edges, odd []int32) (even, all []int32) {
	clear(h.degree)
	before := len(odd)
	for _, edge := range edges {
		h.degree[h.tail[edge]]++
		h.degree[h.head[edge]]++
	}
	joined := 0
	for _, degree := range h.degree {
		if degree > 0 {
			joined++
		}
	}
	h.forest.clear()
	h.span(h.tail, h.head, edges, joined-1)
	h.peel(h.tail, h.head, func(leaf, edge, other int32) {
		if h.degree[leaf]%2 != 0 {
			h.degree[other]++
			h.out[edge/64] |= 1 << (edge % 64)
			odd = append(odd, edge)
		}
	})
	even = edges[:0]
	for _, edge := range edges {
		if h.out[edge/64]>>(edge%64)&1 == 0 {
			even = append(even, edge)
		}
	}
	for _, edge := range odd[before:] {
		h.out[edge/64] = 0
	}
	return even, odd
}
