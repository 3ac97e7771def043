// Package readahead says who reads what next: which batches to make ahead of a reader, and which
// read batches to keep for another reader. It is pure: it knows batches by their keys, is told what
// is opened, and tells a [Shelf], which makes and drops batches, what it wants.
package readahead

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/batchfs/batchfs/internal/catalog"
	"github.com/batchfs/batchfs/layout"
)

// maxStreams bounds the streams per shard; the least recently used one is ended first.
const maxStreams = 16

// A stream is one roughly sequential reading of a shard, by one process or by several that
// share the work. It continues from one epoch into the next.
type stream struct {
	head    catalog.Key   // the farthest batch opened
	at      catalog.Key   // the batch opened last
	form    layout.Form   // the form opened last; prefetched batches are made in it
	inOrder bool          // it has shown an order worth reading ahead for
	ahead   []catalog.Key // prefetched, not opened yet
	recent  []catalog.Key // opened, most recent last: kept for a second form or a late rank
	lag     int           // maximum number of batches that a read was behind the head
	used    time.Time     // when a batch was last opened or closed
	opened  time.Time     // when a batch was last opened
	ended   bool
	begun   bool // it holds batches that were begun by name: nobody reads it in order
}

// Streams are all reading streams of a dataset. They are not safe for concurrent use.
type Streams struct {
	catalog *catalog.Catalog
	depth   int // batches made ahead, per stream
	shelf   Shelf
	byShard map[int][]*stream // the most recently begun one last
	begun   map[int]*stream   // for batches begun by name
	byBatch map[catalog.Key]*stream
}

// New returns an empty set of streams. For each stream, depth batches are made ahead.
func New(c *catalog.Catalog, depth int, shelf Shelf) *Streams {
	return &Streams{catalog: c, depth: depth, shelf: shelf, byShard: map[int][]*stream{}, begun: map[int]*stream{}, byBatch: map[catalog.Key]*stream{}}
}

// maxBegun bounds the batches per shard that were begun by name and not opened yet.
const maxBegun = 16

// A Shelf holds the batches of streams. It calls [Streams.Left] for each batch that it drops.
type Shelf interface {
	// Prefetch makes a batch for a reader of a form. It returns false if the batch exists already,
	// or is known to fail.
	Prefetch(k catalog.Key, form layout.Form) bool
	// Discard gives up a batch that was prefetched and not opened.
	Discard(k catalog.Key)
	// Unneeded drops a batch that no stream keeps any more, once it is complete and nothing holds
	// it.
	Unneeded(k catalog.Key)
	// GiveUp drops a batch of a stream that has ended, unless something holds it.
	GiveUp(k catalog.Key)
	// Held reports whether something holds a batch.
	Held(k catalog.Key) bool
}

// Follow finds or begins the stream that an Open of a batch belongs to, moves its head, and reads
// ahead.
func (all *Streams) Follow(k catalog.Key, form layout.Form) {
	s := all.byBatch[k]
	if s == nil || s.ended || s.begun || k != s.head && all.catalog.Steps(s.head, k, all.window()) == 0 {
		s = all.find(k)
	}
	if s == nil {
		s = all.begin(k)
	}
	if steps := all.catalog.Steps(s.head, k, all.window()); steps > 0 {
		s.head, s.inOrder = k, true
	} else {
		s.lag = max(s.lag, -steps)
	}
	s.at, s.form, s.opened = k, form, time.Now()
	s.used = s.opened
	all.Left(k)
	all.byBatch[k] = s
	all.keepOpened(s, k)
	all.mergeMet(s)
	all.readAhead(s)
}

// Left forgets a batch that was dropped.
func (all *Streams) Left(k catalog.Key) {
	if s := all.byBatch[k]; s != nil {
		s.ahead, s.recent = without(s.ahead, k), without(s.recent, k)
		delete(all.byBatch, k)
	}
}

// Closed notes that a batch was closed.
func (all *Streams) Closed(k catalog.Key) {
	if s := all.byBatch[k]; s != nil {
		s.used = time.Now()
	}
}

