package engine

import (
	"slices"
	"sync/atomic"
	"time"

	"github.com/batchfs/batchfs/internal/catalog"
)

// schedule decides which batch is made next. The lock of the batches guards it.
type schedule struct {
	*batches

	opens atomic.Uint64   // counts Opens; the lock does not guard it
	in    [ready][]*batch // batches that are not complete, by state, in the order in which they reached it
}

// A turn is the place of an Open in the order of all Opens. The Open keeps it until it has its
// batch, even if what it waited for gave way and is made anew.
type turn uint64

func (s *schedule) newTurn() turn { return turn(s.opens.Add(1)) }

// move brings a batch into a state.
func (s *schedule) move(b *batch, to state) {
	if b.state < ready {
		s.in[b.state] = without(s.in[b.state], b)
	}
	if b.state = to; to < ready {
		s.in[to] = append(s.in[to], b)
	}
}

// addOpen holds a batch for an Open. Unless it is ready, the Open waits for it, and it goes before
// what is only prefetched.
func (s *schedule) addOpen(b *batch, as turn) {
	b.openedAs, b.opened = max(b.openedAs, as), true
	if b.refs++; b.state == ready {
		return
	}
	if b.waiting++; b.waiting == 1 || as < b.askedAs {
		b.askedAs = as
	}
	s.takeWork.Broadcast()
	s.flow.room.some.Signal()
	if s.flow.hungReads.count.Load() > 0 {
		s.flow.moreSlots(1) // it may be loaded now
	}
}

// nextToLayOut picks the batch to lay out next, or nil if it is too early or memory is short. It
// considers only the most important batch, and only once those before it were laid out or refused:
// no later batch, and no later copy, takes the memory that they or their samples wait for. Copies
// are picked separately, but one that waits for memory holds batches back, too. Batches that wait
// for memory on a GPU hold up nothing else.
func (s *schedule) nextToLayOut(t task) *batch {
	// This comes first, as it is known at once, and there may be hundreds of batches in the queue.
	some := slices.ContainsFunc(s.in[wanted], func(b *batch) bool { return b.waiting > 0 && b.task() == t })
	if t == toMake && (s.busy(some) >= s.opts.BatchWorkers || !some && s.tooEarly()) {
		return nil
	}
	b := s.mostImportant(s.in[wanted], sameMemory(t))
	if b != nil && b.source != nil && !b.refused() {
		b = s.mostImportant(s.in[wanted], func(b *batch) bool { return b.task() == t })
	}
	switch {
	case b == nil || b.task() != t,
		b.refused() && b.triedAt == s.memory.ledger.returns(),
		t != toSend && s.waitsBefore(b),
		slices.ContainsFunc(s.in[layingOut], func(l *batch) bool { return sameMemory(t)(l) && s.goesBefore(l, b) }),
		t == toMake && !s.mayBegin(b):
		return nil
	}
	return b
}

// mayBegin reports whether a batch may begin beside those that have begun. Two batches that each
// need memory for a large sample could wait for one another, so a second batch with large samples
// begins only if room is left for the largest of them.
func (s *schedule) mayBegin(b *batch) bool {
	if b.large == 0 {
		return true
	}
	n, most := s.largest()
	return n == 0 || s.memory.ledger.admitLarge(b.size, max(b.large, most))
}

// largest counts the batches in the making that have large samples, and says what the largest of
// these samples takes. Batches whose reads hang do not count.
func (s *schedule) largest() (batches int, most int64) {
	for _, list := range s.in[layingOut : making+1] {
		for _, b := range list {
			if b.large > 0 && !s.flow.hungReads.hangs(b) {
				batches++
				most = max(most, b.large)
			}
		}
	}
	return batches, most
}

// sameMemory returns a test for batches that need the same memory as those of a task.
func sameMemory(t task) func(*batch) bool {
	return func(b *batch) bool { return b.isSent() == (t == toSend) }
}

// busy counts the batches that keep loads and drawers busy and are more important than a new batch:
// one that an Open waits for, if waited is true, or a prefetched one. A batch whose storage does
// not answer does not count.
func (s *schedule) busy(waited bool) int {
	n := 0
	for _, b := range s.in[layingOut] {
		if b.source == nil {
			n++
		}
	}
	for _, b := range s.in[making] {
		if (s.hasSlots(b) || b.inFlight > 0 && !s.flow.hungReads.hangs(b)) && (b.waiting > 0 || !waited) {
			n++
		}
	}
	return n
}

