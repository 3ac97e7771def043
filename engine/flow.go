package engine

import (
	"cmp"
	"errors"
	"runtime"
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/batchfs/batchfs/decode"
	"github.com/batchfs/batchfs/engine/affinity"
)

// flow is the way of samples from storage to the drawers. Loads read ahead, each in a goroutine
// that exists while there is something to read, and wait in one queue, ready, for the next drawer.
// How many samples are on their way is learnt: a drawer that has nothing to do adds one, and many
// that wait take one away. So it depends on how long storage takes and on how fast the drawers
// are, and not on the number of workers.
//
// Handing a sample over costs a switch of threads, which is more than it gains where reads take no
// time. Drawers then read for themselves.
//
// The lock of the batches guards it.
type flow struct {
	hung    *hung
	drawers []*drawer
	work    sync.Cond // a drawer may have something to do
	resting int       // drawers that have nothing to do

	ready   []*load // in the order in which they will be drawn
	bytes   int64   // encoded, of those
	spare   []*load // with nothing to carry
	blocked bool    // one has nothing to do because there is no memory to draw what is ready
	loading int     // goroutines that load
	window  int     // samples on their way at most, loading or ready
	held    bool    // that is reached, and has not fallen much since
	excess  int     // samples that found too many others ready

	room *room // where those that load wait for memory

	least, most int // of window
	enough      int // ready samples for each drawer, beyond which window is too large
	mostBytes   int64

	slow   bool          // reads wait longer than handing over takes
	remote bool          // reads are of a store, for which drawers never wait, unless memory is scarce
	off    bool          // the GPU gets everything
	waited time.Duration // for storage by a drawer's own reads, on average
}

const (
	// worthWaiting is how long a drawer may wait for a read of its own: about what it takes to hand a
	// sample from one thread to another. No disk answers as soon.
	worthWaiting = 50 * time.Microsecond

	probing     = 64 // after so many rounds at least, a drawer reads itself, to know how long that takes
	soonProbing = 8  // where the last one did not wait

	mostLoads    = 128       // unless Options.Loads says otherwise
	memoryOfLoad = 512 << 10 // of the limit, for each

	mostReady    = 32 << 20 // bytes that are ready, or less
	shareOfReady = 32       // of the limit

	enoughOfDisk  = 4  // flow.enough of files
	enoughOfStore = 16 // and of a store, whose answers come unevenly
	firstOfStore  = 256
	leastOfStore  = 32 // so that a batch that was not made ahead does not begin with few
	manyExcess    = 64
)

// drawers is how many samples, or pairs of them, are decoded at once.
func (o *Options) drawers() int { return min(o.Workers, cmp.Or(o.CPUs, runtime.NumCPU())) }

// loads is how many samples are on their way to the drawers at most.
func (o *Options) loads() int {
	if o.Loads > 0 {
		return o.Loads
	}
	return max(2*o.drawers(), int(min(mostLoads, o.MemoryLimit/memoryOfLoad)))
}

// makeFlow makes the drawers, and what leads to them.
func (all *batches) makeFlow() {
	o, remote := all.opts, all.ds.Remote()
	f := &flow{hung: all.hung, remote: remote, slow: true, waited: worthWaiting, off: o.NVJPEG != ""}
	f.work.L = &all.mu
	all.flow = f
	n := o.drawers()
	for i := range n {
		var cpus affinity.Set
		if o.Affinity != nil {
			cpus = o.Affinity[i]
		}
		f.drawers = append(f.drawers, all.newDrawer(cpus))
	}
	f.least, f.enough, f.window = 2*n, enoughOfDisk, 4*n
	if remote {
		f.least, f.enough, f.window = leastOfStore, enoughOfStore, firstOfStore
	}
	f.most = o.loads()
	all.hung.most = f.most
	f.least, f.window = min(f.least, f.most), min(f.window, f.most)
	f.mostBytes = min(mostReady, o.MemoryLimit/shareOfReady)
}

// usual is how many loads there are: those on their way, and a pair that each drawer has.
func (f *flow) usual() int { return f.window + 2*len(f.drawers) }

