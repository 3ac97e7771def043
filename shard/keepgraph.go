package shard

// keepGraph is the bipartite multigraph of two consecutive epochs.
//
// A leaf is the samples of one class in one batch. The leaves of both epochs are numbered
// together, those of the next epoch last.
type keepGraph struct {
	now, next keepSide
	raw       *RawSet // nil: one class
	onlyRaw   bool    // the one class is raw

	// The edges in the order in which now reads their samples: tail is the leaf in now, head
	// the leaf in next.
	tail, head []int32

	joined []uint64 // a bit for each valid slot that now reads, set if it has an edge
	chosen []uint64 // a bit for each edge

	*scratch
}

func (g *keepGraph) leaves() int { return g.now.leaves() + g.next.leaves() }
func (g *keepGraph) nodes() int  { return g.now.nodes() + g.next.nodes() }

// edgesAt counts the edges of a leaf.
func (g *keepGraph) edgesAt(leaf int) int32 {
	if now := g.now.leaves(); leaf >= now {
		return g.next.edges[leaf-now]
	}
	return g.now.edges[leaf]
}

func (g *keepGraph) keep(edge int32) { g.chosen[edge/64] |= 1 << (edge % 64) }

func (g *keepGraph) kept(edge int) bool { return has(g.chosen, edge) }

// has says whether a bit is set.
func has(words []uint64, bit int) bool { return words[bit/64]>>(bit%64)&1 != 0 }

// keepSide is what the local shards read in one epoch, in lock step: batch i of every shard
// makes up step i.
type keepSide struct {
	steps, shards, classes int

	valid []int32 // valid slots, by leaf of this side
	edges []int32 // candidates, by leaf of this side
}

func (s *keepSide) leaves() int { return len(s.valid) }

// nodes counts the leaves and the nodes above them.
func (s *keepSide) nodes() int {
	nodes := s.leaves() + s.steps
	if s.classes > 1 {
		nodes += s.leaves() / s.classes
	}
	return nodes
}

// keepGraph finds the candidates.
func (p *Plan) keepGraph(epoch int, c KeepConfig, s *scratch) *keepGraph {
	g := &keepGraph{scratch: s}
	classes := 1
	if raw := p.cfg.Raw; raw != nil {
		g.onlyRaw = raw.Count() == p.samples
		if raw.Count() > 0 && !g.onlyRaw {
			g.raw, classes = raw, classCount
		}
	}
	g.now, g.next = p.keepSide(epoch, c, classes, s), p.keepSide(epoch+1, c, classes, s)

	// reader is the leaf that first reads a sample in the next epoch, plus 1; 0 if there is
	// none or its edge already exists.
	reader := take[int32](s, int(p.samples))
	defer give(s, reader)
	p.eachRead(epoch+1, c, &g.next, s, func(first int32, slots []Slot) {
		for _, slot := range slots {
			leaf := g.leafOf(first, slot.ID)
			g.next.valid[leaf]++
			if reader[slot.ID] == 0 {
				reader[slot.ID] = leaf + 1
				g.next.edges[leaf]++ // corrected below if the sample is not read now
			}
		}
	})
	read := p.readHere(epoch, c)
	most := int(min(read, p.readHere(epoch+1, c), p.samples))
	g.tail, g.head, g.joined = take[int32](s, most)[:0], take[int32](s, most)[:0], take[uint64](s, words(int(read)))
	at := 0
	p.eachRead(epoch, c, &g.now, s, func(first int32, slots []Slot) {
		g.join(first, slots, reader, at)
		at += len(slots)
	})
	for id, leaf := range reader {
		if id&checkMask == 0 {
			s.check()
		}
		if leaf > 0 {
			g.next.edges[leaf-1]--
		}
	}
	g.chosen = take[uint64](s, words(len(g.tail)))
	return g
}

// words is the number of words that hold that many bits.
func words(bits int) int { return (bits + 63) / 64 }

// join adds the edges of a batch. first is its first leaf, at the number of slots read before.
func (g *keepGraph) join(first int32, slots []Slot, reader []int32, at int) {
	tail, head, next := g.tail, g.head, int32(g.now.leaves())
	for i, slot := range slots {
		leaf := g.leafOf(first, slot.ID)
		g.now.valid[leaf]++
		if there := reader[slot.ID]; there > 0 {
			g.now.edges[leaf]++
			tail, head = append(tail, leaf), append(head, next+there-1)
			g.joined[(at+i)/64] |= 1 << ((at + i) % 64)
			reader[slot.ID] = 0
		}
	}
	g.tail, g.head = tail, head
}

