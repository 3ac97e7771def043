package shard

import "slices"

// Slot is one place in a batch.
type Slot struct {
	Position int64 // in the epoch's order
	// Epoch is the epoch whose permutation and random choices apply to the sample. It differs
	// from the batch's own epoch only if an unpadded plan has read ahead into the next range.
	Epoch int
	ID    int64 // the sample's index in the dataset
}

// Batch appends the slots of a batch to dst[:0], which it reallocates only if its capacity is
// too small. It returns them with the number of valid slots, which come first. A batch that
// does not exist has no slots. The cost depends only on the batch itself.
func (p *Plan) Batch(shard, epoch, batch int, dst []Slot) (slots []Slot, valid int) {
	count, valid := p.Size(shard, epoch, batch)
	dst = slices.Grow(dst[:0], count)
	if p.cfg.PadLastBatch {
		return p.padded(shard, epoch, batch, dst, count, valid), valid
	}
	return p.streamed(shard, epoch, batch, dst, count), valid
}

// padded appends the valid slots, and the range's last sample for the remaining ones.
func (p *Plan) padded(shard, epoch, batch int, dst []Slot, count, valid int) []Slot {
	lo, hi := p.Range(shard, epoch)
	order := p.Order(epoch)
	position := lo + int64(batch)*p.batch
	for range valid {
		dst = append(dst, Slot{Position: position, Epoch: epoch, ID: order.ID(position)})
		position++
	}
	if count == valid {
		return dst
	}
	last := Slot{Position: hi - 1, Epoch: epoch, ID: order.ID(hi - 1)}
	for range count - valid {
		dst = append(dst, last)
	}
	return dst
}

// streamed appends the next slots of the shard's endless stream.
func (p *Plan) streamed(shard, epoch, batch int, dst []Slot, count int) []Slot {
	if count == 0 {
		return dst
	}
	at := p.seek(shard, p.consumed(epoch)+int64(batch)*p.batch)
	order := p.Order(at.epoch)
	for range count {
		if at.position == at.end {
			at = p.enter(shard, at.epoch+1)
			order = p.Order(at.epoch)
		}
		dst = append(dst, Slot{Position: at.position, Epoch: at.epoch, ID: order.ID(at.position)})
		at.position++
	}
	return dst
}
