package pinned

// Trim frees the released buffers that no reader sees, and the spare memory of all others. It
// returns how many bytes were freed, all of which it has released to the budget; 0 means that
// nothing was freed, not even descriptors. It asks the kernel about every released buffer.
func (p *Pool) Trim() int64 {
	var freed int64
	for _, b := range p.all() {
		if !p.seize(b, true) {
			continue
		}
		if p.idle(b) {
			freed += p.remove(b)
		} else {
			freed += p.leave(b)
		}
	}
	for _, b := range p.spare() {
		freed += p.cut(b)
	}
	return freed
}

// spare returns the buffers that hold more than their size needs.
func (p *Pool) spare() []*Buffer {
	p.mu.Lock()
	defer p.mu.Unlock()
	all := p.list(func(b *Buffer) bool { return b.spare() > 0 })
	for b := range p.owned {
		if b.spare() > 0 {
			all = append(all, b)
		}
	}
	return all
}

// spare is the memory beyond the bytes in use. Pool.mu is held.
func (b *Buffer) spare() int64 { return b.held - roundUp(b.size, pageSize) }

// cut frees the spare memory of a buffer, whether in use or released, and returns how many bytes
// it was. The bytes in use stay where they are, so readers are not affected.
func (p *Pool) cut(b *Buffer) int64 {
	spare, ok := p.seizeSpare(b)
	if !ok {
		return 0
	}
	var freed int64
	need := roundUp(b.size, pageSize)
	if b.free(need, spare) {
		freed = spare
		p.hold(b, need)
		p.giveBack(freed)
	}
	return freed + p.leave(b)
}

// seizeSpare makes a buffer busy if it has spare memory and no goroutine is changing it.
func (p *Pool) seizeSpare(b *Buffer) (spare int64, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if _, owned := p.owned[b]; b.busy || !owned && b.place == nil { // a Get has it
		return 0, false
	}
	spare = b.spare()
	b.busy = spare > 0
	return spare, b.busy
}
