package engine

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

var (
	errNoPlanMemory = errors.New("no memory left to plan what the cache keeps")
	errGaveWay      = errors.New("a batch wants the memory that planning takes")
	errPlanningEnds = errors.New("planning ends")
)

// A workspace is the memory in which one plan is computed. It lies outside the Go heap, so that
// memory given back is free at once, and is reserved before it is allocated.
type workspace struct {
	planner *planner
	held    atomic.Int64 // bytes
	ctx     context.Context
	end     context.CancelCauseFunc // makes Err fail; the first error counts
	done    chan struct{}           // closed once all memory was given back
	worked  time.Time               // time of the last rest
}

func newWorkspace(k *planner) *workspace {
	w := &workspace{planner: k, done: make(chan struct{}), worked: time.Now()}
	w.ctx, w.end = context.WithCancelCause(k.ctx)
	return w
}

const (
	// mapped is the fewest bytes that are mapped: a mapping takes whole pages.
	mapped = 64 << 10
	// piece is how much memory is populated or unmapped without a rest: one huge page.
	piece = 2 << 20
)

// Take reserves and allocates memory.
func (w *workspace) Take(n int64) ([]byte, error) {
	if !w.planner.ledger.reserve(useIndex, n) {
		return nil, errNoPlanMemory
	}
	memory, err := mapMemory(n)
	if err != nil {
		w.planner.ledger.release(useIndex, n)
		return nil, fmt.Errorf("%w: %w", errNoPlanMemory, err)
	}
	w.held.Add(n)
	if err := w.populate(memory); err != nil {
		w.Give(memory)
		return nil, err
	}
	return memory, nil
}

// populate makes the kernel provide the memory now, resting in between. If planning touched it in
// its own, random order, the kernel would fill all of it within a few thousand steps.
func (w *workspace) populate(memory []byte) error {
	for ; len(memory) > piece; memory = memory[piece:] {
		if err := w.Err(); err != nil {
			return err
		}
		for at := 0; at < piece; at += os.Getpagesize() {
			memory[at] = 0
		}
	}
	return nil
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
		for rest := memory; len(rest) > piece; rest = rest[piece:] {
			_ = unix.Madvise(rest[:piece], unix.MADV_DONTNEED) // only spreads the work of Munmap
			w.rest()
		}
		_ = unix.Munmap(memory) // cannot fail for a whole mapping of our own
	}
	w.held.Add(-n)
	w.planner.ledger.release(useIndex, n)
}

// While an Open waits for a batch, planning works for one slice, then rests until none waits, but
// for at most naps naps. So waiting Opens get the processors, but a training run that always waits
// still gets its plan, computed with a fortieth of one processor.
const (
	slice = 500 * time.Microsecond
	nap   = time.Millisecond
	naps  = 20
)

// Err reports whether to stop, after a rest if one is due.
func (w *workspace) Err() error {
	if w.ctx.Err() != nil {
		return context.Cause(w.ctx)
	}
	w.rest()
	return nil
}

// rest gives the processor to batches if it is time to.
func (w *workspace) rest() {
	now := time.Now()
	if now.Sub(w.worked) <= slice {
		return
	}
	for n := 0; n < naps && w.ctx.Err() == nil && w.planner.busy(); n++ {
		time.Sleep(nap)
		now = time.Now()
	}
	w.worked = now
}
