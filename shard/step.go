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
	room := make([]int64, nodes)
	for v := range nodes {
		room[v] = partStart(hi-lo, v+1, nodes) - partStart(hi-lo, v, nodes)
	}
	var surplus []Slot
	own, order := make([]Slot, 0, room[node]), p.order(epoch)
	for at := lo; at < hi; at++ {
		slot := Slot{Position: at, Epoch: epoch, ID: order.id(at)}
		v := p.owner(slot.ID)
		if room[v] == 0 {
			surplus = append(surplus, slot)
			continue
		}
		if room[v]--; int64(v) == node {
			own = append(own, slot)
		}
	}
	for v := range node {
		surplus = surplus[room[v]:]
	}
	fetched := spread{chosen: uint64(room[node]), of: uint64(len(own)) + uint64(room[node])}
	from, to := p.span(shard, epoch, batch)
	for before := lo + partStart(hi-lo, node, nodes); from < to; from++ {
		if is, rank := fetched.at(uint64(from - before)); is {
			dst = append(dst, surplus[rank])
		} else {
			dst = append(dst, own[rank])
		}
	}
	for len(dst) < count {
		dst = append(dst, dst[len(dst)-1])
	}
	return dst
}