// isIdle reports whether the only samples that have memory are those whose reads hang.
func (f *flow) isIdle() bool {
	return f.resting == len(f.drawers) && len(f.ready) == 0 && f.loading-len(f.room.waiting) <= int(f.hung.count.Load())
}

// underWay counts the samples between storage and the drawers.
func (f *flow) underWay() int { return f.loading + len(f.ready) }

// mayLoad reports whether another sample may be loaded ahead; hanging is how many loads do not
// count. They begin several at a time, so that threads are not switched for each.
func (f *flow) mayLoad(hanging int) bool {
	const together = 4
	n := f.underWay() - len(f.room.waiting) - hanging
	if n >= f.window {
		f.held = true
	} else if n <= f.window-min(together, (f.window+1)/2) {
		f.held = false
	}
	return f.slow && !f.held && f.bytes <= f.mostBytes && f.loading < 2*f.most+standIns
}

// enter makes a sample ready to be drawn.
func (f *flow) enter(l *load) {
	f.ready = append(f.ready, l)
	f.bytes += int64(len(l.sample.data))
}

// push makes a sample ready to be drawn by another thread.
func (f *flow) push(l *load) {
	f.enter(l)
	if len(f.ready) > f.enough*len(f.drawers) {
		if f.excess++; f.excess >= manyExcess && f.window > f.least {
			f.window--
			f.excess = 0
		}
	}
	f.work.Signal()
}

// remove takes a sample out of those that are ready.
func (f *flow) remove(i int) *load {
	l := f.ready[i]
	f.ready = slices.Delete(f.ready, i, i+1)
	f.bytes -= int64(len(l.sample.data))
	return l
}

// readsItself reports whether a drawer reads its next sample itself.
func (f *flow) readsItself(d *drawer) bool {
	if !f.slow {
		return len(f.ready) == 0
	}
	return !f.remote && d.rounds >= d.probe
}

// readWaited notes how long a drawer's own read waited for storage. The longer, the later it reads again to see
// whether that has changed.
func (f *flow) readWaited(d *drawer, t time.Duration) {
	if f.remote {
		return
	}
	f.waited += (min(t, 4*worthWaiting) - f.waited) / memoryOfTime
	if f.slow {
		f.slow = f.waited > worthWaiting/2
	} else {
		f.slow = f.waited > worthWaiting
	}
	d.probe = d.rounds + probing*int(1+t/worthWaiting)
	if t < worthWaiting/2 {
		d.probe = d.rounds + soonProbing
	}
}

// processorTime is that of the calling thread.
func processorTime() time.Duration {
	var now unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &now) // every kernel has it
	return time.Duration(now.Nano())
}

// nextToDraw waits for something to draw. It returns nil when the engine closes, or when another
// goroutine has taken the drawer over.
func (all *batches) nextToDraw(d *drawer) []*load {
	all.mu.Lock()
	defer all.mu.Unlock()
	f := all.flow
	d.rounds++
	f.wasDrawing(d)
	for !all.closed {
		if b := all.schedule.nextSlot(); b != nil && f.readsItself(d) && !all.forGPU() {
			if !all.readHere(d, b) {
				return nil
			}
			if len(f.ready) == 0 {
				continue // reading failed
			}
		}
		if hands := f.pop(d); len(hands) > 0 {
			all.loadAhead()
			return hands
		}
		if all.loadAhead(); all.wantsMore() {
			f.window++
			all.loadAhead()
		}
		f.resting++
		d.resting = true
		if len(f.room.waiting) > 0 {
			f.room.some.Broadcast() // what it keeps for the next sample may give way now
		}
		if len(all.schedule.queue) > 0 {
			all.takeWork.Broadcast() // it may no longer be too early for the next batch
		}
		f.work.Wait()
		d.resting = false
		f.resting--
	}
	return nil
}

// wasDrawing notes that a drawer has finished. Others may be waiting for the memory that took.
func (f *flow) wasDrawing(d *drawer) {
	if !d.drawing {
		return
	}
	d.drawing = false
	if f.blocked {
		f.blocked = false
		f.work.Broadcast()
	}
	if len(f.room.waiting) > 0 {
		f.room.some.Broadcast()
	}
}