// tooEarly holds prefetched batches back while a batch that an Open waits for keeps all drawers
// busy and has slots to hand out.
func (s *schedule) tooEarly() bool {
	return s.flow.resting == 0 && slices.ContainsFunc(s.in[making], func(b *batch) bool {
		return b.waiting > 0 && len(b.todo) > 0 && !s.flow.hungReads.hangs(b)
	})
}

// nextSlot is the most important batch that has a slot for processors to fill.
func (s *schedule) nextSlot() *batch {
	onlyGPU := s.flow.forGPU()
	return s.mostImportant(s.in[making], func(b *batch) bool { return s.hasSlots(b) && !(onlyGPU && b.nextIsForGPU()) })
}

// nextForGPU is the most important batch that has a slot that a GPU may fill.
func (s *schedule) nextForGPU() *batch {
	return s.mostImportant(s.in[making], func(b *batch) bool { return s.hasSlots(b) && b.nextIsForGPU() })
}

// nextIsForGPU reports whether a GPU may make the item that a batch hands out next.
func (b *batch) nextIsForGPU() bool {
	return b.key.Part == catalog.Images && b.partOf(b.todo[0]) == catalog.Images
}

// hasSlots reports whether a batch has slots to hand out. It has none while one of its reads hangs
// or waits for memory, because it could not be completed anyway.
func (s *schedule) hasSlots(b *batch) bool {
	return len(b.todo) > 0 && !s.flow.room.hasWaiting(b) && !s.flow.hungReads.hangs(b) && (b.finished > 0 || s.flow.hungReads.mayHang(b))
}

// firstWaiting is the number of the item that gets memory first; -1: none is waiting. Items of a
// batch of which a read hangs wait until that returns: with them, it could not be completed either.
func (s *schedule) firstWaiting() int {
	first, waiting := -1, s.flow.room.waiting
	for i, it := range waiting {
		if !s.flow.hungReads.hangs(it.batch) && (first < 0 || s.goesBefore(it.batch, waiting[first].batch)) {
			first = i
		}
	}
	return first
}

// firstShort is the batch of that item, or of one on trial; nil: there is none.
func (s *schedule) firstShort() *batch {
	b := s.flow.room.onTrial()
	if i := s.firstWaiting(); i >= 0 && (b == nil || s.goesBefore(s.flow.room.waiting[i].batch, b)) {
		return s.flow.room.waiting[i].batch
	}
	return b
}

// waitsBefore reports whether an item of a batch as important as b, or more so, waits for memory.
func (s *schedule) waitsBefore(b *batch) bool {
	first := s.firstShort()
	return first != nil && !s.goesBefore(b, first)
}

// mostImportant picks the most important batch for which ok is true. A nil ok is true for all.
func (s *schedule) mostImportant(list []*batch, ok func(*batch) bool) *batch {
	var best *batch
	for _, b := range list {
		if (ok == nil || ok(b)) && (best == nil || s.goesBefore(b, best)) {
			best = b
		}
	}
	return best
}

// goesBefore is the priority of batches: first those that an Open waits for, in the order of
// their first Open; then prefetched ones, nearest to their reader first.
func (s *schedule) goesBefore(a, b *batch) bool {
	if (a.waiting > 0) != (b.waiting > 0) {
		return a.waiting > 0
	}
	if a.waiting > 0 {
		return a.askedAs < b.askedAs
	}
	return s.streams.Distance(a.key) < s.streams.Distance(b.key)
}

// refusedSince returns since when a batch has waited for memory: since it was refused some itself,
// or, in the queue, since a more important one was. Zero: it does not wait for memory.
func (s *schedule) refusedSince(b *batch) time.Time {
	if b.state > layingOut || !b.short.IsZero() {
		return b.short
	}
	if first := s.firstShort(); first != nil && s.goesBefore(first, b) {
		return first.short
	}
	if first := s.mostImportant(s.in[wanted], sameMemory(b.task())); first != nil {
		return first.short
	}
	return time.Time{}
}

// endMaking brings a batch into a state. Nothing more is read for it.
func (s *schedule) endMaking(b *batch, to state) {
	if s.move(b, to); b.large > 0 {
		if n, _ := s.largest(); n < 2 {
			s.memory.ledger.noLarge()
		}
	}
}

// count counts the batches that are not complete.
func (s *schedule) count() (n int64) {
	for _, list := range s.in {
		n += int64(len(list))
	}
	return n
}