// window is how far from the head of a stream an Open still belongs to it: enough for several
// processes that take turns.
func (all *Streams) window() int { return max(8, 2*all.depth) }

// find returns the stream with the nearest head at or before k.
func (all *Streams) find(k catalog.Key) *stream {
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
// batch may be the only one wanted.
func (all *Streams) begin(k catalog.Key) *stream {
	list := all.byShard[k.Shard]
	for _, s := range list {
		if !s.inOrder && s.head.Part == k.Part {
			all.giveUpBatches(s) // a single batch is kept only until the next one
		}
	}
	if len(list) >= maxStreams {
		all.end(slices.MinFunc(list, func(a, b *stream) int { return a.used.Compare(b.used) }))
	}
	s := &stream{head: k, inOrder: k.Batch == 0}
	all.byShard[k.Shard] = append(all.byShard[k.Shard], s)
	return s
}

// Begin makes a batch that a reader will open, wherever it reads, unless many such batches wait to
// be opened already. They are the first to give way among those made ahead.
func (all *Streams) Begin(k catalog.Key, form layout.Form) {
	s := all.begun[k.Shard]
	if s == nil {
		s = &stream{head: k, begun: true}
		all.begun[k.Shard] = s
	}
	if len(s.ahead) >= max(maxBegun, all.depth) {
		return
	}
	s.form, s.used = form, time.Now()
	all.prefetch(k, s)
}

// prefetch makes a batch for a stream.
func (all *Streams) prefetch(k catalog.Key, s *stream) {
	if all.shelf.Prefetch(k, s.form) {
		all.byBatch[k] = s
		s.ahead = append(s.ahead, k)
	}
}

// keepOpened makes k the newest batch that s keeps. A stream keeps as many batches as its slowest
// reader has been behind, one more for a slightly later reader, and the newest. These batches give
// way to any other request for memory.
func (all *Streams) keepOpened(s *stream, k catalog.Key) {
	s.recent = append(without(s.recent, k), k)
	for len(s.recent) > s.lag+2 {
		left := slices.MinFunc(s.recent[:len(s.recent)-1], func(a, b catalog.Key) int { // the one farthest behind
			return cmp.Or(a.Epoch-b.Epoch, a.Batch-b.Batch)
		})
		s.recent = without(s.recent, left)
		all.shelf.Unneeded(left)
	}
}

// mergeMet merges streams that have met: readers of the same batches need only one read-ahead.
func (all *Streams) mergeMet(s *stream) {
	near := max(4, all.depth) // both soon read the same batches
	for _, t := range slices.Clone(all.byShard[s.head.Shard]) {
		if t == s || t.head != s.head && all.catalog.Steps(s.head, t.head, near) == 0 {
			continue
		}
		if ahead := all.catalog.Steps(s.head, t.head, all.window()); ahead > 0 {
			s.head, s.lag = t.head, max(s.lag, ahead)
		}
		for _, k := range slices.Concat(t.ahead, t.recent) {
			all.byBatch[k] = s
		}
		s.ahead, s.recent = append(s.ahead, t.ahead...), append(t.recent, s.recent...)
		s.inOrder, s.lag = s.inOrder || t.inOrder, max(s.lag, t.lag)
		t.ahead, t.recent = nil, nil
		all.end(t)
	}
}

// readAhead queues the next batches of a stream and drops those that its reader has passed.
func (all *Streams) readAhead(s *stream) {
	if !s.inOrder {
		return
	}
	slices.SortStableFunc(s.ahead, func(a, b catalog.Key) int { return all.Distance(a) - all.Distance(b) })
	for _, k := range slices.Backward(slices.Clone(s.ahead)) {
		if len(s.ahead) > all.depth || all.catalog.Steps(s.head, k, all.depth) == 0 {
			all.shelf.Discard(k)
		}
	}
	for k, n := s.head, 0; n < all.depth && len(s.ahead) < all.depth; n++ {
		var ok bool
		if k, ok = all.catalog.Next(k); !ok {
			return
		}
		all.prefetch(k, s)
	}
}

// Distance is how far a batch is ahead of its reader. Batches behind the reader or without a
// stream count as farthest.
func (all *Streams) Distance(k catalog.Key) int {
	const farthest = 1 << 30
	s := all.byBatch[k]
	if s == nil {
		return farthest
	}
	if n := all.catalog.Steps(s.head, k, all.window()+all.depth); n > 0 && !s.begun {
		return n
	}
	return farthest - 1
}

// Form is the form in which the reader of a batch opened the last one; false if there is no reader.
func (all *Streams) Form(k catalog.Key) (form layout.Form, ok bool) {
	s := all.byBatch[k]
	if s == nil {
		return form, false
	}
	return s.form, true
}

// Needs reports whether a stream keeps a batch that was opened, or has prefetched it.
func (all *Streams) Needs(k catalog.Key) bool {
	s := all.byBatch[k]
	return s != nil && !s.ended && (slices.Contains(s.ahead, k) || slices.Contains(s.recent, k))
}

// IsNewest reports whether a batch is the one that its stream opened last.
func (all *Streams) IsNewest(k catalog.Key) bool {
	s := all.byBatch[k]
	return s != nil && s.isNewest(k)
}

func (s *stream) isNewest(k catalog.Key) bool {
	return len(s.recent) > 0 && s.recent[len(s.recent)-1] == k
}

// IsBeingRead reports whether a batch is the newest one of a stream that continues.
func (all *Streams) IsBeingRead(k catalog.Key) bool {
	s := all.byBatch[k]
	return s != nil && !s.ended && s.isNewest(k) && (s.inOrder || all.latest(k) == s)
}

// giveUpBatches gives back the batches that a stream keeps or has prefetched.
func (all *Streams) giveUpBatches(s *stream) {
	list := slices.Concat(s.ahead, s.recent)
	s.recent = nil
	for _, k := range list {
		all.shelf.GiveUp(k)
	}
}

func (all *Streams) end(s *stream) {
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

// EndIdle ends the streams that have not been read for a while, and returns how many it
// ended, and the time until the next could be.
func (all *Streams) EndIdle(now time.Time, after time.Duration) (ended int, wait time.Duration) {
	wait = after
	for _, s := range all.list() {
		rest := after - now.Sub(s.used)
		switch n := len(s.recent); {
		case n > 0 && all.shelf.Held(s.recent[n-1]): // it is open
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
func (all *Streams) list() []*stream {
	list := slices.Collect(maps.Values(all.begun))
	for _, of := range all.byShard {
		list = append(list, of...)
	}
	return list
}

// latest is the stream of a batch's shard and part that was begun last; nil: none.
func (all *Streams) latest(k catalog.Key) *stream {
	for _, s := range slices.Backward(all.byShard[k.Shard]) {
		if s.head.Part == k.Part {
			return s
		}
	}
	return nil
}

// AnyRead reports whether anything is being read.
func (all *Streams) AnyRead() bool { return len(all.byShard) > 0 }

// UsualForm is the form that readers of a shard opened last.
func (all *Streams) UsualForm(shard int) layout.Form {
	if list := all.byShard[shard]; len(list) > 0 {
		return list[len(list)-1].form
	}
	return all.catalog.TensorForm()
}

// Count counts the streams and what they have read ahead.
func (all *Streams) Count() (streams, ahead int64) {
	for _, s := range all.list() {
		ahead += int64(len(s.ahead))
		if !s.begun {
			streams++
		}
	}
	return streams, ahead
}

// Places says where each shard is read, according to the most recently used stream with an order.
func (all *Streams) Places() (places []catalog.Key) {
	for _, shard := range slices.Sorted(maps.Keys(all.byShard)) {
		var latest *stream
		for _, s := range all.byShard[shard] {
			if s.inOrder && (latest == nil || !s.opened.Before(latest.opened)) {
				latest = s
			}
		}
		if latest != nil {
			places = append(places, latest.at)
		}
	}
	return places
}

func without[T comparable](list []T, x T) []T {
	return slices.DeleteFunc(list, func(y T) bool { return y == x })
}
