package keep

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// randomArcs connects random nodes, some of them several times, none with itself.
func randomArcs(rng *rand.Rand, nodes, arcs int) (tail, head []int32) {
	for range arcs {
		t := rng.IntN(nodes)
		h := (t + 1 + rng.IntN(nodes-1)) % nodes
		tail, head = append(tail, int32(t)), append(head, int32(h))
	}
	return tail, head
}

func TestForest(t *testing.T) {
	rng := rand.New(rand.NewPCG(29, 30))
	for range 300 {
		nodes := 2 + rng.IntN(30)
		tail, head := randomArcs(rng, nodes, rng.IntN(60))
		f := newForest(nodes, &scratch{from: onHeap{}})
		f.span(tail, head, counting(len(tail)), nodes-1)
		// In the order of peeling, each node comes before its parent.
		parent, done := make([]int32, nodes), make([]bool, nodes)
		for v := range parent {
			parent[v] = int32(v)
		}
		f.peel(func(node, arc int32) int32 {
			other := tail[arc] ^ head[arc] ^ node
			if done[node] || done[other] || tail[arc] != node && head[arc] != node {
				t.Fatalf("node %d is peeled off %d with arc %d", node, other, arc)
			}
			done[node], parent[node] = true, other
			return other
		})
		root := func(v int32) int32 {
			for parent[v] != v {
				v = parent[v]
			}
			return v
		}
		for arc := range tail {
			if root(tail[arc]) != root(head[arc]) {
				t.Fatalf("arc %d joins nodes that the forest does not", arc)
			}
		}
	}
}

// TestTrails: a node's inflow and outflow change by the same amount, and every arc turns.
func TestTrails(t *testing.T) {
	rng := rand.New(rand.NewPCG(31, 32))
	trails := newTrails(30, 2000, newCoin(1, 2), &scratch{from: onHeap{}})
	ups := 0
	for range 300 {
		nodes := 2 + rng.IntN(28)
		tail, head := randomArcs(rng, nodes, rng.IntN(60))
		degree := make([]int, nodes)
		for i := range tail {
			degree[tail[i]]++
			degree[head[i]]++
		}
		for v, odd := 0, -1; v < nodes; v++ { // join nodes of odd degree in pairs
			if degree[v]%2 == 0 {
				continue
			}
			if odd < 0 {
				odd = v
				continue
			}
			tail, head, odd = append(tail, int32(odd)), append(head, int32(v)), -1
		}
		trails.find(tail, head, counting(len(tail)))
		net := make([]int, nodes)
		for i := range tail {
			by := 1
			if trails.partner[2*i] == down {
				by = -1
			} else if !trails.up(i) {
				t.Fatalf("arc %d did not turn", i)
			}
			ups += by
			net[tail[i]] -= by
			net[head[i]] += by
		}
		for v, n := range net {
			if n != 0 {
				t.Fatalf("node %d gains %d", v, n)
			}
		}
	}
	if ups < -300 || ups > 300 {
		t.Errorf("%d more arcs are up than down", ups)
	}
}

// TestNetwork: each arc of a circulation gets the floor or the ceiling of its former value, on
// average that value.
func TestNetwork(t *testing.T) {
	rng := rand.New(rand.NewPCG(33, 34))
	gain, steps := 0.0, 0
	for range 300 {
		n := circulationOf(rng)
		before, net := slices.Clone(n.value), n.net()
		n.round(newCoin(rng.Uint64(), 0))
		for i, value := range n.value {
			if value != 0 && value != one {
				t.Fatalf("%d of %d becomes %d", before[i], one, value)
			}
			gain += (float64(value) - float64(before[i])) / float64(one)
			steps++
		}
		for v, now := range n.net() {
			if now != net[v] {
				t.Fatalf("node %d gains %d", v, int64(now-net[v]))
			}
		}
	}
	if math.Abs(gain) > 4*math.Sqrt(float64(steps)*20) { // the arcs of a cycle gain together
		t.Errorf("%d arcs gain %.1f", steps, gain)
	}
}

// net is the inflow less the outflow of each node.
func (n *network) net() []uint64 {
	net := make([]uint64, n.nodes)
	for i, value := range n.value {
		net[n.head[i]] += value
		net[n.tail[i]] -= value
	}
	return net
}

// TestAlmostWhole: a network says if what is almost whole became another number.
func TestAlmostWhole(t *testing.T) {
	good := 0
	for seed := range uint64(400) {
		value := one * 3 / 4
		if seed%2 == 0 {
			value = one / 4
		}
		n := network{nodes: 3, near: one/4 + 1, scratch: &scratch{from: onHeap{}}}
		for v := range int32(3) { // only one of the arcs is no edge
			n.add(v, (v+1)%3, []int32{-1, v}[min((v+int32(seed/2))%3, 1)], value)
		}
		got := n.round(newCoin(seed, 0))
		if got != (n.value[0] == one == (seed%2 == 1)) {
			t.Errorf("seed %d: %d of %d becomes %d, and is that good: %t", seed, value, one, n.value[0], got)
		}
		if got {
			good++
		}
	}
	if good < 260 || good > 340 {
		t.Errorf("%d of 400 are good", good)
	}
}

// circulationOf makes a circulation of random cycles, each with a value.
func circulationOf(rng *rand.Rand) *network {
	n := &network{nodes: 2 + rng.IntN(20), scratch: &scratch{from: onHeap{}}}
	for range 1 + rng.IntN(20) {
		carries := 100 + rng.Uint64N(one-200)
		path := rng.Perm(n.nodes)[:2+rng.IntN(n.nodes-1)]
		for i, v := range path {
			w := path[(i+1)%len(path)]
			if rng.IntN(2) == 0 {
				n.add(int32(v), int32(w), 0, carries)
			} else { // in the other direction it carries the rest to 1
				n.add(int32(w), int32(v), 0, one-carries)
			}
		}
	}
	return n
}

func TestCoin(t *testing.T) {
	c, heads := newCoin(3, 4), 0
	const tosses = 70_000
	for range tosses {
		heads += int(c.toss())
	}
	if math.Abs(float64(heads)-tosses/2) > 4*math.Sqrt(tosses)/2 {
		t.Errorf("%d of %d", heads, tosses)
	}
}

// counting lists the numbers from 0 to n-1.
func counting(n int) []int32 {
	all := make([]int32, n)
	for i := range all {
		all[i] = int32(i)
	}
	return all
}
