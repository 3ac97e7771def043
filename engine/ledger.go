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

// A ledger accounts for all memory the daemon owns, in bytes. It is safe for concurrent use.
type ledger struct {
	mu    sync.Mutex
	limit int64
	used  [uses]int64
	sum   int64
	peak  int64

	back    atomic.Uint64 // counts how often memory came back
	awaited atomic.Bool   // a batch waits for memory
	kicked  chan struct{} // while awaited, holds a token if memory came back
}

func newLedger(limit int64) *ledger { return &ledger{limit: limit, kicked: make(chan struct{}, 1)} }

// reserve charges n bytes, or refuses if that would exceed the limit.
func (l *ledger) reserve(u use, n int64) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.sum+n > l.limit {
		return false
	}
	l.add(u, n)
	return true
}

// force charges memory that already exists and cannot be refused.
func (l *ledger) force(u use, n int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.add(u, n)
}

// correct charges n more bytes, which exist, or gives back so many fewer.
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
}

// cameBack notes that memory became available.
func (l *ledger) cameBack() {
	l.back.Add(1)
	if l.awaited.Load() {
		l.kick()
	}
}

// await has every return of memory signalled on kicked, beginning with one for memory that came
// back just before.
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

// returns counts how often memory came back: a caller that was refused asks again then.
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
