package keep

// trails splits graphs into closed trails, in linear time. It holds the memory for that, so
// that processing one graph after another is cheap.
type trails struct {
	coin *coin

	// partner is indexed by arc ends: 2·i is where arc i leaves its tail, 2·i+1 where it enters
	// its head. At every node the ends are paired; a trail that arrives by one leaves by its
	// partner. Once the trail is known, partner[2·i] says how arc i turned.
	partner []int32
	open    []int32 // by node: an end without a partner, plus 1, or 0

	*scratch
}

// Directions of an arc.
const (
	up   = -1
	down = -2
)

// newTrails makes room for graphs of up to that many nodes and arcs.
func newTrails(nodes, arcs int, c *coin, s *scratch) *trails {
	return &trails{coin: c, partner: zeros[int32](s, 2*arcs), open: zeros[int32](s, nodes), scratch: s}
}

// find turns every arc of a graph: the listed arcs, from tail[arc] to head[arc]. Each node must
// have an even number of them. Along a trail, the arcs that run one way turn up and the others
// down; a coin decides which way is up. So if every up arc gains an amount and every down arc
// loses the same amount, the difference between inflow and outflow of each node is unchanged.
func (t *trails) find(tail, head, arcs []int32) {
	t.partner = t.partner[:2*len(arcs)]
	for i := range t.steps(len(arcs)) {
		t.pair(tail[arcs[i]], int32(2*i))
		t.pair(head[arcs[i]], int32(2*i+1))
	}
	for i := range t.steps(len(arcs)) {
		if t.partner[2*i] >= 0 {
			t.follow(int32(2 * i))
		}
	}
}

func (t *trails) pair(node, end int32) {
	waiting := t.open[node]
	if waiting == 0 {
		t.open[node] = end + 1
		return
	}
	t.open[node] = 0
	t.partner[end], t.partner[waiting-1] = waiting-1, end
}

// follow turns the arcs of the trail that begins at an end. An arc that the trail enters at its
// tail runs in the direction of the trail.
func (t *trails) follow(start int32) {
	flip, steps := t.coin.toss(), 0
	for end := start; ; {
		if steps++; steps&checkMask == 0 {
			t.check()
		}
		other := t.partner[end^1]
		t.partner[end&^1] = up - (end&1 ^ flip)
		if end = other; end == start {
			return
		}
	}
}

// up says whether arc i of the list turned up.
func (t *trails) up(i int) bool { return t.partner[2*i] == up }
