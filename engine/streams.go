package engine

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/batchfs/batchfs/layout"
)

// maxStreams bounds the streams per shard; the least recently used one is ended first.
const maxStreams = 16

// A stream is one roughly sequential reading of a shard, by one process or by several that
// share the work. It continues from one epoch into the next.
type stream struct {
	head    Key         // the farthest batch opened
	at      Key         // the batch opened last
	form    layout.Form // the form opened last; prefetched batches are made in it
	inOrder bool        // it has shown an order worth reading ahead for
	ahead   []*batch    // prefetched, not opened
	recent  []*batch    // opened, most recent last: kept for a second form or a late rank
	lag     int         // maximum number of batches that a read was behind the head
	used    time.Time   // a batch was opened, or closed
	opened  time.Time   // a batch was
	ended   bool
	begun   bool // it holds the batches of a shard that were begun by name: nobody reads it in order
}

// streams says who reads what next: which batches to read ahead, and which of those that
// were read to keep. The lock of the batches guards it.
type streams struct {
	catalog *Catalog
	depth   int // batches made ahead, per stream
	shelf   shelf
	byShard map[int][]*stream // the one begun last at the end
	begun   map[int]*stream   // of batches that were begun by name
}

// maxBegun bounds the batches per shard that were begun by name and not opened yet.
const maxBegun = 16

// A shelf holds the batches of streams.
type shelf interface {
	// prefetch has a batch made for a stream. It returns nil if the batch is there already, or
	// is known to fail.
	prefetch(k Key, s *stream) *batch
	// discard gives up a batch that nothing holds.
	discard(b *batch)
	// freeUnneeded frees a complete batch that nothing holds and no stream keeps.
	freeUnneeded(b *batch)
}

// follow finds or begins the stream that an Open of b belongs to, moves its head, and reads
// ahead.
func (all *streams) follow(b *batch, form layout.Form) {
	s := b.stream
	if s == nil || s.ended || s.begun || b.key != s.head && all.catalog.Steps(s.head, b.key, all.window()) == 0 {
		s = all.find(b.key)
	}
	if s == nil {
		s = all.begin(b.key)
	}
	if steps := all.catalog.Steps(s.head, b.key, all.window()); steps > 0 {
		s.head, s.inOrder = b.key, true
	} else {
		s.lag = max(s.lag, -steps)
	}
	s.at, s.form, s.opened = b.key, form, time.Now()
	s.used = s.opened
	b.leaveStream()
	b.stream, b.opened = s, true
	all.keepOpened(s, b)
	all.mergeMet(s)
	all.readAhead(s)
}

// window is how far from the head of a stream an Open still belongs to it: enough for several
// processes that take turns.
func (all *streams) window() int { return max(8, 2*all.depth) }

// find returns the stream with the nearest head at or before k.
func (all *streams) find(k Key) *stream {
	var best *stream
	nearest := all.window() + 1
	for _, s := range all.byShard[k.Shard] {
		if s.head == k {
			return s
		}
		reach := all.window()
		if !s.inOrder {
			reach = all.depth + 1 // no order has been seen yet
		}
		if steps := all.catalog.Steps(s.head, k, reach); steps > 0 && steps < nearest {
			best, nearest = s, steps
		}
	}
	return best
}

// begin starts a stream at k. At the first batch of an epoch it reads ahead at once; any other
// batch might be the only one wanted.
func (all *streams) begin(k Key) *stream {
	list := all.byShard[k.Shard]
	for _, s := range list {
		if !s.inOrder {
			all.giveUpBatches(s) // a lone batch is kept only until the next one
		}
	}
	if len(list) >= maxStreams {
		all.end(slices.MinFunc(list, func(a, b *stream) int { return a.used.Compare(b.used) }))
	}
	s := &stream{head: k, inOrder: k.Batch == 0}
	all.byShard[k.Shard] = append(all.byShard[k.Shard], s)
	return s
}

// beginNamed has a batch made that a reader will open, wherever it reads, unless many such
// batches are waiting to be opened already. They are the first to give way among those made ahead.
func (all *streams) beginNamed(k Key, form layout.Form) {
	s := all.begun[k.Shard]
	if s == nil {
		s = &stream{head: k, begun: true}
		all.begun[k.Shard] = s
	}
	if len(s.ahead) >= max(maxBegun, all.depth) {
		return
	}
	s.form, s.used = form, time.Now()
	if b := all.shelf.prefetch(k, s); b != nil {
		b.stream = s
		s.ahead = append(s.ahead, b)
	}
}

// keepOpened makes b the newest batch that s keeps. A stream keeps as many batches as its
// slowest reader has been behind, one more for a slightly later reader, and the newest. They
// give way to any other request for memory.
func (all *streams) keepOpened(s *stream, b *batch) {
	s.recent = append(without(s.recent, b), b)
	for len(s.recent) > s.lag+2 {
		left := slices.MinFunc(s.recent[:len(s.recent)-1], func(a, b *batch) int { // the one farthest behind
			return cmp.Or(a.key.Epoch-b.key.Epoch, a.key.Batch-b.key.Batch)
		})
		s.recent = without(s.recent, left)
		all.shelf.freeUnneeded(left)
	}
}