func (p *Plan) keepSide(epoch int, c KeepConfig, classes int, w *scratch) keepSide {
	s := keepSide{steps: p.Batches(c.LocalFrom, epoch), shards: c.LocalTo - c.LocalFrom, classes: classes}
	leaves := s.steps * s.shards * classes
	s.valid, s.edges = take[int32](w, leaves), take[int32](w, leaves)
	return s
}

// eachRead visits the valid slots of an epoch in lock step, batch by batch. first is the first
// leaf of the batch.
func (p *Plan) eachRead(epoch int, c KeepConfig, s *keepSide, w *scratch, read func(first int32, slots []Slot)) {
	slots := take[Slot](w, int(p.batch))
	defer give(w, slots)
	first, since := int32(0), 0
	for i := range s.steps {
		for x := c.LocalFrom; x < c.LocalTo; x++ {
			var valid int
			slots, valid = p.Batch(x, epoch, i, slots)
			if since += len(slots); since > checkMask {
				since = 0
				w.check()
			}
			read(first, slots[:valid])
			first += int32(s.classes)
		}
	}
}

// readHere counts the valid slots of the local shards.
func (p *Plan) readHere(epoch int, c KeepConfig) int64 {
	all := int64(0)
	for x := c.LocalFrom; x < c.LocalTo; x++ {
		_, valid := p.Samples(x, epoch)
		all += valid
	}
	return all
}

// leafOf returns the leaf of a sample in the batch whose first leaf is given.
func (g *keepGraph) leafOf(first int32, id int64) int32 {
	if g.raw != nil && g.raw.Contains(id) {
		return first + classRaw
	}
	return first
}

// class returns the class of a leaf of now.
func (g *keepGraph) class(leaf int) int {
	switch {
	case g.raw != nil:
		return leaf % classCount
	case g.onlyRaw:
		return classRaw
	}
	return classEncoded
}

// even says whether every leaf has as many candidates as valid slots, or none at all.
func (g *keepGraph) even() bool {
	for _, s := range []*keepSide{&g.now, &g.next} {
		for leaf, valid := range s.valid {
			if s.edges[leaf] != valid && s.edges[leaf] != 0 {
				return false
			}
		}
	}
	return true
}

// sums calls arc for every arc that is not an edge, with the sum over the leaves below it.
// These arcs run from each leaf to its batch (with two classes), from each batch to its step,
// from each step to the next, and from the last step of the next epoch to the last step of this
// one, which closes the circulation. On this epoch's side they run in the opposite direction.
func sums[T int32 | uint64](g *keepGraph, now, next []T, arc func(tail, head int32, sum uint64)) {
	inner := int32(g.leaves())
	nowRoot, total := climb(&g.now, 0, inner, now, func(child, parent int32, sum uint64) { arc(parent, child, sum) })
	inner += int32(g.now.nodes() - g.now.leaves())
	nextRoot, _ := climb(&g.next, int32(g.now.leaves()), inner, next, arc)
	arc(nextRoot, nowRoot, total)
}

// climb sums up one side. Its leaves are numbered from leaf; its batches, if they are not
// leaves themselves, from inner; and its steps after those.
func climb[T int32 | uint64](s *keepSide, leaf, inner int32, values []T, arc func(child, parent int32, sum uint64)) (root int32, total uint64) {
	atStep := inner
	if s.classes > 1 {
		atStep += int32(s.leaves() / s.classes)
	}
	for step := range s.steps {
		if step > 0 {
			arc(atStep, atStep+1, total)
			atStep++
		}
		for range s.shards {
			sum, child := uint64(0), leaf
			for range s.classes {
				value := uint64(values[0])
				if s.classes > 1 {
					arc(leaf, inner, value)
					child = inner
				}
				sum += value
				leaf, values = leaf+1, values[1:]
			}
			if s.classes > 1 {
				inner++
			}
			arc(child, atStep, sum)
			total += sum
		}
	}
	return atStep, total
}
