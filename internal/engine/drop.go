package engine

// discard ends a batch that nothing holds. Its memory is freed at once, or by the last writer.
func (all *batches) discard(b *batch) {
	if b.refs != 0 {
		panic("engine: a batch that somebody holds is dropped")
	}
	all.removeBatch(b, errDropped)
}

// removeBatch removes a batch from all tables and lists and frees its memory.
func (all *batches) removeBatch(b *batch, why error) {
	b.err = why
	all.schedule.endMaking(b, failed)
	all.takeWork.Broadcast() // there is room for the next one
	all.flow.room.drop(b)
	all.remove(b)
	if s := b.source; s != nil && s.copies[b.form] == b {
		delete(s.copies, b.form)
	}
	for _, c := range b.copies { // copies that are wanted have no memory yet, or they would hold this batch
		all.removeBatch(c, errGone)
		if c.refs > 0 {
			close(c.done)
		}
	}
	b.free(all.memory)
}

// holdSource holds the source of a copy that has memory and is wanted. The source may itself be a
// copy, of a batch that is on a GPU.
func (b *batch) holdSource() {
	if b.source != nil && !b.holds && b.refs > 0 && b.state != wanted {
		b.holds = true
		b.source.refs++
		b.source.holdSource()
	}
}

// free frees a batch's memory. While the batch is being laid out, written into or copied, it
// does nothing: the last writer frees it.
func (b *batch) free(m *memory) {
	if b.writers > 0 {
		return
	}
	b.freeHost(m)
	b.freeSlot(m)
}

func (b *batch) freeHost(m *memory) {
	if b.writers == 0 && b.buf != nil {
		m.freeBuffer(b.buf)
		b.buf, b.pixels, b.masks, b.arrays = nil, nil, nil, nil
	}
}

func (b *batch) freeSlot(m *memory) {
	if b.slot != nil {
		b.slot.Release()
		b.slot, b.onGPU = nil, nil
		m.ledger.cameBack()
	}
}

// freeUnneeded frees a complete batch that nothing holds and no stream needs.
func (all *batches) freeUnneeded(b *batch) {
	if b.state == ready && b.refs == 0 && !(all.isKnown(b) && all.streams.Needs(b.key)) && !b.isAhead() && !b.isToBeCopied() {
		all.discard(b)
	}
}

// isToBeCopied reports whether an Open waits for a copy of a batch.
func (b *batch) isToBeCopied() bool {
	for _, c := range b.copies {
		if c.refs > 0 {
			return true
		}
	}
	return false
}