// mergeMet merges streams that have met: one read-ahead is enough for readers of the same
// batches.
func (all *streams) mergeMet(s *stream) {
	near := max(4, all.depth) // both soon read the same batches
	for _, t := range slices.Clone(all.byShard[s.head.Shard]) {
		if t == s || t.head != s.head && all.catalog.Steps(s.head, t.head, near) == 0 {
			continue
		}
		if ahead := all.catalog.Steps(s.head, t.head, all.window()); ahead > 0 {
			s.head, s.lag = t.head, max(s.lag, ahead)
		}
		for _, b := range slices.Concat(t.ahead, t.recent) {
			b.stream = s
		}
		s.ahead, s.recent = append(s.ahead, t.ahead...), append(t.recent, s.recent...)
		s.inOrder, s.lag = s.inOrder || t.inOrder, max(s.lag, t.lag)
		t.ahead, t.recent = nil, nil
		all.end(t)
	}
}

// readAhead queues the next batches of a stream and drops those that its reader has passed.
func (all *streams) readAhead(s *stream) {
	if !s.inOrder {
		return
	}
	slices.SortStableFunc(s.ahead, func(a, b *batch) int { return all.distance(a) - all.distance(b) })
	for _, b := range slices.Backward(slices.Clone(s.ahead)) {
		if len(s.ahead) > all.depth || all.catalog.Steps(s.head, b.key, all.depth) == 0 {
			all.shelf.discard(b)
		}
	}
	for k, n := s.head, 0; n < all.depth && len(s.ahead) < all.depth; n++ {
		var ok bool
		if k, ok = all.catalog.Next(k); !ok {
			return
		}
		if b := all.shelf.prefetch(k, s); b != nil {
			b.stream = s
			s.ahead = append(s.ahead, b)
		}
	}
}

// distance is how far a batch is ahead of its reader. Batches behind the reader or without a
// stream count as farthest.
func (all *streams) distance(b *batch) int {
	const farthest = 1 << 30
	if b.source != nil {
		b = b.source
	}
	if b.stream == nil {
		return farthest
	}
	if n := all.catalog.Steps(b.stream.head, b.key, all.window()+all.depth); n > 0 && !b.stream.begun {
		return n
	}
	return farthest - 1
}

// giveUpBatches gives back the batches that a stream keeps or has prefetched.
func (all *streams) giveUpBatches(s *stream) {
	list := slices.Concat(s.ahead, s.recent)
	s.recent = nil
	for _, b := range list {
		if b.refs == 0 && (!b.opened || b.state < ready) {
			all.shelf.discard(b)
		} else {
			all.shelf.freeUnneeded(b)
		}
	}
}

func (all *streams) end(s *stream) {
	all.giveUpBatches(s)
	s.ended = true
	shard := s.head.Shard
	if s.begun {
		delete(all.begun, shard)
		return
	}
	if all.byShard[shard] = without(all.byShard[shard], s); len(all.byShard[shard]) == 0 {
		delete(all.byShard, shard)
	}
}

// endIdle ends the streams that have not been read for a while, and returns how many it
// ended, and the time until the next could be.
func (all *streams) endIdle(now time.Time, after time.Duration) (ended int, wait time.Duration) {
	wait = after
	for _, s := range all.list() {
		rest := after - now.Sub(s.used)
		switch newest := s.newest(); {
		case newest != nil && newest.refs > 0: // it is open
		case rest <= 0:
			all.end(s)
			ended++
		default:
			wait = min(wait, rest)
		}
	}
	return ended, wait
}

// list is all streams.
func (all *streams) list() []*stream {
	list := slices.Collect(maps.Values(all.begun))
	for _, of := range all.byShard {
		list = append(list, of...)
	}
	return list
}

// latest is the stream begun last in a shard; nil: there is none.
func (all *streams) latest(shard int) *stream { return last(all.byShard[shard]) }

// usualForm is the form that readers of a shard opened last.
func (all *streams) usualForm(shard int) layout.Form {
	if s := all.latest(shard); s != nil {
		return s.form
	}
	return all.catalog.TensorForm()
}

// count counts the streams and what they have read ahead.
func (all *streams) count() (streams, ahead int64) {
	for _, s := range all.list() {
		ahead += int64(len(s.ahead))
		if !s.begun {
			streams++
		}
	}
	return streams, ahead
}

// places says where each shard is read, by the stream opened from last that has shown an order.
func (all *streams) places() []ShardStats {
	places := []ShardStats{}
	for _, shard := range slices.Sorted(maps.Keys(all.byShard)) {
		var latest *stream
		for _, s := range all.byShard[shard] {
			if s.inOrder && (latest == nil || !s.opened.Before(latest.opened)) {
				latest = s
			}
		}
		if latest != nil {
			places = append(places, ShardStats{shard, latest.at.Epoch, latest.at.Batch})
		}
	}
	return places
}

// newest is the batch opened last; nil: it is no longer kept.
func (s *stream) newest() *batch { return last(s.recent) }

// needs reports whether the stream keeps a batch that was opened, or has prefetched it.
func (s *stream) needs(b *batch) bool {
	return s != nil && !s.ended && (!b.opened || slices.Contains(s.recent, b))
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

// last is the last of a list; nil: it is empty.
func last[T any](list []*T) *T {
	if len(list) == 0 {
		return nil
	}
	return list[len(list)-1]
}

func without[T comparable](list []T, x T) []T {
	if i := slices.Index(list, x); i >= 0 {
		return slices.Delete(list, i, i+1)
	}
	return list
}
