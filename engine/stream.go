package engine

import (
	"cmp"
	"slices"
	"time"

	"github.com/batchfs/batchfs/layout"
)

// maxStreams bounds the streams per shard; the least recently used one is ended first.
const maxStreams = 16

// A stream is one roughly sequential reading of a shard, by one process or by several that
// share the work. It continues from one epoch into the next.
type stream struct {
	shard   int
	head    Key         // the farthest batch opened
	form    layout.Form // the form opened last; prefetched batches are made in it
	inOrder bool        // it has shown an order worth reading ahead for
	ahead   []*batch    // prefetched, not opened
	recent  []*batch    // opened, most recent last: kept for a second form or a late rank
	lag     int         // maximum number of batches that a read was behind the head
	used    time.Time
	ended   bool
}

// follow finds or begins the stream that an Open of b belongs to, moves its head, and reads
// ahead.
func (e *Engine) follow(b *batch, form layout.Form) {
	s := b.stream
	if s == nil || s.ended || !s.matches(e, b.key) {
		s = e.findStream(b.key)
	}
	if s == nil {
		s = e.beginStream(b.key)
	}
	if steps := e.catalog.Steps(s.head, b.key, e.window()); steps > 0 {
		s.head, s.inOrder = b.key, true
	} else {
		s.lag = max(s.lag, e.catalog.Steps(b.key, s.head, e.window()))
	}
	s.form, s.used = form, time.Now()
	b.leaveStream()
	b.stream, b.opened = s, true
	e.keep(s, b)
	e.absorb(s)
	e.readAhead(s)
}

// window is how far from the head of a stream an Open still belongs to it: enough for
// several processes that take turns.
func (e *Engine) window() int { return max(8, 2*e.opts.PrefetchDepth) }

func (s *stream) matches(e *Engine, k Key) bool {
	return k == s.head || e.catalog.Steps(s.head, k, e.window()) > 0 || e.catalog.Steps(k, s.head, e.window()) > 0
}

// findStream returns the stream with the nearest head at or before k.
func (e *Engine) findStream(k Key) *stream {
	var best *stream
	nearest := e.window() + 1
	for _, s := range e.streams[k.Shard] {
		if s.head == k {
			return s
		}
		reach := e.window()
		if !s.inOrder {
			reach = e.opts.PrefetchDepth + 1 // no order has been seen yet
		}
		if steps := e.catalog.Steps(s.head, k, reach); steps > 0 && steps < nearest {
			best, nearest = s, steps
		}
	}
	return best
}

// beginStream starts a stream at k. The first batch of an epoch is enough to start reading
// ahead; any other batch might be the only one wanted.
func (e *Engine) beginStream(k Key) *stream {
	list := e.streams[k.Shard]
	for _, s := range list {
		if !s.inOrder {
			e.release(s) // a lone batch is kept only until the next one
		}
	}
	if len(list) >= maxStreams {
		oldest := list[0]
		for _, s := range list {
			if s.used.Before(oldest.used) {
				oldest = s
			}
		}
		e.endStream(oldest)
	}
	s := &stream{shard: k.Shard, head: k, inOrder: k.Batch == 0}
	e.streams[k.Shard] = append(e.streams[k.Shard], s)
	return s
}

// keep makes b the newest batch that s keeps. A stream keeps as many batches as its slowest
// reader has been behind, one more for a slightly later reader, and the newest. They give
// way to any other request for memory.
func (e *Engine) keep(s *stream, b *batch) {
	s.recent = append(without(s.recent, b), b)
	for len(s.recent) > s.lag+2 {
		left := slices.MinFunc(s.recent[:len(s.recent)-1], func(a, b *batch) int { // the one farthest behind
			return cmp.Or(a.key.Epoch-b.key.Epoch, a.key.Batch-b.key.Batch)
		})
		s.recent = without(s.recent, left)
		e.settle(left)
	}
}

// newest is the batch opened last, if it is still kept.
func (s *stream) newest() *batch {
	if len(s.recent) == 0 {
		return nil
	}
	return s.recent[len(s.recent)-1]
}

// settle frees a complete batch that nothing holds, no stream keeps, and no stream has
// prefetched.
func (e *Engine) settle(b *batch) {
	if b.state != ready || b.refs > 0 {
		return
	}
	if s := b.stream; s == nil || s.ended || b.opened && !slices.Contains(s.recent, b) {
		b.state = failed
		e.forget(b)
	}
}

// release gives back the batches that a stream keeps or has prefetched.
func (e *Engine) release(s *stream) {
	for _, b := range slices.Clone(s.ahead) {
		if b.refs == 0 {
			e.drop(b)
		}
	}
	recent := s.recent
	s.recent = nil
	for _, b := range recent {
		if b.refs == 0 && b.state < ready {
			e.drop(b)
		} else {
			e.settle(b)
		}
	}
}

