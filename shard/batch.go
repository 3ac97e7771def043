package shard

import "slices"

// Slot is one place in a batch.
type Slot struct {
	Position int64 // in the epoch's order
	// Epoch is the epoch whose permutation and random choices apply to the sample. It differs from
	// the batch's epoch only if an unpadded plan has read ahead into the next range.
	Epoch int
	ID    int64 // the sample's index in the dataset
}

// Batch appends the slots of a batch to dst[:0], which it reallocates only if its capacity is too
// small. It also returns the number of valid slots, which come first. A batch that does not exist
// has no slots. The cost depends only on the batch itself.
func (p *Plan) Batch(shard, epoch, batch int, dst []Slot) (slots []Slot, valid int) {
	count, valid := p.Size(shard, epoch, batch)
	dst = slices.Grow(dst[:0], count)
	switch {
	case count == 0:
		return dst, valid
	case p.cfg.Partition == Local && valid > 0:
		return p.placed(shard, epoch, batch, dst, count), valid
	case p.cfg.PadLastBatch:
		return p.padded(shard, epoch, batch, dst, count), valid
	}
	return p.streamed(shard, epoch, batch, dst, count), valid
}

// padded appends the slots of a batch. Slots beyond its span repeat the last position.
func (p *Plan) padded(shard, epoch, batch int, dst []Slot, count int) []Slot {
	lo, hi := p.span(shard, epoch, batch)
	order, slot := p.order(epoch), Slot{Position: -1}
	for j := range int64(count) {
		if at := min(lo+j, hi-1); at != slot.Position {
			slot = Slot{Position: at, Epoch: epoch, ID: order.id(at)}
		}
		dst = append(dst, slot)
	}
	return dst
}

// streamed appends the next slots of the shard's endless stream.
func (p *Plan) streamed(shard, epoch, batch int, dst []Slot, count int) []Slot {
	at := p.seek(shard, p.consumed(epoch)+int64(batch)*p.batch)
	order := p.order(at.epoch)
	for range count {
		if at.position == at.end {
			at.epoch++
			at.position, at.end = p.Range(shard, at.epoch)
			order = p.order(at.epoch)
		}
		dst = append(dst, Slot{Position: at.position, Epoch: at.epoch, ID: order.id(at.position)})
		at.position++
	}
	return dst
}

// place is a place in the endless stream of a shard's unpadded reader.
type place struct {
	epoch    int   // of the range: how many ranges the stream has completed
	position int64 // in the epoch's order
	end      int64 // of the range
}

// consumed is how many samples of its stream an unpadded shard has read before an epoch.
func (p *Plan) consumed(epoch int) int64 {
	e := int64(epoch)
	switch p.cfg.LastBatch {
	case Fill:
		return p.filledBefore(e) * p.batch
	case Partial:
		return e * ceilDiv(p.largest, p.batch) * p.batch
	}
	return e * ceilDiv(p.least, p.batch) * p.batch // including the unfinished batch that is dropped
}

// filledBefore is T of the package comment: the number of batches that an unpadded Fill
// delivers before epoch e.
func (p *Plan) filledBefore(e int64) int64 {
	switch {
	case p.batch >= p.largest:
		return e
	case p.cfg.StickToShard:
		return ceilDiv(p.largest*e, p.batch)
	}
	// batch < largest, so the product is less than n+k.
	return ceilDiv(p.samples*e, p.batch*p.shards)
}

// seek finds sample number offset of a shard's stream.
func (p *Plan) seek(shard int, offset int64) place {
	if p.cfg.StickToShard {
		lo, hi := p.Range(shard, 0)
		size := hi - lo
		return place{epoch: int(offset / size), position: lo + offset%size, end: hi}
	}
	absolute := p.start(int64(shard)) + offset
	position := absolute % p.samples
	x := partOf(p.samples, position, p.shards)
	ranges := absolute/p.samples*p.shards + x
	return place{epoch: int(ranges - int64(shard)), position: position, end: p.start(x + 1)}
}
