package engine

// A task is the next step of a batch worker, for one turn of a batch.
type task struct {
	b        *batch
	turn     int
	assemble bool // else lay it out
}

// take waits for a batch to lay out or to assemble. It returns false when the engine
// closes.
func (e *Engine) take() (task, bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for !e.closed {
		if len(e.completed) > 0 {
			b := e.completed[0]
			e.completed = without(e.completed, b)
			b.writers++
			return task{b, b.turn, true}, true
		}
		if b := e.nextBatch(); b != nil {
			e.queue = without(e.queue, b)
			b.state = laying
			b.writers++
			e.layingOut++
			return task{b, b.turn, false}, true
		}
		if e.unfinished() == 0 {
			e.quiet.Broadcast()
		}
		e.takeWork.Wait()
	}
	return task{}, false
}

// nextBatch picks the batch to lay out next, or nil if there is none, or if it is too early
// or memory is short. Only the most important batch is ever considered: it waits for memory
// in its turn, and no later batch takes that memory meanwhile.
func (e *Engine) nextBatch() *batch {
	b := e.mostImportant(e.queue, func(*batch) bool { return true })
	switch {
	case b == nil:
		return nil
	case b.refused && b.refusedAt == e.ledger.returns():
		return nil
	case e.busy(b.waiting > 0) >= e.opts.BatchWorkers:
		return nil
	case b.waiting == 0 && e.tooEarly():
		return nil
	}
	return b
}

// busy counts the batches that keep item workers busy and go before a new wanted or
// prefetched batch. A batch whose storage does not answer does not count.
func (e *Engine) busy(wanted bool) int {
	n := e.layingOut
	for _, m := range e.making {
		if (e.hasSlots(m) || m.inFlight > 0 && m.stalled == 0) && (m.waiting > 0 || !wanted) {
			n++
		}
	}
	return n
}

// tooEarly holds prefetched batches back while a batch that an Open waits for keeps the
// processors busy: it has more samples left than there are processors, and either all
// processors are decoding or every item worker has a sample.
func (e *Engine) tooEarly() bool {
	if e.idleItems > 0 && len(e.processors) < cap(e.processors) {
		return false
	}
	for _, m := range e.making {
		if m.waiting > 0 && m.stalled == 0 && m.items-m.finished > cap(e.processors) {
			return true
		}
	}
	return false
}

// claim waits for a slot to decode, in the most important batch. It returns false when the
// engine closes, or when there are more workers than needed.
func (e *Engine) claim(w *worker) (item, bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for !e.closed {
		if e.surplusWorker() {
			e.workers = without(e.workers, w) // now, or the next worker that checks would end as well
			break
		}
		if b := e.mostImportant(e.making, e.hasSlots); b != nil {
			w.item = item{b, b.nextSlot(), b.turn}
			b.inFlight++
			return w.item, true
		}
		if w.gave != e.scratchAsked {
			w.gave = e.scratchAsked
			return item{}, true
		}
		e.idleItems++
		e.takeWork.Broadcast() // it may no longer be too early for the next batch
		e.itemWork.Wait()
		e.idleItems--
	}
	return item{}, false
}

// hasSlots tells whether the batch has slots to hand out. It hands out none while it
// waits for memory, nor while a read for it hangs: it could not be completed anyway, and
// the worker that took one might hang as well.
func (e *Engine) hasSlots(b *batch) bool {
	return !b.refused && b.stalled == 0 && (b.next < b.items || len(b.again) > 0) && (b.finished > 0 || e.mayHang(b))
}

// nextSlot hands out a slot of a batch that has slots.
func (b *batch) nextSlot() (slot int) {
	if last := len(b.again) - 1; last >= 0 {
		slot = int(b.again[last])
		b.again = b.again[:last]
		return slot
	}
	slot = b.next
	if b.order != nil {
		slot = int(b.order[slot])
	}
	b.next++
	return slot
}

// mostImportant picks the most important batch for which serves is true.
func (e *Engine) mostImportant(list []*batch, serves func(*batch) bool) *batch {
	var best *batch
	for _, b := range list {
		if serves(b) && (best == nil || e.before(b, best)) {
			best = b
		}
	}
	return best
}

// before defines the priority of batches: batches that an Open waits for, in the order of
// their first waiting Open; then prefetched ones, nearest to their reader first.
func (e *Engine) before(a, b *batch) bool {
	if (a.waiting > 0) != (b.waiting > 0) {
		return a.waiting > 0
	}
	if a.waiting > 0 {
		return a.asked < b.asked
	}
	return e.ahead(a) < e.ahead(b)
}
