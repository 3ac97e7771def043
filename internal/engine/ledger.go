package engine

import (
	"sync"
	"sync/atomic"
)

// A use is a purpose that memory is charged to.
type use uint8

const (
	useBatches use = iota // batch memory, seen by readers
	useScratch            // encoded input, codecs, conversion
	useCache              // encoded samples between epochs
	usePages              // unpacked pages that several samples are read from
	useIndex              // the dataset's index, the cache's plan, rendered documents
	useRuntime            // the process itself: code, stacks, tables
	uses
)

// runtimeBytes is what the process takes before it makes any batch.
const runtimeBytes = 24 << 20

// A ledger accounts for all memory the daemon owns, in bytes, and admits units of work: batches,
// loads and drawings. It is safe for concurrent use.
//
// A unit is admitted before it starts, with all the memory that it takes, and can then end without
// any other unit. So a batch that was begun can always continue, because room is left: batches,
// caches and plans, which last, leave room for one load and for one drawing; a load leaves room for
// one drawing, the largest of the samples that are ready. A sample that takes more than this
// becomes ready only when there is enough room, and holds nothing while it waits.
type ledger struct {
	mu    sync.Mutex
	limit int64
	most  int64 // the limit before anyone lowered it; constant
	used  [uses]int64
	sum   int64
	peak  int64

	beside, before int64 // peaks without the cache, in this period and the one before

	load, drawing int64 // the least room that is left for each
	ready         int64 // what drawing the largest sample that is ready takes
	large         int64 // what making a large sample takes, if several batches have large samples; see schedule.mayBegin

	back    atomic.Uint64 // counts how often memory came back
	awaited atomic.Bool   // a batch waits for memory
	kicked  chan struct{} // while awaited, holds a token if memory came back
}

// Room is left for loads and drawings: the limit divided by these shares, or these maximums if they
// are less.
const (
	shareOfLoad, mostForLoad       = 128, 64 << 20
	shareOfDrawing, mostForDrawing = 64, 256 << 20
)

// roomApart is the least room that is left for loads and for drawings under a limit.
func roomApart(limit int64) (load, drawing int64) {
	return min(limit/shareOfLoad, mostForLoad), min(limit/shareOfDrawing, mostForDrawing)
}

func newLedger(limit int64) *ledger {
	l := &ledger{limit: limit, most: limit, kicked: make(chan struct{}, 1)}
	l.load, l.drawing = roomApart(limit)
	return l
}

// reserve charges n bytes of what lasts, or refuses.
func (l *ledger) reserve(u use, n int64) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.fits(u, n, max(l.load+l.forDrawing(), l.large))
}

// forCache is what the cache can have if everything else takes as much as it did in this period or
// the one before.
func (l *ledger) forCache() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.limit - max(l.beside, l.before) - max(l.load+l.forDrawing(), l.large)
}

// nextPeriod begins a period.
func (l *ledger) nextPeriod() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.before, l.beside = l.beside, l.sum-l.used[useCache]
}

// admitLoad charges n bytes for an encoded sample and sets room aside for drawing it, or refuses.
// The room stays until setReady. The only load is not refused because the limit was lowered, unless
// it is large. But loads whose reads hang, which do not count, may have what it takes.
func (l *ledger) admitLoad(n, drawing int64, only bool) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case only && n <= l.load && drawing <= l.forDrawing() && l.sum+n+l.forDrawing() <= l.most:
		l.add(useScratch, n)
	case !l.fits(useScratch, n, max(l.forDrawing(), drawing)):
		return false
	}
	l.ready = max(l.ready, drawing)
	return true
}

// admitDrawing charges n bytes for drawing a sample that is ready, or refuses. The only drawing is
// never refused.
func (l *ledger) admitDrawing(n int64, only bool) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if only {
		l.add(useScratch, n)
		return true
	}
	return l.fits(useScratch, n, 0)
}

// setReady sets the room for drawing to what the largest sample that is ready takes.
func (l *ledger) setReady(drawing int64) {
	l.mu.Lock()
	more := drawing < l.ready
	l.ready = drawing
	l.mu.Unlock()
	if more {
		l.cameBack()
	}
}

// admitLarge sets aside room for making a large sample, beside a batch of so many bytes, or
// refuses.
func (l *ledger) admitLarge(batch, large int64) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	ok := l.sum+batch+max(l.load+l.forDrawing(), large) <= l.limit
	if ok {
		l.large = max(l.large, large)
	}
	return ok
}

// noLarge gives back the room that admitLarge set aside.
func (l *ledger) noLarge() {
	l.mu.Lock()
	some := l.large > 0
	l.large = 0
	l.mu.Unlock()
	if some {
		l.cameBack()
	}
}

func (l *ledger) forDrawing() int64 { return max(l.drawing, l.ready) }

// fits charges n bytes if at least leaves bytes remain free.
func (l *ledger) fits(u use, n, leaves int64) bool {
	ok := l.sum+n+leaves <= l.limit
	if ok {
		l.add(u, n)
	}
	return ok
}

// force charges memory that already exists and cannot be refused.
func (l *ledger) force(u use, n int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.add(u, n)
}

// correct charges n more bytes, which exist already, or gives back so many fewer.
func (l *ledger) correct(u use, n int64) {
	if n > 0 {
		l.force(u, n)
	} else if n < 0 {
		l.release(u, -n)
	}
}

// release gives back n bytes that were in use.
func (l *ledger) release(u use, n int64) {
	l.cancel(u, n)
	if n > 0 {
		l.cameBack()
	}
}

// cancel undoes a reservation of n bytes that the kernel refused. It does not count as memory
// coming back: it would wake the caller that was refused.
func (l *ledger) cancel(u use, n int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.add(u, -n)
	if l.used[u] < 0 {
		panic("engine: more memory released than was reserved")
	}
}

func (l *ledger) add(u use, n int64) {
	l.used[u] += n
	l.sum += n
	l.peak = max(l.peak, l.sum)
	l.beside = max(l.beside, l.sum-l.used[useCache])
}

// cameBack notes that memory became available.
func (l *ledger) cameBack() {
	l.back.Add(1)
	if l.awaited.Load() {
		l.kick()
	}
}

// await has every return of memory signaled on kicked, beginning with one for memory that came back
// just before.
func (l *ledger) await() {
	l.awaited.Store(true)
	l.kick()
}

func (l *ledger) kick() {
	select {
	case l.kicked <- struct{}{}:
	default:
	}
}

// returns counts how often memory came back: a caller that was refused asks again when it changes.
func (l *ledger) returns() uint64 { return l.back.Load() }

// usage returns what is charged to one use, and in total.
func (l *ledger) usage(u use) (used, sum int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.used[u], l.sum
}

func (l *ledger) setLimit(n int64) {
	l.mu.Lock()
	l.limit = n
	l.mu.Unlock()
	l.cameBack() // requests refused under the old limit may fit now
}

// excess is how far the charges exceed the limit; 0 or less if they do not.
func (l *ledger) excess() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.sum - l.limit
}

// batchBudget lets a pool of batch memory draw on the ledger.
type batchBudget struct{ *ledger }

func (b batchBudget) Reserve(n int64) bool { return b.reserve(useBatches, n) }
func (b batchBudget) Release(n int64)      { b.release(useBatches, n) }
func (b batchBudget) Cancel(n int64)       { b.cancel(useBatches, n) }
