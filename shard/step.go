package shard

// step returns the positions [lo, hi) that the shards together read in their batches with a number.
func (p *Plan) step(batch int) (lo, hi int64) {
	lo = int64(batch) * p.shards * p.batch
	return lo, min(lo+p.shards*p.batch, p.samples)
}

// owners has the first sample of each node, followed by the number of samples.
type owners []int64

// newOwners divides the samples between nodes as evenly as the borders of blocks allow.
func newOwners(b *blocks, nodes int64) owners {
	first := make(owners, nodes+1)
	for v := range first {
		first[v] = b.border(partStart(b.samples, int64(v), nodes))
	}
	return first
}

// nodes counts the nodes.
func (o owners) nodes() int { return len(o) - 1 }

// owner is the node that owns a sample. It starts from the guess that all nodes own equally many.
func (o owners) owner(id int64) int {
	v := int(partOf(o[o.nodes()], id, int64(o.nodes())))
	for o[v] > id {
		v--
	}
	for o[v+1] <= id {
		v++
	}
	return v
}

// Owned counts the samples of a batch that its node owns. That is all of them unless the partition
// is Local.
func (p *Plan) Owned(shard int, slots []Slot) (owned int) {
	if p.cfg.Partition != Local {
		return len(slots)
	}
	node := shard / (p.cfg.Shards / p.owners.nodes())
	for _, slot := range slots {
		if id := slot.ID; p.owners[node] <= id && id < p.owners[node+1] {
			owned++
		}
	}
	return owned
}

// placed appends the slots of a batch of a Local plan. The batch has at least one valid slot.
func (p *Plan) placed(shard, epoch, batch int, dst []Slot, count int) []Slot {
	lo, hi := p.step(batch)
	nodes := int64(p.owners.nodes())
	node := int64(shard) / (p.shards / nodes)
	slots, order := make([]Slot, 0, hi-lo), p.order(epoch)
	room := make([][NumCosts]int64, nodes) // how many samples of each cost a node gets
	for v := range nodes {
		for end := partStart(hi-lo, v+1, nodes); int64(len(slots)) < end; {
			at := lo + int64(len(slots))
			slot := Slot{Position: at, Epoch: epoch, ID: order.id(at)}
			slots = append(slots, slot)
			room[v][p.costs.Of(slot.ID)]++
		}
	}
	var own, surplus [NumCosts][]Slot
	for _, slot := range slots {
		v, cost := p.owners.owner(slot.ID), p.costs.Of(slot.ID)
		if room[v][cost] == 0 {
			surplus[cost] = append(surplus[cost], slot)
			continue
		}
		if room[v][cost]--; int64(v) == node {
			own[cost] = append(own[cost], slot)
		}
	}
	for v := range node {
		for cost, n := range room[v] {
			surplus[cost] = surplus[cost][n:]
		}
	}
	var place [NumCosts]uint64
	from, to := p.span(shard, epoch, batch)
	for at := lo + partStart(hi-lo, node, nodes); at < to; at++ {
		cost := p.costs.Of(slots[at-lo].ID) // costs come in the same order as at the batch's own positions
		lacking := uint64(room[node][cost])
		fetched, rank := spread{chosen: lacking, of: uint64(len(own[cost])) + lacking}.at(place[cost])
		place[cost]++
		switch {
		case at < from:
		case fetched:
			dst = append(dst, surplus[cost][rank])
		default:
			dst = append(dst, own[cost][rank])
		}
	}
	for len(dst) < count {
		dst = append(dst, dst[len(dst)-1])
	}
	return dst
}
