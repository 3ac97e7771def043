package pinned

import (
	"cmp"
	"maps"
	"slices"
	"time"
)

// Released buffers wait here to be taken again. Only the kernel knows which of them may be reused,
// and asking costs two system calls per buffer.

// How many buffers one Get asks about: the suiting best fits among the most recently released or
// queried ones (at most among), and the waiting ones that were queried longest ago, so that each
// gets its turn. Only when memory is short are all of them queried.
const (
	suiting = 4
	among   = 64
	waiting = 4
)

// take removes a released buffer that no reader sees, and gives it to the caller; nil if no
// candidate is free. If memory is short, all buffers that are large enough are candidates.
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

// candidates returns the released buffers to ask about, best fits first.
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

// suits orders buffers by how well they fit a size. Buffers that hold enough (need bytes) come
// first, the smallest first; then the others, the largest first, since it has the least to grow.
// Then comes the one whose size changes less, since pages that come and go must be cleared, and
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

// idle asks the kernel whether only the pool can see the bytes of a released buffer. The caller
// holds asking.
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

// unregister undoes Register before the pages of a buffer, which the caller owns, are freed. If the
// Registrar does not answer in time, unregister returns false: the caller no longer owns the
// buffer, which is destroyed later. While one buffer is overdue, unregister waits for no others.
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
		case <-left:
			p.destroy(b)
			p.leaving(-1, -1)
		}
	}()
	select {
	case <-done: // counted before this returns, or Close could report the buffer as left behind
		p.leaving(-1, 0)
		return true
	case <-time.After(wait):
		p.leaving(0, 1)
		left <- struct{}{}
		return false
	}
}

// leaving changes the counts of buffers that are leaving, and of overdue ones.
func (p *Pool) leaving(all, overdue int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.stats.Leaving += all
	p.overdue += overdue
}

// list turns the caller's buffer into a released one. A buffer without further use is freed.
func (p *Pool) list(b *Buffer) {
	if !p.enlist(b) {
		p.visit(b, false)
	}
}

// enlist appends a buffer to the released ones, and reports whether it may be used again. A buffer
// without memory would only hold a descriptor.
func (p *Pool) enlist(b *Buffer) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.released = append(p.released, b)
	return !p.closed && p.stats.ReuseError == nil && b.held > 0
}

// unlist takes a buffer out of the released ones. The caller holds asking.
func (p *Pool) unlist(b *Buffer) {
	p.mu.Lock()
	defer p.mu.Unlock()
	i := slices.Index(p.released, b)
	p.released = slices.Delete(p.released, i, i+1)
}

// leave makes a released buffer the most recently queried one. If it has no further use, leave
// frees it and returns its number of bytes. The caller holds asking.
func (p *Pool) leave(b *Buffer) int64 {
	p.unlist(b)
	if p.enlist(b) {
		return 0
	}
	p.unlist(b)
	return p.discard(b)
}

// Trim frees the released buffers that no reader sees, and the spare memory of all others. It
// returns how many bytes it freed and released to the budget; 0 means that nothing was freed, not
// even descriptors. It asks the kernel about every released buffer.
func (p *Pool) Trim() (freed int64) {
	p.mu.Lock()
	all := slices.AppendSeq(slices.Clone(p.released), maps.Keys(p.inUse))
	p.mu.Unlock()
	for _, b := range all {
		freed += p.visit(b, true)
	}
	return freed
}

// visit frees a released buffer without further use. With trim, it also frees one that no reader
// sees, and spare memory, even of a buffer in use. It returns how many bytes it freed. A Get that
// waits for asking finds that memory in the budget.
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

// cut frees the spare memory of a buffer, whether in use or released. The caller holds asking. The
// bytes in use stay where they are, so readers are not affected.
func (p *Pool) cut(b *Buffer) int64 {
	need := roundUp(b.size, pageSize)
	if b.held == need {
		return 0
	}
	freed := b.free(need, b.held-need)
	p.hold(b, b.held-freed)
	report(p.budget.Release, freed)
	return freed
}
