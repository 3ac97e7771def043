package keep

// halving is the state of halving edges.
type halving struct {
	*graph
	trails *trails
	forest *forest
	degree []int32 // by leaf

	// carry holds, for each round, the edges that were taken out of the chunks so far. The next
	// chunk gets them in the same round, so that few remain after the last chunk.
	carry [precision][]int32

	*scratch
}

// leastChunk is how many edges are halved at a time, unless leaves have few: so many that the
// working memory stays in the CPU cache.
const leastChunk = 1 << 16

// halve makes the edges that are not loose whole. At first, each carries the share. halve adds the
// few edges that stay fractional to a network.
func (g *graph) halve(n *network, share uint64, c *coin) {
	chunk := min(max(leastChunk, 8*g.leaves()), len(g.head))
	most := chunk + g.leaves() // a forest of the leaves has fewer edges than there are leaves
	s := g.nested()
	defer s.end()
	h := halving{
		graph: g, scratch: s,
		trails: newTrails(g.leaves(), most, c, s), forest: newForest(g.leaves(), s), degree: zeros[int32](s, g.leaves()),
	}
	edges := zeros[int32](s, most)[:0]
	for edge := range h.steps(len(g.head)) {
		if g.head[edge] >= 0 && !g.isLoose(edge) {
			edges = append(edges, int32(edge))
		}
		if len(edges) == chunk || edge == len(g.head)-1 {
			h.chunk(edges, share)
			edges = edges[:0]
		}
	}
	for round, edges := range h.carry {
		for _, edge := range edges {
			n.add(g.tail[edge], g.head[edge], edge, share<<round)
		}
		give(s, edges)
	}
}

// chunk halves edges until each is whole or carried to the next chunk.
func (h *halving) chunk(edges []int32, share uint64) {
	if share == one {
		for _, edge := range edges {
			h.keep(edge)
		}
	}
	for round := range h.carry {
		value := share << round & (one - 1)
		if value == 0 || len(edges) == 0 {
			return
		}
		edges = append(edges, h.carry[round]...)
		h.carry[round] = h.carry[round][:0]
		edges = h.makeEven(edges, round)
		h.trails.find(h.tail, h.head, edges)
		edges = h.divide(edges, 2*value >= one)
	}
}

// makeEven takes out edges, as few as a forest allows, so that every leaf has an even number. It
// returns the remaining edges, in the list's memory.
func (h *halving) makeEven(edges []int32, round int) (even []int32) {
	clear(h.degree)
	for i := range h.steps(len(edges)) {
		h.degree[h.tail[edges[i]]]++
		h.degree[h.head[edges[i]]]++
	}
	joined := 0
	for _, degree := range h.degree {
		if degree > 0 {
			joined++
		}
	}
	h.forest.span(h.tail, h.head, edges, joined-1)
	h.forest.peel(func(leaf, i int32) (other int32) {
		edge := edges[i]
		other = h.tail[edge] ^ h.head[edge] ^ leaf
		if h.degree[leaf]%2 != 0 {
			h.degree[other]++
			edges[i] = ^edge // marks it
		}
		return other
	})
	even = edges[:0]
	for i := range h.steps(len(edges)) {
		if edge := edges[i]; edge >= 0 {
			even = append(even, edge)
		} else {
			h.carry[round] = push(h.scratch, h.carry[round], ^edge)
		}
	}
	return even
}

// divide returns the edges that are not whole, in the list's memory. If turning up makes an edge
// one, turning down leaves a fraction; otherwise turning down makes it zero.
func (h *halving) divide(edges []int32, one bool) (left []int32) {
	left = edges[:0]
	for i := range h.steps(len(edges)) {
		if up := h.trails.up(i); up != one {
			left = append(left, edges[i])
		} else if up {
			h.keep(edges[i])
		}
	}
	return left
}