// pop takes what is drawn next, if there is memory for it: the sample that has waited longest, and
// another one if the two gain from being decoded together.
func (f *flow) pop(d *drawer) []*load {
	if len(f.ready) == 0 {
		return nil
	}
	if !d.admit(0, f.ready[0], false) {
		d.trim()
		f.trim()
		if only := f.resting == len(f.drawers)-1; !d.admit(0, f.ready[0], only) {
			f.blocked = true
			return nil
		}
	}
	hands := append(d.hands[:0], f.remove(0))
	if i := slices.IndexFunc(f.ready, (*load).pairable); i >= 0 && hands[0].pairable() && d.admit(1, f.ready[i], false) {
		hands = append(hands, f.remove(i))
	}
	for _, l := range hands {
		f.room.notLarge(l)
	}
	d.drawing = true
	return hands
}

// wantsMore reports whether a drawer that has nothing to do would have if more samples were on
// their way.
func (all *batches) wantsMore() bool {
	f := all.flow
	return f.slow && len(f.room.waiting) == 0 && f.underWay() >= f.window && f.window < f.most && all.schedule.nextSlot() != nil
}

// readHere has a drawer read a sample of a batch itself, or two that gain from being decoded together, unless reading
// fails. The lock is held, but not while it reads. Not ok: the read hung, and another goroutine has taken the
// drawer over.
func (all *batches) readHere(d *drawer, b *batch) (ok bool) {
	first, ok := all.readOne(d, b)
	if first == nil {
		return ok
	}
	f, second := all.flow, (*load)(nil)
	if first.pairable() && b.state == making && len(b.todo) >= len(f.drawers) && all.hung.count.Load() == 0 {
		second, ok = all.readOne(d, b)
	}
	f.enter(first) // not before, or another drawer could take it alone
	if second != nil {
		f.enter(second)
	}
	if !ok {
		f.work.Signal()
	}
	return ok
}

// readOne has a drawer read the next sample of a batch. It returns nil if that failed, or if there is no memory.
func (all *batches) readOne(d *drawer, b *batch) (_ *load, ok bool) {
	l, turn := all.take(b), d.turn
	d.loading = l
	all.mu.Unlock()
	began, busy := time.Now(), processorTime()
	err := l.fetchFirst()
	waited := time.Since(began) - (processorTime() - busy)
	all.mu.Lock()
	all.flow.readWaited(d, waited)
	over := d.turn != turn
	if !over {
		d.loading = nil
		all.flow.loading++
	}
	switch {
	case err == errNoRoom:
		all.flow.room.begin(l)
		all.wait.Go(func() { all.loadMore(l, all.flow.room.await(l)) })
		return nil, !over
	case err != nil:
		all.wait.Go(func() { all.conclude(l, err) })
	case over:
		all.flow.push(l)
	default:
		all.flow.loading--
		return l, true
	}
	all.flow.loading--
	return nil, !over
}

// take hands the next slot of a batch to a load. The lock is held.
func (all *batches) take(b *batch) *load {
	l, f := (*load)(nil), all.flow
	if n := len(f.spare); n > 0 {
		l, f.spare = f.spare[n-1], f.spare[:n-1]
	} else {
		l = newLoad(all)
		all.hung.loads = append(all.hung.loads, l)
	}
	l.take(b)
	return l
}

// resume begins what was left while loads waited for memory. The lock is held.
func (all *batches) resume() {
	all.takeWork.Broadcast()
	all.loadAhead()
}

// loadAhead begins what may be loaded. The lock is held.
func (all *batches) loadAhead() {
	for all.mayLoad() {
		b := all.schedule.nextSlot()
		if b == nil {
			return
		}
		l := all.take(b)
		all.flow.loading++
		all.wait.Go(func() { all.loadMore(l, nil) })
	}
}

// mayLoad reports whether another sample may be loaded ahead.
func (all *batches) mayLoad() bool {
	return !all.closed && !all.forGPU() && all.flow.mayLoad(int(all.hung.count.Load()))
}

// forGPU reports whether all slots are left to the workers of the GPU.
func (all *batches) forGPU() bool {
	f := all.flow
	return f.off || all.share.takesAll() && all.hung.count.Load() == 0
}

