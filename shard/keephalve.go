package shard

// halving is the state of halving edges.
type halving struct {
	*keepGraph
	*trails
	*forest
	degree []int32  // by leaf
	out    []uint64 // a bit for each edge, set while the edge is being taken out
	odd    []int32  // edges that were taken out
	before []int32  // those of the chunks, while they are halved again
}

// halve makes edges whole that carry p/q each, 0 < p < q, as the comment of Keep explains. It
// takes the listed edges, and overwrites the list, or all edges if the list is nil. It adds the
// edges that stay fractional to a network, with their values in units of 1/q.
func (g *keepGraph) halve(n *network, edges []int32, p, q uint64, c *coin) {
	left := edges[:0] // the list is written only behind the reading position
	count := len(edges)
	if edges == nil {
		count = len(g.tail)
		left = take[int32](g.scratch, count/2+1)[:0] // at each leaf, as many edges turn up as down
		defer func() { give(g.scratch, left) }()
	}
	chunk := max(chunkEdges, 8*g.leaves())
	h := halving{
		keepGraph: g,
		trails:    newTrails(g.leaves(), min(count, chunk), c, g.scratch),
		forest:    newForest(g.leaves(), g.scratch),
		degree:    take[int32](g.scratch, g.leaves()),
		out:       take[uint64](g.scratch, len(g.chosen)),
	}
	defer h.free()
	for first := edges == nil; first || len(edges) > 0; first = false {
		doubled, whole := 2*p, false
		if doubled >= q {
			doubled, whole = doubled-q, true
		}
		if first {
			left = h.roundOfAll(left, chunk, whole)
		} else {
			left = h.round(edges, edges[:0], chunk, whole)
		}
		for _, edge := range h.odd {
			n.add(g.tail[edge], g.head[edge], edge, p)
		}
		if doubled == 0 {
			break
		}
		edges, p = left, doubled
	}
}

func (h *halving) free() {
	h.trails.free()
	h.forest.free()
	s := h.keepGraph.scratch
	give(s, h.degree)
	give(s, h.out)
	give(s, h.odd)
	give(s, h.before)
}

// chunkEdges is how many edges are halved at a time: few enough for the working memory to stay
// in the CPU cache, if leaves have many edges.
const chunkEdges = 1 << 16

// roundOfAll is round for all edges, which it lists chunk by chunk.
func (h *halving) roundOfAll(left []int32, chunk int, whole bool) []int32 {
	h.odd = h.odd[:0]
	all, s := len(h.tail), h.keepGraph.scratch
	some := take[int32](s, min(all, chunk))
	defer func() { give(s, some) }()
	for from := 0; from < all; from += chunk {
		list := some[:min(all-from, chunk)]
		for i := range list {
			list[i] = int32(from + i)
		}
		left = h.chunk(list, left, whole)
	}
	return h.again(all, left, chunk, whole)
}

// round halves edges that all carry the same value. If whole is set, edges that turn up become
// 1; otherwise edges that turn down become 0. It appends the other edges to left, which may
// share the list's memory, and leaves in h.odd the edges that it took out.
func (h *halving) round(edges, left []int32, chunk int, whole bool) []int32 {
	h.odd = h.odd[:0]
	for rest := edges; len(rest) > 0; {
		some := rest[:min(len(rest), chunk)]
		rest = rest[len(some):]
		left = h.chunk(some, left, whole)
	}
	return h.again(len(edges), left, chunk, whole)
}

// again halves once more, all together, the edges taken out of several chunks.
func (h *halving) again(edges int, left []int32, chunk int, whole bool) []int32 {
	if edges <= chunk || len(h.odd) > edges/2 {
		return left
	}
	h.odd, h.before = h.before, h.odd
	return h.round(h.before, left, chunk, whole)
}

// chunk halves one chunk of edges.
func (h *halving) chunk(edges, left []int32, whole bool) []int32 {
	even := h.makeEven(edges)
	h.trails.find(h.tail, h.head, even)
	return h.divide(even, left, whole)
}

// divide appends the edges that are not whole to left.
func (h *halving) divide(edges, left []int32, whole bool) []int32 {
	if !whole { // edges that turned down carry 0
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

// makeEven takes out edges, the fewest that a forest allows, so that every leaf has an even
// number. It returns the remaining edges, in the list's memory, and appends the others to
// h.odd.
func (h *halving) makeEven(edges []int32) (even []int32) {
	clear(h.degree)
	before := len(h.odd)
	for i, edge := range edges {
		if i&checkMask == 0 {
			h.check()
		}
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
			h.odd = push(h.keepGraph.scratch, h.odd, edge)
		}
	})
	even = edges[:0]
	for i, edge := range edges {
		if i&checkMask == 0 {
			h.check()
		}
		if !has(h.out, int(edge)) {
			even = append(even, edge)
		}
	}
	for _, edge := range h.odd[before:] {
		h.out[edge/64] = 0
	}
	return even
}
