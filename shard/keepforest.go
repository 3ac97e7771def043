package shard

// forest spans graphs, in nearly linear time, and holds the memory for that.
type forest struct {
	arcs   int     // how many it has
	set    []int32 // by node: its parent in a tree of joined nodes
	degree []int32 // arcs of the forest at a node
	link   []int32 // exclusive or of their numbers

	scratch *scratch
}

func newForest(nodes int, s *scratch) *forest {
	f := &forest{set: take[int32](s, nodes), degree: take[int32](s, nodes), link: take[int32](s, nodes), scratch: s}
	f.clear()
	return f
}

func (f *forest) free() {
	give(f.scratch, f.set)
	give(f.scratch, f.degree)
	give(f.scratch, f.link)
}

// clear takes all arcs out.
func (f *forest) clear() {
	for v := range f.set {
		f.set[v] = int32(v)
	}
	clear(f.degree)
	clear(f.link)
	f.arcs = 0
}

// span adds arcs of a graph, some of those listed, until whatever nodes they join are
// joined, without a cycle. Where it is known how many are enough for the whole forest,
// it need not look at all the others.
func (f *forest) span(tail, head, arcs []int32, enough int) {
	for i, arc := range arcs { // a head that is alone can close no cycle
		if i&checkMask == 0 {
			f.scratch.check()
		}
		if t, h := tail[arc], head[arc]; f.degree[h] == 0 {
			f.join(arc, t, h, h, t)
		}
	}
	// Arcs that are listed together have a node in common, so go around in large steps.
	stride := coprime(len(arcs))
	for at, left := 0, len(arcs); left > 0 && f.arcs < enough; left-- {
		if left&checkMask == 0 {
			f.scratch.check()
		}
		arc := arcs[at]
		if at += stride; at >= len(arcs) {
			at -= len(arcs)
		}
		t, h := tail[arc], head[arc]
		if a, b := f.find(t), f.find(h); a != b {
			f.join(arc, t, h, a, b)
		}
	}
}

// join takes an arc into the forest, and its sets together.
func (f *forest) join(arc, tail, head, a, b int32) {
	f.arcs++
	f.set[a] = b
	f.degree[tail]++
	f.degree[head]++
	f.link[tail] ^= arc
	f.link[head] ^= arc
}

// find names the set of a node by one of its nodes.
func (f *forest) find(v int32) int32 {
	for f.set[v] != v {
		f.set[v] = f.set[f.set[v]]
		v = f.set[v]
	}
	return v
}

// peel takes the forest down leaf by leaf: each node is visited, with the last arc that it
// had and the node at the other end, after all others beyond it; but the last
// one of each tree is not.
func (f *forest) peel(tail, head []int32, visit func(node, arc, other int32)) {
	for v := range int32(len(f.degree)) {
		if v&checkMask == 0 {
			f.scratch.check()
		}
		for node := v; f.degree[node] == 1; {
			arc := f.link[node]
			other := tail[arc] ^ head[arc] ^ node
			visit(node, arc, other)
			f.degree[node] = 0
			f.degree[other]--
			f.link[other] ^= arc
			if other > v {
				break // its turn comes
			}
			node = other
		}
	}
}

// coprime is a number near 0.6·n that has no divisor in common with n, as to visit all of
// n places in steps of it.
func coprime(n int) int {
	stride := n*5/8 | 1
	for a, b := stride, n; ; a, b = stride, n {
		for b != 0 {
			a, b = b, a%b
		}
		if a == 1 {
			return stride
		}
		stride += 2
	}
}
