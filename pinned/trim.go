package pinned

// Trim frees the released buffers that no reader sees, and the spare memory of all
// others, and returns how many bytes that were.
func (p *Pool) Trim() int64 {
	p.mu.Lock()
	idle := p.takeIdle()
	freed := p.cutSpare()
	p.mu.Unlock()

	p.budget.Release(freed)
	for _, b := range idle {
		freed += b.held
		p.discard(b)
	}
	return freed
}

// takeIdle removes all released buffers that no reader sees; p.mu is held.
func (p *Pool) takeIdle() []*Buffer {
	var idle []*Buffer
	kept := p.released[:0]
	for _, b := range p.released {
		if b.idle() {
			idle = append(idle, b)
		} else {
			kept = append(kept, b)
		}
	}
	clear(p.released[len(kept):])
	p.released = kept
	return idle
}

// cutSpare frees what buffers hold beyond their size; p.mu is held.
func (p *Pool) cutSpare() int64 {
	var freed int64
	for b := range p.owned {
		freed += b.cut()
	}
	for _, b := range p.released {
		freed += b.cut()
	}
	p.stats.Reserved -= freed
	return freed
}
