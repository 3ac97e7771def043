package engine

import (
	"time"

	"golang.org/x/sys/unix"
)

// A window is the most samples that are on their way to the drawers, being loaded or ready. It
// grows when a drawer has nothing to do, and shrinks when many samples wait for a drawer. So it
// adapts to the speed of storage and of the drawers.
type window struct {
	size, least, most int
	enough            int  // ready samples for each drawer, above which the window is too wide
	held              bool // it is full, and has not emptied much since
	excess            int  // samples that found too many others ready
}

const (
	enoughOfDisk  = 4  // window.enough for files
	enoughOfStore = 64 // window.enough for a store, whose answers come unevenly
	firstOfStore  = 256
	leastOfStore  = 32 // so that a batch that was not made ahead does not begin with too few
	manyExcess    = 64
)

func newWindow(drawers, most int, remote bool) window {
	w := window{size: 4 * drawers, least: 2 * drawers, most: most, enough: enoughOfDisk}
	if remote {
		w.size, w.least, w.enough = firstOfStore, leastOfStore, enoughOfStore
	}
	w.size, w.least = min(w.size, most), min(w.least, most)
	return w
}

// isOpen reports whether another sample may be on its way beside n others. Several begin at a time,
// so that threads are not switched for each.
func (w *window) isOpen(n int) bool {
	const together = 4
	if n >= w.size {
		w.held = true
	} else if n <= w.size-min(together, (w.size+1)/2) {
		w.held = false
	}
	return !w.held
}

// grow lets more samples be on their way: one more, or in a wide window, of which one sample is a
// small part, a few.
func (w *window) grow() { w.size = min(w.size+1+w.size/64, w.most) }

// found notes how many samples are ready when another one becomes ready.
func (w *window) found(ready, drawers int) {
	if ready <= w.enough*drawers {
		return
	}
	if w.excess++; w.excess >= manyExcess && w.size > w.least {
		w.size--
		w.excess = 0
	}
}

// ownReads says when drawers read samples themselves: always if reads take no time, and otherwise
// now and then, to find out whether that has changed; never from a store, unless memory is scarce.
type ownReads struct {
	slow   bool // reads wait longer than it takes to hand a sample over
	remote bool
	waited time.Duration // how long reads waited for storage, on average
}

const (
	// worthWaiting is how long a drawer may wait for a read of its own: about what it takes to hand
	// a sample from one thread to another. No disk answers that fast.
	worthWaiting = 50 * time.Microsecond

	probing     = 64 // after at least so many rounds, a drawer reads a sample itself, to measure how long that takes
	soonProbing = 8  // the same, if the last read did not wait
)

func newOwnReads(remote bool) ownReads {
	return ownReads{slow: true, remote: remote, waited: worthWaiting}
}

// readsFree reports whether reads take less time than handing a sample over.
func (f *flow) readsFree() bool {
	f.batches.mu.Lock()
	defer f.batches.mu.Unlock()
	return !f.ownReads.slow
}

// isDue reports whether a drawer reads its next sample itself; ready is how many wait for one.
func (r *ownReads) isDue(d *drawer, ready int) bool {
	if !r.slow {
		return ready == 0
	}
	return !r.remote && d.rounds >= d.probe
}

// waitedFor notes how long a drawer's own read waited for storage. The longer it waited, the later
// the drawer reads again.
func (r *ownReads) waitedFor(d *drawer, t time.Duration) {
	if r.remote {
		return
	}
	r.waited += (min(t, 4*worthWaiting) - r.waited) / memoryOfTime
	if r.slow {
		r.slow = r.waited > worthWaiting/2
	} else {
		r.slow = r.waited > worthWaiting
	}
	d.probe = d.rounds + probing*int(1+t/worthWaiting)
	if t < worthWaiting/2 {
		d.probe = d.rounds + soonProbing
	}
}

// A stopwatch measures how long the calling thread waits, except while it is preempted: on a busy
// processor, a read from the page cache takes long now and then.
type stopwatch struct {
	began time.Time
	usage unix.Rusage
}

func startWatch() (w stopwatch) {
	_ = unix.Getrusage(unix.RUSAGE_THREAD, &w.usage) // every kernel has it
	w.began = time.Now()
	return w
}

// waited is the time in which the thread did not run; 0 if it never gave up the processor by
// itself.
func (w *stopwatch) waited() time.Duration {
	took := time.Since(w.began)
	var now unix.Rusage
	_ = unix.Getrusage(unix.RUSAGE_THREAD, &now)
	if now.Nvcsw == w.usage.Nvcsw {
		return 0
	}
	ran := func(u *unix.Rusage) time.Duration { return time.Duration(u.Utime.Nano() + u.Stime.Nano()) }
	return max(0, took-(ran(&now)-ran(&w.usage)))
}
