package keep

// forest computes spanning forests of graphs in nearly linear time, and holds the memory for
// it. Arcs are numbered by their places in a list of edges.
type forest struct {
	set    []int32 // by node: its parent in a union-find tree of connected nodes
	degree []int32 // by node: number of its arcs in the forest
	link   []int32 // by node: exclusive or of the numbers of its arcs in the forest

	*scratch
}

func newForest(nodes int, s *scratch) *forest {
	return &forest{set: zeros[int32](s, nodes), degree: zeros[int32](s, nodes), link: zeros[int32](s, nodes), scratch: s}
}

// span makes a forest of listed edges that connects all nodes that the list connects. It stops
// early when the forest has enough arcs.
func (f *forest) span(tail, head, edges []int32, enough int) {
	for v := range f.set {
		f.set[v] = int32(v)
	}
	clear(f.degree)
	clear(f.link)
	for i := range f.steps(len(edges)) { // a head without arcs cannot close a cycle
		if t, h := tail[edges[i]], head[edges[i]]; f.degree[h] == 0 {
			f.join(int32(i), t, h, h, t)
			enough--
		}
	}
	// Neighboring edges of the list share a node, so visit them in large steps.
	const stride = 61
	for first := range stride {
		for i := first; i < len(edges) && enough > 0; i += stride {
			if i&checkMask < stride {
				f.check()
			}
			t, h := tail[edges[i]], head[edges[i]]
			if a, b := f.find(t), f.find(h); a != b {
				f.join(int32(i), t, h, a, b)
				enough--
			}
		}
	}
}

// join adds an arc to the forest and merges the sets of its nodes.
func (f *forest) join(arc, tail, head, a, b int32) {
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
// with its one remaining arc, and wants to know the node at the other end. The last node of
// each tree is not visited.
func (f *forest) peel(visit func(node, arc int32) (other int32)) {
	for v := range f.steps(len(f.degree)) {
		for node := int32(v); f.degree[node] == 1; {
			arc := f.link[node]
			other := visit(node, arc)
			f.degree[node] = 0
			f.degree[other]--
			f.link[other] ^= arc
			if int(other) > v {
				break // the loop will get there
			}
			node = other
		}
	}
}
