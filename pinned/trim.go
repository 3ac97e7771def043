package pinned

// Trim frees the released buffers that no reader sees, and the spare memory of all
// others. It returns how many bytes have come back, all of which the budget has been
// told of; 0: nothing was freed, descriptors included. It asks the kernel about
// every released buffer.
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

// spare is the buffers that hold more than their size takes.
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

// spare is how much memory lies beyond the bytes in use. Pool.mu is held.
func (b *Buffer) spare() int64 { return b.held - roundUp(b.size, pageSize) }

// cut frees the spare memory of a buffer, whether it is in use or was released, and
// returns how many bytes it was. The bytes in use stay where they are, whoever looks
// at them.
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

// seizeSpare makes a buffer busy that has memory to spare and is not being changed.
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
