package engine

// take waits for a batch that wants a batch worker and makes the caller its owner;
// nil when the engine closes.
func (e *Engine) take() *batch {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.idle++
	defer func() { e.idle-- }()
	for !e.closed {
		if b := e.first(e.queue); b != nil && !e.tooEarly(b) {
			e.queue = without(e.queue, b)
			b.state, b.aside = owned, false
			return b
		}
		e.takeWork.Wait()
	}
	return nil
}

// tooEarly keeps memory and processors from a prefetched batch while a batch that
// somebody waits for keeps them busy: it has more samples left than there are
// processors, and those decode, or every item worker has one of them.
func (e *Engine) tooEarly(b *batch) bool {
	if b.waiting > 0 {
		return false
	}
	if e.idleItems > 0 && len(e.processors) < cap(e.processors) {
		return false
	}
	for _, m := range e.making {
		if m.waiting > 0 && m.items-m.finished > cap(e.processors) {
			return true
		}
	}
	return false
}

// claim waits for a slot to decode, in the batch that matters most; nil when the
// engine closes.
func (e *Engine) claim() (b *batch, slot int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for !e.closed {
		if b := e.first(e.making); b != nil {
			slot := b.next
			if b.order != nil {
				slot = int(b.order[slot])
			}
			b.next++
			b.inFlight++
			return b, slot
		}
		e.idleItems++
		e.takeWork.Broadcast() // it may no longer be too early for the next batch
		e.itemWork.Wait()
		e.idleItems--
	}
	return nil, 0
}

// first picks the batch that matters most among those that have slots to hand out
// or were not laid out yet.
func (e *Engine) first(list []*batch) *batch {
	var best *batch
	for _, b := range list {
		if b.state == owned && (b.aside || b.err != nil || b.next == b.items) {
			continue
		}
		if best == nil || e.before(b, best) {
			best = b
		}
	}
	return best
}

// before is the one rule of who goes first: batches that somebody waits for, in
// the order of asking; then prefetched ones, nearest to their reader first.
func (e *Engine) before(a, b *batch) bool {
	if (a.waiting > 0) != (b.waiting > 0) {
		return a.waiting > 0
	}
	if a.waiting > 0 {
		return a.asked < b.asked
	}
	return e.ahead(a) < e.ahead(b)
}

// urge makes way for a batch that somebody has begun to wait for.
func (e *Engine) urge(b *batch) {
	if b.aside {
		b.aside = false
		e.itemWork.Broadcast() // its slots are to be had again
	}
	if b.state != queued {
		return
	}
	if e.wantedInQueue() > e.idle {
		if victim := e.last(); victim != nil {
			victim.aside = true
			victim.progress.Signal()
		}
	}
	e.takeWork.Broadcast()
}

// wantedInQueue counts the batches that somebody waits for and nobody owns.
func (e *Engine) wantedInQueue() int {
	n := 0
	for _, b := range e.queue {
		if b.waiting > 0 {
			n++
		}
	}
	return n
}

// last is the batch in the making that matters least and that nobody waits for.
func (e *Engine) last() *batch {
	var worst *batch
	for _, b := range e.making {
		if b.waiting == 0 && !b.aside && (worst == nil || e.before(worst, b)) {
			worst = b
		}
	}
	return worst
}
