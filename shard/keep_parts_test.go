package shard

import (
	"math"
	"math/rand/v2"
	"testing"
)

func TestFraction(t *testing.T) {
	for _, want := range []ratio{{0, 1}, {1, 1}, {3, 10}, {1, 3}, {1, 10}, {99, 100}, {1, 1000003}, {123456, 1234567}} {
		if p, q := fraction(want.float(), maxDenominator); int64(p) != want.p || int64(q) != want.q {
			t.Errorf("%d/%d is taken for %d/%d", want.p, want.q, p, q)
		}
	}
	rng := rand.New(rand.NewPCG(27, 28))
	for range 10_000 {
		r, most := rng.Float64(), uint64(1)<<(1+rng.IntN(30))
		if rng.IntN(4) == 0 {
			r = math.Pow(r, 40) // down to numbers with more digits than fraction considers
		}
		p, q := fraction(r, most)
		if q > most || p > q || math.Abs(float64(p)/float64(q)-r) > 1/(float64(q)*float64(most))+0x1p-54 {
			t.Fatalf("%v is taken for %d/%d, at most %d", r, p, q, most)
		}
	}
	for _, r := range []float64{math.SmallestNonzeroFloat64, 0x1p-64, math.Nextafter(1, 0)} {
		if p, q := fraction(r, maxDenominator); float64(p)/float64(q) != math.Round(r) {
			t.Errorf("%v is taken for %d/%d", r, p, q)
		}
	}
}

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
		f.peel(tail, head, func(node, arc, other int32) {
			if done[node] || done[other] || tail[arc]^head[arc] != node^other || tail[arc] != node && head[arc] != node {
				t.Fatalf("node %d is peeled off %d with arc %d", node, other, arc)
			}
			done[node], parent[node] = true, other
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
			if trails.turned(i) == down {
				by = -1
			} else if trails.turned(i) != up {
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

// TestNetwork: a circulation with errors is balanced, and rounded so that each arc carries the
// floor or the ceiling of its former value; errors that are too large are detected.
func TestNetwork(t *testing.T) {
	rng := rand.New(rand.NewPCG(33, 34))
	for range 300 {
		n := circulationOf(rng)
		for i := range n.value {
			n.value[i] += uint64(rng.IntN(3)) - 1
		}
		if !n.balance() {
			t.Fatal("small errors are not made up for")
		}
		for v, lack := range n.lacks() {
			if lack != 0 {
				t.Fatalf("node %d lacks %d", v, int64(lack))
			}
		}
		before := append([]uint64{}, n.value...)
		n.round(newCoin(rng.Uint64(), 0))
		for i, value := range n.value {
			if value != 0 && value != n.one() || before[i] == 0 && value != 0 || before[i] == n.one() && value == 0 {
				t.Fatalf("%d of %d becomes %d", before[i], n.one(), value)
			}
		}
	}
	n := network{nodes: 3, precision: 10, scratch: &scratch{from: onHeap{}}}
	n.add(0, 1, 0, 1)
	n.add(1, 2, 1, 1020)
	n.add(2, 0, 2, 500)
	if n.balance() {
		t.Error("what is no circulation was taken for one")
	}
}

// circulationOf makes a circulation of random cycles, each with a value.
func circulationOf(rng *rand.Rand) *network {
	n := &network{nodes: 2 + rng.IntN(20), precision: 20, scratch: &scratch{from: onHeap{}}}
	for range 1 + rng.IntN(20) {
		carries := 100 + rng.Uint64N(n.one()-200)
		path := rng.Perm(n.nodes)[:2+rng.IntN(n.nodes-1)]
		for i, v := range path {
			w := path[(i+1)%len(path)]
			if rng.IntN(2) == 0 {
				n.add(int32(v), int32(w), 0, carries)
			} else { // in the other direction it carries the rest to 1
				n.add(int32(w), int32(v), 0, n.one()-carries)
			}
		}
	}
	return n
}

func TestCoin(t *testing.T) {
	c, heads, below := newCoin(3, 4), 0, make([]int, 7)
	const tosses = 70_000
	for range tosses {
		heads += int(c.bit())
		below[c.below(7)]++
	}
	if math.Abs(float64(heads)-tosses/2) > 4*math.Sqrt(tosses)/2 {
		t.Errorf("%d of %d", heads, tosses)
	}
	if z := excess(below, tosses/7, 6); z > 4 {
		t.Errorf("chi-square is %.1f deviations above its mean", z)
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
