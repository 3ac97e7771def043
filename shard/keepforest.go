package shard

// forest computes spanning forests of graphs in nearly linear time, and holds the memory for
// it.
type forest struct {
	arcs   int     // number of arcs in the forest
	set    []int32 // by node: its parent in a union-find tree of connected nodes
	degree []int32 // by node: number of its arcs in the forest
	link   []int32 // by node: exclusive or of those arcs' numbers

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

// clear removes all arcs.
func (f *forest) clear() {
	for v := range f.set {
		f.set[v] = int32(v)
	}
	clear(f.degree)
	clear(f.link)
	f.arcs = 0
}

// span extends the forest with arcs from the list, without making a cycle, until it connects
// all nodes that the arcs connect. It stops early when the forest has enough arcs.
func (f *forest) span(tail, head, arcs []int32, enough int) {
	for i, arc := range arcs { // a head without arcs cannot close a cycle
		if i&checkMask == 0 {
			f.scratch.check()
		}
		if t, h := tail[arc], head[arc]; f.degree[h] == 0 {
			f.join(arc, t, h, h, t)
		}
	}
	// Neighboring arcs of the list share a node, so visit them in large steps.
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

// join adds an arc to the forest and merges the sets of its nodes.
func (f *forest) join(arc, tail, head, a, b int32) {
	f.arcs++
	f.set[a] = b
	f.degree[tail]++
	f.degree[head]++
	f.link[tail] ^= arc
	f.link[head] ^= arc
}

// find returns the node that represents the set of a node.
func (f *forest) find(v int32) int32 {
	for f.set[v] != v {
		f.set[v] = f.set[f.set[v]]
		v = f.set[v]
	}
	return v
}

// peel removes the forest's nodes leaf by leaf. It visits each node after all nodes beyond it,
// with its one remaining arc and the node at the other end. The last node of each tree is not
// visited.
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
				break // the loop will get there
			}
			node = other
		}
	}
}

// coprime returns a number near 0.6·n that has no common divisor with n, so that steps of that
// length visit all n places.
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
