package engine

import (
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

var (
	errNoPlanMemory = errors.New("no memory left to plan what the cache keeps")
	errGaveWay      = errors.New("a batch wants the memory that planning takes")
	errPlanningEnds = errors.New("planning ends")
)

// A workspace is what one choice is computed in: memory outside of Go's heap, so that it is gone
// at once when it is given back, each piece reserved before it is there.
type workspace struct {
	ledger *Ledger
	busy   func() bool
	held   atomic.Int64 // bytes
	peak   int64
	ended  atomic.Pointer[error]
	done   chan struct{} // closed when everything was given back

	worked time.Time // since when without a rest
}

func newWorkspace(k *keeper) *workspace {
	return &workspace{ledger: k.ledger, busy: k.busy, done: make(chan struct{}), worked: time.Now()}
}

// mapped is from how many bytes on memory is mapped. What is less is ordinary memory: the system
// counts in pages.
const mapped = 64 << 10

// Take reserves memory, and gets it.
func (w *workspace) Take(n int64) ([]byte, error) {
	if !w.ledger.reserve(useIndex, n) {
		return nil, errNoPlanMemory
	}
	memory, err := mapMemory(n)
	if err != nil {
		w.ledger.release(useIndex, n)
		return nil, fmt.Errorf("%w: %w", errNoPlanMemory, err)
	}
	w.peak = max(w.peak, w.held.Add(n))
	return memory, nil
}

func mapMemory(n int64) ([]byte, error) {
	if n < mapped {
		return make([]byte, (n+7)/8*8)[:n:n], nil
	}
	return unix.Mmap(-1, 0, int(n), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
}

// Give gives memory back to the system, and then to the ledger.
func (w *workspace) Give(memory []byte) {
	n := int64(len(memory))
	if n >= mapped {
		// Unmapping a whole mapping of our own cannot fail.
		_ = unix.Munmap(memory)
	}
	w.held.Add(-n)
	w.ledger.release(useIndex, n)
}

// While somebody waits for a batch, planning works for slice, and then rests until nobody does, but
// for no more than so many naps: processors are for those who wait, and yet a training that always waits gets
// its plan, for a fortieth of one processor.
const (
	slice = 500 * time.Microsecond
	nap   = time.Millisecond
	naps  = 20
)

// Err says whether to go on, after a rest where one is due.
func (w *workspace) Err() error {
	if err := w.ended.Load(); err != nil {
		return *err
	}
	if now := time.Now(); now.Sub(w.worked) > slice {
		for n := 0; n < naps && w.ended.Load() == nil && w.busy(); n++ {
			time.Sleep(nap)
			now = time.Now()
		}
		w.worked = now
	}
	return nil
}

// end makes Err fail. What was said first counts.
func (w *workspace) end(err error) { w.ended.CompareAndSwap(nil, &err) }
