package pinned

import (
	"cmp"
	"slices"
)

// Released buffers that were not taken again. Only the kernel knows which of them may be reused,
// and asking costs two system calls for each. These are made without the pool's lock, on a
// buffer that is marked busy meanwhile: it stays where it is, and no other goroutine makes a
// system call on it.

// How many buffers one Get asks about: suiting of those that fit best, from the among that were
// released or queried most recently, and waiting of those that were queried longest ago, so that
// each one gets its turn. All of them are queried only when memory is short.
const (
	suiting = 4
	among   = 64
	waiting = 4
)

// take removes a released buffer that no reader sees; nil if it finds none.
func (p *Pool) take(size int64) *Buffer {
	p.mu.Lock()
	candidates := p.candidates(size)
	p.mu.Unlock()
	for _, b := range candidates {
		if p.seize(b, false) {
			if p.idle(b) {
				p.claim(b)
				return b
			}
			p.leave(b)
		}
	}
	return nil
}

// takeEnough is take for when the budget has refused: it considers all buffers that need not
// grow.
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

// candidates returns the buffers that take asks about; p.mu is held.
func (p *Pool) candidates(size int64) []*Buffer {
	var all []*Buffer
	for e := p.released.Back(); e != nil && len(all) < among; e = e.Prev() {
		if b := e.Value.(*Buffer); !b.busy {
			all = append(all, b)
		}
	}
	need := roundUp(size, pageSize)
	slices.SortFunc(all, func(a, b *Buffer) int { return a.suits(b, size, need) })
	all = all[:min(suiting, len(all))]
	for e := p.released.Front(); e != nil && len(all) < suiting+waiting; e = e.Next() {
		if b := e.Value.(*Buffer); !b.busy && !slices.Contains(all, b) {
			all = append(all, b)
		}
	}
	return all
}

// suits orders buffers for a size. Among those that hold enough (need bytes) the one that holds
// least comes first; among the others the one that holds most, since it has the least to grow;
// then the one whose size changes less, since pages that come and go have to be cleared, and
// then the one that was released last.
func (b *Buffer) suits(than *Buffer, size, need int64) int {
	missing := func(b *Buffer) int64 { return max(need-b.held, 0) }
	change := func(b *Buffer) int64 { return max(b.size-size, size-b.size) }
	return cmp.Or(
		cmp.Compare(missing(b), missing(than)),
		cmp.Compare(b.held, than.held),
		cmp.Compare(change(b), change(than)),
		cmp.Compare(than.turn, b.turn),
	)
}

// idle asks the kernel whether only the pool can see the bytes of a buffer that the caller has
// made busy.
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

// seize makes a released buffer busy; claim, leave or remove must follow. If another goroutine
// has it busy, seize returns false or, with wait, waits until that goroutine is done with it.
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

// claim takes a busy buffer out of the pool; the caller then owns it.
func (p *Pool) claim(b *Buffer) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.unlist(b)
}

// leave ends the busy state of a buffer and makes it the most recently queried one. It frees one
// that is no longer useful, and returns its size.
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

// remove frees a busy buffer and returns its number of bytes. Goroutines that wait for the
// buffer continue when the memory has been freed.
func (p *Pool) remove(b *Buffer) int64 {
	freed := p.discard(b)
	p.claim(b)
	return freed
}

// restore puts a claimed buffer back unchanged.
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

// all returns every released buffer, including busy ones.
func (p *Pool) all() []*Buffer {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.list(func(*Buffer) bool { return true })
}

// list returns the released buffers for which a condition holds; p.mu is held.
func (p *Pool) list(condition func(*Buffer) bool) []*Buffer {
	var all []*Buffer
	for e := p.released.Front(); e != nil; e = e.Next() {
		if b := e.Value.(*Buffer); condition(b) {
			all = append(all, b)
		}
	}
	return all
}
