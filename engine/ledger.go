package engine

import (
	"sync"
	"sync/atomic"
)

// A use is what memory is for.
type use uint8

const (
	useBatches use = iota // batch memory, seen by readers
	useScratch            // encoded input, codecs, conversion
	useCache              // encoded samples between epochs
	useIndex              // the dataset's index, the cache's plan, rendered documents
	useRuntime            // the process itself: code, stacks, tables
	uses
)

// runtimeBytes is what the process takes before it has any batch.
const runtimeBytes = 24 << 20

// A Ledger is the account of everything the daemon owns, in bytes. It is safe for
// concurrent use.
type Ledger struct {
	mu    sync.Mutex
	limit int64
	used  [uses]int64
	sum   int64
	peak  int64

	back    atomic.Uint64 // counts how often memory came back
	awaited atomic.Bool   // somebody waits for memory
	kicked  chan struct{} // holds a token then, when some came back
}

func newLedger(limit int64) *Ledger { return &Ledger{limit: limit, kicked: make(chan struct{}, 1)} }

// reserve charges n bytes, or refuses when they would exceed the limit.
func (l *Ledger) reserve(u use, n int64) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.sum+n > l.limit {
		return false
	}
	l.add(u, n)
	return true
}

// force charges what exists already and cannot be refused.
func (l *Ledger) force(u use, n int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.add(u, n)
}

// release gives back n bytes that were in use.
func (l *Ledger) release(u use, n int64) {
	l.cancel(u, n)
	if n > 0 {
		l.cameBack()
	}
}

// cancel undoes a reservation of n bytes that were never there, as the kernel refused
// them. It is not memory that comes back: waiting for it would be waiting for oneself.
func (l *Ledger) cancel(u use, n int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.add(u, -n)
	if l.used[u] < 0 {
		panic("engine: more memory released than was reserved")
	}
}

func (l *Ledger) add(u use, n int64) {
	l.used[u] += n
	l.sum += n
	l.peak = max(l.peak, l.sum)
}

// cameBack notes that memory can be had which could not before: it was released, or a
// pool has an idle buffer more.
func (l *Ledger) cameBack() {
	l.back.Add(1)
	if l.awaited.Load() {
		l.kick()
	}
}

// await has every return of memory announced on kicked from now on, beginning with those
// that may have just been missed.
func (l *Ledger) await() {
	l.awaited.Store(true)
	l.kick()
}

func (l *Ledger) kick() {
	select {
	case l.kicked <- struct{}{}:
	default:
	}
}

// returns counts how often memory came back. Anyone who was refused and sees another
// count afterwards should ask again.
func (l *Ledger) returns() uint64 { return l.back.Load() }

// usage returns what is charged to one use, and in all.
func (l *Ledger) usage(u use) (used, sum int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.used[u], l.sum
}

func (l *Ledger) setLimit(n int64) {
	l.mu.Lock()
	l.limit = n
	l.mu.Unlock()
	l.cameBack() // what was refused under the old limit may fit now
}

// excess is how much more is charged than the limit allows; at most 0 where it is not.
func (l *Ledger) excess() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.sum - l.limit
}

// batchBudget lets a pool of batch memory draw on the ledger.
type batchBudget struct{ *Ledger }

func (b batchBudget) Reserve(n int64) bool { return b.reserve(useBatches, n) }
func (b batchBudget) Release(n int64)      { b.release(useBatches, n) }
func (b batchBudget) Cancel(n int64)       { b.cancel(useBatches, n) }