// isLatest reports whether a stream is the one begun last in its shard.
func (e *Engine) isLatest(s *stream) bool {
	list := e.streams[s.shard]
	return len(list) > 0 && list[len(list)-1] == s
}

// endStream forgets a stream.
func (e *Engine) endStream(s *stream) {
	e.release(s)
	s.ended = true
	e.streams[s.shard] = without(e.streams[s.shard], s)
	if len(e.streams[s.shard]) == 0 {
		delete(e.streams, s.shard)
	}
}

// absorb merges streams that have met: one read-ahead is enough for readers of the same
// batches.
func (e *Engine) absorb(s *stream) {
	for _, t := range slices.Clone(e.streams[s.shard]) {
		if t == s || !s.meets(e, t.head) {
			continue
		}
		if ahead := e.catalog.Steps(s.head, t.head, e.window()); ahead > 0 {
			s.head, s.lag = t.head, max(s.lag, ahead)
		}
		for _, b := range t.ahead {
			b.stream = s
			s.ahead = append(s.ahead, b)
		}
		for _, b := range t.recent {
			b.stream = s
		}
		s.recent = append(t.recent, s.recent...)
		t.ahead, t.recent, s.inOrder, s.lag = nil, nil, s.inOrder || t.inOrder, max(s.lag, t.lag)
		e.endStream(t)
	}
}

// meets reports whether a reader at k is so near the head that both soon read the same
// batches.
func (s *stream) meets(e *Engine, k Key) bool {
	near := max(4, e.opts.PrefetchDepth)
	return k == s.head || e.catalog.Steps(s.head, k, near) > 0 || e.catalog.Steps(k, s.head, near) > 0
}

// readAhead queues the next batches of a stream and drops those that its reader has passed.
func (e *Engine) readAhead(s *stream) {
	if !s.inOrder || e.closed {
		return
	}
	depth := e.opts.PrefetchDepth
	slices.SortStableFunc(s.ahead, func(a, b *batch) int { return e.ahead(a) - e.ahead(b) })
	for _, b := range slices.Backward(slices.Clone(s.ahead)) {
		if len(s.ahead) > depth || e.catalog.Steps(s.head, b.key, depth) == 0 && e.catalog.Steps(b.key, s.head, depth) == 0 {
			e.drop(b)
		}
	}
	for k, n := s.head, 0; n < depth && len(s.ahead) < depth; n++ {
		var ok bool
		if k, ok = e.catalog.Next(k); !ok {
			return
		}
		if e.table[k] == nil && !e.tried[k] { // else it would fail again; whoever opens it has that looked at
			b := e.newBatch(k, s.form)
			b.stream = s
			s.ahead = append(s.ahead, b)
			e.enqueue(b)
		}
	}
}

// leaveStream removes the batch from the stream it belongs to.
func (b *batch) leaveStream() {
	s := b.stream
	if s == nil {
		return
	}
	s.ahead, s.recent = without(s.ahead, b), without(s.recent, b)
	b.stream = nil
}

// ahead is how far a batch is ahead of its reader. Batches behind the reader or without a
// stream count as farthest.
func (e *Engine) ahead(b *batch) int {
	const farthest = 1 << 30
	if b.stream == nil {
		return farthest
	}
	if n := e.catalog.Steps(b.stream.head, b.key, e.window()+e.opts.PrefetchDepth); n > 0 {
		return n
	}
	return farthest - 1
}

// watchIdle ends streams that have not been read for a while, and returns the memory of
// their batches to the system.
func (e *Engine) watchIdle() {
	timer := time.NewTimer(e.opts.IdleAfter)
	defer timer.Stop()
	for {
		select {
		case <-e.closing:
			return
		case <-timer.C:
		}
		timer.Reset(e.endIdle(time.Now()))
	}
}

// endIdle ends the streams that are idle now, and returns the time until the next check.
func (e *Engine) endIdle(now time.Time) time.Duration {
	e.mu.Lock()
	wait, ended := e.opts.IdleAfter, false
	for _, list := range e.streams {
		for _, s := range slices.Clone(list) {
			rest := e.opts.IdleAfter - now.Sub(s.used)
			switch {
			case s.newest() != nil && s.newest().refs > 0: // it is open
			case rest <= 0:
				e.endStream(s)
				ended = true
			default:
				wait = min(wait, rest)
			}
		}
	}
	// Trim without streams, too: readers may have closed batches that outlived their
	// stream.
	ended = ended || len(e.streams) == 0
	e.mu.Unlock()
	if ended {
		e.pool.Trim()
	}
	return max(wait, time.Millisecond)
}
