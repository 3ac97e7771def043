package pinned

import (
	"cmp"
	"slices"
)

// Buffers that were released and not taken again: which of them may be used is
// the kernel's to say, and costs two system calls for each. They are made without
// the pool's lock, on a buffer that is marked as busy meanwhile: it stays where it
// is, and nobody else makes one on it.

// How many buffers one Get asks about: those that would suit it best, among as many as
// were released or asked about last, and those that were asked about longest ago, so
// that every one gets its turn. All of them are asked about only where memory is short.
const (
	suiting = 4
	among   = 256
	waiting = 4
)

// take removes a released buffer that no reader sees, nil where it found none.
func (p *Pool) take(size int64) *Buffer {
	p.mu.Lock()
	candidates := p.candidates(size)
	p.mu.Unlock()
	for _, b := range candidates {
		if b != nil && p.seize(b, false) {
			if p.idle(b) {
				p.claim(b)
				return b
			}
			p.leave(b)
		}
	}
	return nil
}

// takeEnough is take among all buffers that need not grow: for when the budget has
// refused.
func (p *Pool) takeEnough(size int64) *Buffer {
	need := roundUp(size, pageSize)
	p.mu.Lock()
	all := p.list(func(b *Buffer) bool { return b.held >= need })
	slices.SortStableFunc(all, func(a, b *Buffer) int { return cmp.Compare(a.held, b.held) })
	p.mu.Unlock()
	for _, b := range all {
		if !p.seize(b, true) {
			continue
		}
		if b.held >= need && p.idle(b) {
			p.claim(b)
			return b
		}
		p.leave(b)
	}
	return nil
}

// candidates are the buffers that take asks about; p.mu is held.
func (p *Pool) candidates(size int64) (all [suiting + waiting]*Buffer) {
	best, n := all[:suiting], suiting
	need := roundUp(size, pageSize)
	looked := 0
	for e := p.released.Back(); e != nil && looked < among; e = e.Prev() {
		looked++
		b := e.Value.(*Buffer)
		if b.busy || !b.suits(best[suiting-1], size, need) {
			continue
		}
		at := suiting - 1
		for ; at > 0 && b.suits(best[at-1], size, need); at-- {
			best[at] = best[at-1]
		}
		best[at] = b
	}
	for e := p.released.Front(); e != nil && n < len(all); e = e.Next() {
		if b := e.Value.(*Buffer); !b.busy && !slices.Contains(best, b) {
			all[n] = b
			n++
		}
	}
	return all
}

// suits prefers the buffer that holds the least of those that hold enough, need bytes,
// else the one that holds the most, which then has the least to grow. Of two that
// hold the same it is the one whose size changes less, since pages that come and go
// have to be cleared, and then the one that was released last. Any suits better than
// none.
func (b *Buffer) suits(than *Buffer, size, need int64) bool {
	if than == nil {
		return true
	}
	enough := b.held >= need
	switch near, far := distance(b.size, size), distance(than.size, size); {
	case enough != (than.held >= need):
		return enough
	case b.held != than.held:
		return (b.held < than.held) == enough
	case near != far:
		return near < far
	}
	return b.turn > than.turn
}

func distance(a, b int64) int64 { return max(a-b, b-a) }

// idle asks the kernel whether nobody but the pool can see the bytes of a buffer
// that the caller has busy.
func (p *Pool) idle(b *Buffer) bool {
	if b.fd < 0 {
		return true
	}
	alone, err := p.store.alone(b.fd)
	if err != nil {
		p.mu.Lock()
		p.reuseError = err
		p.mu.Unlock()
	}
	return alone
}

// seize makes a released buffer busy, which one of claim, leave and remove ends.
// Where somebody else has it busy the answer is no, or the caller waits until it is
// known what becomes of it.
func (p *Pool) seize(b *Buffer, wait bool) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	for wait && b.busy {
		p.settled.Wait()
	}
	if b.busy || b.place == nil {
		return false
	}
	b.busy = true
	return true
}

// claim takes a busy buffer out of the pool. It is the caller's.
func (p *Pool) claim(b *Buffer) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.unlist(b)
}

// leave leaves a busy buffer where it is, as the one that was asked about last. One
// that is of no use any more goes, and its size is returned.
func (p *Pool) leave(b *Buffer) int64 {
	p.mu.Lock()
	stays := b.place == nil || p.keeps(b)
	if stays {
		if b.place != nil {
			p.released.MoveToBack(b.place)
		}
		b.busy = false
		p.settled.Broadcast()
	}
	p.mu.Unlock()
	if stays {
		return 0
	}
	return p.remove(b)
}

// remove frees a busy buffer and returns how many bytes that were. Whoever waits for
// the buffer goes on when they have come back.
func (p *Pool) remove(b *Buffer) int64 {
	freed := p.discard(b)
	p.claim(b)
	return freed
}

// restore puts a claimed buffer back as it was.
func (p *Pool) restore(b *Buffer) {
	p.mu.Lock()
	b.place, b.busy = p.released.PushBack(b), true
	p.mu.Unlock()
	p.leave(b)
}

// unlist takes a buffer out of the list; p.mu is held.
func (p *Pool) unlist(b *Buffer) {
	p.released.Remove(b.place)
	b.place, b.busy = nil, false
	p.settled.Broadcast()
}

// all is every released buffer, busy ones included.
func (p *Pool) all() []*Buffer {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.list(func(*Buffer) bool { return true })
}

// list is the released buffers that a condition holds for; p.mu is held.
func (p *Pool) list(condition func(*Buffer) bool) []*Buffer {
	var all []*Buffer
	for e := p.released.Front(); e != nil; e = e.Next() {
		if b := e.Value.(*Buffer); condition(b) {
			all = append(all, b)
		}
	}
	return all
}
