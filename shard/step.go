package shard

// step is the positions [lo, hi) that all shards together read in their batches of a number.
func (p *Plan) step(batch int) (lo, hi int64) {
	lo = int64(batch) * p.shards * p.batch
	return lo, min(lo+p.shards*p.batch, p.samples)
}

// owners divides the samples between nodes as evenly as the borders of blocks allow.
func (p *Plan) owners(nodes int64) []int64 {
	first := make([]int64, nodes+1)
	for v := range first {
		first[v] = p.blocks.border(partStart(p.samples, int64(v), nodes))
	}
	return first
}

// owner is the node that owns a sample. It corrects the guess that all own equally many.
func (p *Plan) owner(id int64) int {
	v := int(partOf(p.samples, id, int64(len(p.owned)-1)))
	for p.owned[v] > id {
		v--
	}
	for p.owned[v+1] <= id {
		v++
	}
	return v
}

// Owned counts the samples of a batch that its node owns; all, unless the partition is Local.
func (p *Plan) Owned(shard int, slots []Slot) (owned int) {
	if p.cfg.Partition != Local {
		return len(slots)
	}
	node := shard / (p.cfg.Shards / (len(p.owned) - 1))
	for _, slot := range slots {
		if id := slot.ID; p.owned[node] <= id && id < p.owned[node+1] {
			owned++
		}
	}
	return owned
}

// placed appends the slots of a batch with at least one valid slot, of a step that is dealt out
// among the nodes.
func (p *Plan) placed(shard, epoch, batch int, dst []Slot, count int) []Slot {
	lo, hi := p.step(batch)
	nodes := int64(len(p.owned) - 1)
	node := int64(shard) / (p.shards / nodes)
	slots, order := make([]Slot, 0, hi-lo), p.order(epoch)
	room := make([][classes]int64, nodes) // as many of each class as a node's positions have
	for v := range nodes {
		for end := partStart(hi-lo, v+1, nodes); int64(len(slots)) < end; {
			at := lo + int64(len(slots))
			slot := Slot{Position: at, Epoch: epoch, ID: order.id(at)}
			slots = append(slots, slot)
			room[v][p.raw.class(slot.ID)]++
		}
	}
	var own, surplus [classes][]Slot
	for _, slot := range slots {
		v, class := p.owner(slot.ID), p.raw.class(slot.ID)
		if room[v][class] == 0 {
			surplus[class] = append(surplus[class], slot)
			continue
		}
		if room[v][class]--; int64(v) == node {
			own[class] = append(own[class], slot)
		}
	}
	for v := range node {
		for class, n := range room[v] {
			surplus[class] = surplus[class][n:]
		}
	}
	var place [classes]uint64
	from, to := p.span(shard, epoch, batch)
	for at := lo + partStart(hi-lo, node, nodes); at < to; at++ {
		class := p.raw.class(slots[at-lo].ID) // which a batch has where its positions have it
		lacking := uint64(room[node][class])
		fetched, rank := spread{chosen: lacking, of: uint64(len(own[class])) + lacking}.at(place[class])
		place[class]++
		switch {
		case at < from:
		case fetched:
			dst = append(dst, surplus[class][rank])
		default:
			dst = append(dst, own[class][rank])
		}
	}
	for len(dst) < count {
		dst = append(dst, dst[len(dst)-1])
	}
	return dst
}
