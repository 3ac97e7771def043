package engine

import "cmp"

// makeRoom frees some memory for the sake of a batch that was refused n bytes, or
// waits until some that is about to be freed has come back. It reports false when
// there is nothing left to give, or when nobody wants the batch now: prefetching
// takes only what is free, or what the cache can do without.
//
// before is what Ledger.returns said before the memory was refused.
func (e *Engine) makeRoom(b *batch, n int64, before uint64) bool {
	if e.pool.Trim() > 0 || e.ledger.returns() != before {
		return true
	}
	if e.wanted(b) && e.keeper.giveWay() > 0 {
		return true
	}
	if e.cache != nil && e.cache.Trim(n) > 0 {
		return true
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed || b.err != nil || b.refs == 0 {
		return false
	}
	if e.ledger.returns() != before { // by a batch that has ended since
		return true
	}
	if victim := e.victim(b); victim != nil {
		e.drop(victim)
		return true
	}
	if e.giving > 0 || e.decoding > 0 { // who calls is not decoding
		e.memory.Wait()
		return true
	}
	b.denied = true
	return false
}

// victim picks the batch that is missed least: one that was already read, the
// longest ago; then a prefetched one, the farthest from its reader.
func (e *Engine) victim(except *batch) *batch {
	var best *batch
	for _, b := range e.table {
		if b == except || b.refs > 0 || b.state != owned && b.buf == nil {
			continue
		}
		if best == nil || e.missedLess(b, best) {
			best = b
		}
	}
	return best
}

func (e *Engine) missedLess(a, b *batch) bool {
	if a.opened != b.opened {
		return a.opened
	}
	if a.opened {
		return a.asked < b.asked
	}
	return cmp.Compare(e.ahead(a), e.ahead(b)) > 0
}

// reserveScratch charges n bytes that a worker needs while it decodes for b.
func (e *Engine) reserveScratch(b *batch, n int64) error {
	for {
		before := e.ledger.returns()
		if e.ledger.reserve(useScratch, n) {
			return nil
		}
		if !e.makeRoom(b, n, before) {
			return ErrNoMemory
		}
	}
}

// beginDecode charges what a codec will take while it decodes one image, and waits
// for a processor. No more images are decoded at once than there are processors:
// more workers than that wait for storage together, which is what they are good
// for, but do not take time slices from one another. The order matters: whoever
// has a processor waits for nothing.
func (e *Engine) beginDecode(b *batch, scratch int64) error {
	if err := e.reserveScratch(b, scratch); err != nil {
		return err
	}
	e.mu.Lock()
	e.decoding++
	e.mu.Unlock()
	e.processors <- struct{}{}
	return nil
}

func (e *Engine) endDecode(scratch int64) {
	<-e.processors
	e.ledger.release(useScratch, scratch)
	e.mu.Lock()
	e.decoding--
	e.memory.Broadcast()
	e.mu.Unlock()
}
