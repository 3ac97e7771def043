package shard

// trails takes graphs apart into closed trails, in linear time. It holds the memory for
// that, so that one graph after another is cheap.
type trails struct {
	coin *coin

	// partner is by end of an arc: 2·i is where arc i leaves its tail, 2·i+1 where it
	// enters its head. At every node the ends are paired; a trail that comes in by one
	// goes on by its partner. Once the trail is known, partner[2·i] says how arc i turned.
	partner []int32
	open    []int32 // by node: an end without a partner, plus 1; else 0

	scratch *scratch
}

// How an arc turned.
const (
	up   = -1
	down = -2
)

// newTrails makes room for graphs of so many nodes and arcs.
func newTrails(nodes, arcs int, c *coin, s *scratch) *trails {
	return &trails{coin: c, partner: take[int32](s, 2*arcs), open: take[int32](s, nodes), scratch: s}
}

func (t *trails) free() {
	give(t.scratch, t.partner)
	give(t.scratch, t.open)
}

// find turns every arc of a graph: those listed, from tail[arc] to head[arc]. Each node
// must have an even number of them. Along a trail, the arcs that run one way are up and the
// others down; which way, a coin decides. So if each arc up gains, and each arc
// down loses, one amount, then what enters a node and what leaves it still differ by
// as much as before.
func (t *trails) find(tail, head, arcs []int32) {
	t.partner = t.partner[:2*len(arcs)]
	for i, arc := range arcs {
		if i&checkMask == 0 {
			t.scratch.check()
		}
		t.pair(tail[arc], int32(2*i))
		t.pair(head[arc], int32(2*i+1))
	}
	for start := int32(0); start < int32(len(t.partner)); start += 2 {
		if start&checkMask == 0 {
			t.scratch.check()
		}
		if t.partner[start] >= 0 {
			t.follow(start)
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

// follow turns the arcs of the trail that begins with an end. An arc that the trail enters
// at its tail runs along with it.
func (t *trails) follow(start int32) {
	flip, steps := int32(t.coin.bit()), 0
	for end := start; ; {
		if steps++; steps&checkMask == 0 {
			t.scratch.check()
		}
		next := t.partner[end^1]
		t.partner[end&^1] = up - (end&1 ^ flip)
		if end = next; end == start {
			return
		}
	}
}

// turned is how arc i of the list turned: up or down.
func (t *trails) turned(i int) int32 { return t.partner[2*i] }
