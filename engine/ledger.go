package engine

import "sync"

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
	limit int64

	mu   sync.Mutex
	used [uses]int64
	sum  int64
	peak int64
	back uint64 // counts what was given back
}

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

func (l *Ledger) release(u use, n int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.add(u, -n)
	if n > 0 {
		l.back++
	}
	if l.used[u] < 0 {
		panic("engine: more memory released than was reserved")
	}
}

// cancel undoes a reservation that was never used: nothing came back.
func (l *Ledger) cancel(u use, n int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.add(u, -n)
}

func (l *Ledger) add(u use, n int64) {
	l.used[u] += n
	l.sum += n
	l.peak = max(l.peak, l.sum)
}

// returns counts how often memory was given back. Whoever was refused and sees
// another count afterwards should ask again.
func (l *Ledger) returns() uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.back
}

// usage returns what is charged to one use, and in all.
func (l *Ledger) usage(u use) (used, sum int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.used[u], l.sum
}

// batchBudget lets a pool of batch memory draw on the ledger.
type batchBudget struct{ *Ledger }

func (b batchBudget) Reserve(n int64) bool { return b.reserve(useBatches, n) }
func (b batchBudget) Release(n int64)      { b.release(useBatches, n) }
func (b batchBudget) Cancel(n int64)       { b.cancel(useBatches, n) }
