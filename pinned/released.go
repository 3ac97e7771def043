package pinned

import (
	"cmp"
	"maps"
	"slices"
	"time"
)

// Released buffers that were not taken again. Only the kernel knows which of them may be reused,
// and asking costs two system calls for each.

// How many buffers one Get asks about: suiting of those that fit best, from the among that were
// released or queried most recently, and waiting of those that were queried longest ago, so that
// each one gets its turn. All of them are queried only when memory is short.
const (
	suiting = 4
	among   = 64
	waiting = 4
)

// take removes a released buffer that no reader sees and that the caller then owns; nil if there
// is none among the candidates. If memory is short, these are all that need not grow.
func (p *Pool) take(size int64, short bool) *Buffer {
	p.asking.Lock()
	defer p.asking.Unlock()
	for _, b := range p.candidates(size, short) {
		if p.idle(b) {
			p.unlist(b)
			return b
		}
		p.leave(b)
	}
	return nil
}

// candidates returns the released buffers to ask about, those that fit best first.
func (p *Pool) candidates(size int64, short bool) []*Buffer {
	p.mu.Lock()
	defer p.mu.Unlock()
	need, latest := roundUp(size, pageSize), p.released
	if !short {
		latest = latest[max(0, len(latest)-among):]
	}
	best := slices.Clone(latest)
	slices.SortFunc(best, func(a, b *Buffer) int { return a.suits(b, size, need) })
	if short {
		return slices.DeleteFunc(best, func(b *Buffer) bool { return b.held < size })
	}
	best = best[:min(suiting, len(best))]
	for _, b := range p.released {
		if len(best) == suiting+waiting {
			break
		}
		if !slices.Contains(best, b) {
			best = append(best, b)
		}
	}
	return best
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

// idle asks the kernel whether only the pool can see the bytes of a released buffer; asking is
// held.
func (p *Pool) idle(b *Buffer) bool {
	if b.fd < 0 {
		return true
	}
	alone, err := p.store.alone(b.fd)
	if err != nil {
		p.mu.Lock()
		p.stats.ReuseError = err
		p.mu.Unlock()
	}
	return alone
}

// registrarWait is how long the pool waits for the Registrar, which usually takes less than a
// millisecond for each megabyte.
const registrarWait = time.Second

// unregister undoes Register of a buffer that the caller owns, before its pages are freed. If the
// Registrar does not answer, unregister returns false: the buffer is not the caller's any more, and
// is destroyed later. While one is awaited, no others are waited for.
func (p *Pool) unregister(b *Buffer) bool {
	if b.registered == nil {
		return true
	}
	p.mu.Lock()
	wait := registrarWait
	if p.overdue > 0 {
		wait = 0
	}
	p.stats.Leaving++
	p.mu.Unlock()
	done, left := make(chan struct{}), make(chan struct{}, 1)
	go func() {
		p.options.Registrar.Unregister(b.registered)
		b.registered = nil
		select {
		case done <- struct{}{}:
			p.leaving(-1, 0)
		case <-left:
			p.destroy(b)
			p.leaving(-1, -1)
		}
	}()
	select {
	case <-done:
		return true
	case <-time.After(wait):
		p.leaving(0, 1)
		left <- struct{}{}
		return false
	}
}

// leaving changes how many buffers are leaving, and how many of them nobody waits for any longer.
func (p *Pool) leaving(all, overdue int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.stats.Leaving += all
	p.overdue += overdue
}

// list makes a buffer of the caller a released one. One that cannot be useful again is freed.
func (p *Pool) list(b *Buffer) {
	if !p.enlist(b) {
		p.visit(b, false)
	}
}

// enlist appends a buffer to the released ones, and reports whether it may be useful again; one
// without memory would only hold a descriptor.
func (p *Pool) enlist(b *Buffer) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.released = append(p.released, b)
	return !p.closed && p.stats.ReuseError == nil && b.held > 0
}

// unlist takes a buffer out of the released ones; asking is held.
func (p *Pool) unlist(b *Buffer) {
	p.mu.Lock()
	defer p.mu.Unlock()
	i := slices.Index(p.released, b)
	p.released = slices.Delete(p.released, i, i+1)
}

// leave makes a released buffer the most recently queried one. It frees one that is no longer
// useful, and returns its number of bytes; asking is held.
func (p *Pool) leave(b *Buffer) int64 {
	p.unlist(b)
	if p.enlist(b) {
		return 0
	}
	p.unlist(b)
	return p.discard(b)
}

// Trim frees the released buffers that no reader sees, and the spare memory of all others. It
// returns how many bytes were freed, all of which it has released to the budget; 0 means that
// nothing was freed, not even descriptors. It asks the kernel about every released buffer.
func (p *Pool) Trim() (freed int64) {
	p.mu.Lock()
	all := slices.AppendSeq(slices.Clone(p.released), maps.Keys(p.inUse))
	p.mu.Unlock()
	for _, b := range all {
		freed += p.visit(b, true)
	}
	return freed
}

// visit frees a released buffer that cannot be useful again. To trim it, it also frees one that
// no reader sees, and spare memory, even of a buffer in use. It returns how many bytes were freed.
// Gets that wait for asking find that memory in the budget.
func (p *Pool) visit(b *Buffer, trim bool) (freed int64) {
	p.asking.Lock()
	defer p.asking.Unlock()
	p.mu.Lock()
	_, used := p.inUse[b]
	released := slices.Contains(p.released, b)
	p.mu.Unlock()
	if trim && released && p.idle(b) {
		p.unlist(b)
		return p.discard(b)
	}
	if trim && (released || used) { // otherwise a Get has it
		freed = p.cut(b)
	}
	if released {
		freed += p.leave(b)
	}
	return freed
}

// cut frees the spare memory of a buffer, whether in use or released; asking is held. The bytes in
// use stay where they are, so readers are not affected.
func (p *Pool) cut(b *Buffer) int64 {
	need := roundUp(b.size, pageSize)
	spare := b.held - need
	if spare == 0 || !b.free(need, spare) {
		return 0
	}
	p.hold(b, need)
	p.budget.Release(spare)
	return spare
}