// loadMore loads a sample, unless there is an error, and further ones while more are wanted.
func (all *batches) loadMore(l *load, err error) {
	f := all.flow
	for ; l != nil; err = nil {
		if err == nil {
			err = l.readFirst()
		}
		if err != nil {
			all.conclude(l, err)
		}
		all.mu.Lock()
		f.loading--
		if err == nil {
			f.push(l)
		}
		l = nil
		if b := all.schedule.nextSlot(); b != nil && all.mayLoad() {
			l = all.take(b)
			f.loading++
		}
		all.mu.Unlock()
	}
}

// moreSlots lets whoever fills slots know that there are some more. Workers of the GPU that wait for
// slots choose first, and call it again. The lock is held.
func (all *batches) moreSlots(n int) {
	if all.gpuWaits > 0 {
		all.itemWork.Broadcast()
		if all.share.isOn() {
			return
		}
	}
	all.loadAhead()
	for range min(n, all.flow.resting) {
		all.flow.work.Signal()
	}
}

// wasDrawn is the end of the first attempt at a slot.
func (all *batches) wasDrawn(l *load) {
	err := l.sample.drawn
	switch {
	case l.waits:
		l.drawn <- struct{}{}
	case err != nil && (errors.Is(err, decode.ErrPart) || causeOf(err) == ofFile): // more may have to be read
		all.wait.Go(func() { all.conclude(l, err) })
	default:
		all.conclude(l, err)
	}
}

// conclude settles what came of a load's slot. The load is spare before anybody hears of that, so
// that who then wants the next sample needs no other one.
func (all *batches) conclude(l *load, err error) {
	err = l.settle(err)
	it, at := l.item, l.sample.at
	all.recycle(l)
	all.itemDone(it, at, err)
}

// presizeLoads allocates what the first samples took in an earlier run.
func (all *batches) presizeLoads() {
	if all.opts.Hints.Input == 0 {
		return
	}
	for range all.flow.usual() {
		l := newLoad(all)
		if err := l.input.Presize(int(all.opts.Hints.Input)); err != nil {
			all.log.Warn("an input buffer could not be allocated beforehand", "reason", err)
		}
		l.chargeActual()
		all.hung.loads, all.flow.spare = append(all.hung.loads, l), append(all.flow.spare, l)
	}
}

// recycle makes a load spare. It keeps its buffer, unless more are spare than will be used.
func (all *batches) recycle(l *load) {
	l.chargeActual()
	all.mu.Lock()
	all.flow.room.notLarge(l)
	f := all.flow
	if len(f.spare) < f.usual() || all.closed {
		f.spare = append(f.spare, l)
		all.mu.Unlock()
		return
	}
	all.hung.loads = without(all.hung.loads, l)
	all.mu.Unlock()
	l.giveBack()
}

// trim frees what loads and drawers that have nothing to do keep for the next sample.
func (f *flow) trim() {
	for _, l := range f.spare {
		l.giveBack()
	}
	for _, d := range f.drawers {
		if d.resting {
			d.trim()
		}
	}
}

// drawOne makes the pixels of a sample that is not in its first attempt, which has come to an end.
func (all *batches) drawOne(l *load) error {
	l.waits = true
	defer func() { l.waits = false }()
	all.mu.Lock()
	all.flow.push(l)
	all.mu.Unlock()
	select {
	case <-l.drawn:
		return l.sample.drawn
	case <-all.ctx.Done():
	}
	all.mu.Lock()
	i := slices.Index(all.flow.ready, l)
	if i >= 0 {
		all.flow.remove(i)
		all.flow.room.notLarge(l)
	}
	all.mu.Unlock()
	if i < 0 { // it is being drawn
		<-l.drawn
	}
	return ErrClosed
}

// standIn starts a goroutine for each drawer whose own read is one of those that hang.
func (all *batches) standIn(hanging []*load) {
	for _, d := range all.flow.drawers {
		if d.loading != nil && slices.Contains(hanging, d.loading) {
			d.loading = nil
			d.turn++
			all.flow.loading++ // as any other load, from now on
			all.wait.Go(d.run)
		}
	}
}
