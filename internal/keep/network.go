package keep

// Values are numbers of units; one is the number 1. Sums may wrap around, since only their
// fractions matter.
const (
	precision = 48
	one       = uint64(1) << precision
)

// network is a set of arcs with values from 0 to 1. Arcs with whole values are left out, so it
// is a circulation if the inflow and the outflow of every node differ by a whole number.
type network struct {
	nodes int

	tail, head []int32
	edge       []int32 // the number of an edge; -1 for other arcs
	value      []uint64

	// Arcs that are not edges and closer than near to a whole number should become that number:
	// the arc for one, and its complement for 0.
	near  uint64
	whole []int32

	*scratch
}

// add adds an arc with the fraction of a value.
func (n *network) add(tail, head, edge int32, value uint64) {
	arc := int32(len(n.value))
	if arc&checkMask == 0 {
		n.check()
	}
	if value &= one - 1; value == 0 {
		return
	}
	n.tail, n.head = push(n.scratch, n.tail, tail), push(n.scratch, n.head, head)
	n.edge, n.value = push(n.scratch, n.edge, edge), push(n.scratch, n.value, value)
	if edge < 0 && value > one-n.near {
		n.whole = push(n.scratch, n.whole, arc)
	} else if edge < 0 && value < n.near {
		n.whole = push(n.scratch, n.whole, ^arc)
	}
}

// round makes every arc of a circulation carry 0 or one. It says whether every arc that was
// almost whole became that number. It almost always does: the sum of shares that should be
// whole, such as 250 times 0.3, is off by a rounding error, and becomes another whole number
// with a probability as small as that.
func (n *network) round(c *coin) bool {
	s := n.nested()
	defer s.end()
	t, odd := newTrails(n.nodes, len(n.value), c, s), zeros[int32](s, len(n.value))
	for bit := range precision {
		odd = odd[:0]
		for i := range n.steps(len(n.value)) {
			if n.value[i]>>bit&1 != 0 {
				odd = append(odd, int32(i))
			}
		}
		t.find(n.tail, n.head, odd)
		for i, arc := range odd {
			if t.up(i) {
				n.value[arc] += 1 << bit
			} else {
				n.value[arc] -= 1 << bit
			}
		}
	}
	for _, arc := range n.whole {
		if arc >= 0 && n.value[arc] != one || arc < 0 && n.value[^arc] != 0 {
			return false
		}
	}
	return true
}
