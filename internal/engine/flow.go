package engine

import (
	"cmp"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/batchfs/batchfs/internal/machine"
	"github.com/batchfs/batchfs/internal/pixels"
	"github.com/batchfs/batchfs/internal/sample"
)

// flow takes samples from storage to the drawers. Loads read ahead, each in a goroutine that exists
// while there is something to read. Loads that are ready wait in one queue for the next drawer. How
// many samples are on their way is learned (window), and does not depend on the number of workers.
//
// Handing a sample over costs a switch of threads. Where reads take no time, that is more than it
// gains, so drawers read for themselves (ownReads).
//
// The lock of the batches guards it.
type flow struct {
	batches   *batches
	newLoader func(o pixels.Options, e *sample.Entries) loader
	hungReads *hungReads
	room      *room // where loads wait for memory
	window    window
	ownReads  ownReads

	drawers []*drawer
	work    sync.Cond // a drawer may have something to do
	resting int       // drawers that have nothing to do
	blocked bool      // a drawer has nothing to do because there is no memory to draw what is ready

	loaders
	ready      []*load // in the order in which they will be drawn
	bytes      int64   // encoded bytes of the ready loads
	mostBytes  int64
	spareLoads []*load // loads that carry nothing

	onlyGPU  bool      // the GPU gets everything
	gpuWaits int       // workers of the GPU that wait for slots
	gpuWork  sync.Cond // there may be slots for the GPU
}

// loaders are the goroutines that load.
type loaders struct {
	loading int        // loads on their way, each in a goroutine
	idle    int        // goroutines that have finished a load, with stacks large enough for the next
	next    chan *load // hands loads to idle goroutines; closed when the engine closes
}

const (
	mostLoads    = 128       // unless Options.Loads says otherwise
	memoryOfLoad = 512 << 10 // each load takes this much of the memory limit

	mostReady    = 32 << 20 // most bytes that are ready, unless shareOfReady is less
	shareOfReady = 32       // most bytes that are ready, as a part of the memory limit
)

// drawers is how many samples, or pairs of samples, are decoded at once.
func (o *Options) drawers() int { return min(o.Workers, cmp.Or(o.CPUs, runtime.NumCPU())) }

// loads is the most samples that are on their way to the drawers.
func (o *Options) loads() int {
	if o.Loads > 0 {
		return o.Loads
	}
	return max(2*o.drawers(), int(min(mostLoads, o.MemoryLimit/memoryOfLoad)))
}

// StoreLoads is the most samples that should be on their way from an object store: an engine uses
// as many of these as help. Each CPU decodes about 3,000 images a second, so 300 in the 100 ms that
// a slow answer takes.
func StoreLoads(cpus int, memoryLimit int64) int {
	const most, forEachCPU = 1024, 320
	return max(cpus, int(min(memoryLimit/memoryOfLoad, most, int64(forEachCPU*cpus))))
}

// DefaultDepth is how many batches should be made ahead of each reader: enough for all samples
// that are worked on at once.
func (o *Options) DefaultDepth() int {
	if busy := o.busyBatches(); busy > 1 {
		return busy + 2 // one that is nearly done, and one that is about to begin
	}
	return 2
}

// DefaultBatchWorkers is how many batches should be made at once, so that a batch that waits for
// its last samples does not keep others from beginning.
func (o *Options) DefaultBatchWorkers() int { return max(o.PrefetchDepth+1, o.busyBatches()) }

// busyBatches is how many batches have samples that are worked on at once.
func (o *Options) busyBatches() int {
	return (max(o.drawers(), o.Loads) + o.BatchSize - 1) / o.BatchSize
}

// newFlow makes the drawers, and everything that feeds them.
func newFlow(all *batches) *flow {
	o := all.opts
	f := &flow{
		batches: all, newLoader: func(p pixels.Options, e *sample.Entries) loader {
			return sample.NewLoader(all.catalog.Dataset, o.Transform, p, e)
		},
		hungReads: &hungReads{batches: all, began: time.Now()}, window: newWindow(o.drawers(), o.loads(), all.catalog.Dataset.Remote),
		ownReads: newOwnReads(all.catalog.Dataset.Remote), mostBytes: min(mostReady, o.MemoryLimit/shareOfReady), onlyGPU: o.NVJPEG != "",
	}
	f.work.L, f.gpuWork.L = &all.mu, &all.mu
	f.next = make(chan *load, mostIdle)
	for i := range o.drawers() {
		var cpus machine.CPUs
		if o.Affinity != nil {
			cpus = o.Affinity[i]
		}
		f.drawers = append(f.drawers, newDrawer(all, cpus))
	}
	return f
}

// usualLoads is how many loads usually exist: those on their way, a pair for each drawer, and those
// of the GPU's workers.
func (f *flow) usualLoads() int {
	d := f.batches.device
	return f.window.size + 2*len(f.drawers) + len(d.workers)*d.mostHands()
}

// isIdle reports whether nothing is drawn, ready or being loaded, for the first time or again, or
// on a GPU. Reads that hang do not count.
func (f *flow) isIdle() bool {
	carrying := len(f.hungReads.loads) - len(f.spareLoads)
	return f.resting == len(f.drawers) && len(f.ready) == 0 && carrying <= int(f.hungReads.count.Load())
}

// underWay counts the samples between storage and the drawers.
func (f *flow) underWay() int { return f.loading + len(f.ready) }

// mayLoad reports whether another sample may be loaded ahead. Loads that hang do not count.
func (f *flow) mayLoad() bool {
	if f.batches.closed || !f.ownReads.slow {
		return false
	}
	n := f.underWay() - int(f.hungReads.count.Load())
	return f.window.isOpen(n) && f.bytes <= f.mostBytes && f.loading < 2*f.window.most+extraLoads
}

// addReady makes a sample ready to be drawn.
func (f *flow) addReady(l *load) {
	f.ready = append(f.ready, l)
	f.bytes += int64(len(l.sample.data))
}

// handOver makes a sample ready to be drawn by another thread.
func (f *flow) handOver(l *load) {
	f.addReady(l)
	f.window.found(len(f.ready), len(f.drawers))
	f.work.Signal()
}

// remove takes a sample out of those that are ready.
func (f *flow) remove(i int) *load {
	l := f.ready[i]
	f.ready = slices.Delete(f.ready, i, i+1)
	f.bytes -= int64(len(l.sample.data))
	return l
}

// next waits for something to draw. It returns nil when the engine closes, or when another
// goroutine has taken the drawer over.
func (d *drawer) next() []*load {
	all, f := d.batches, d.batches.flow
	all.mu.Lock()
	defer all.mu.Unlock()
	d.rounds++
	f.memoryCameBack()
	for !all.closed {
		if b := all.schedule.nextSlot(); b != nil && f.ownReads.isDue(d, len(f.ready)) {
			if !d.readHere(b) {
				return nil
			}
			if len(f.ready) == 0 || all.closed {
				continue // its read failed, or took until the engine closed
			}
		}
		if hands := f.takeReady(d); len(hands) > 0 {
			f.loadAhead()
			return hands
		}
		if f.loadAhead(); f.wantsMore() {
			f.window.grow()
			f.loadAhead()
		}
		f.resting++
		d.resting = true
		rested, starved := time.Now(), f.loading > 0
		if len(f.room.waiting) > 0 {
			f.room.some.Signal() // the memory that it keeps for the next sample may give way now
		}
		if len(all.schedule.in[wanted]) > 0 {
			all.takeWork.Broadcast() // it may no longer be too early for the next batch
		}
		f.work.Wait()
		d.resting = false
		f.resting--
		if starved {
			all.caches.rates.waited(time.Since(rested))
		}
	}
	return nil
}

// memoryCameBack wakes everything that waits for memory, because a drawer has finished.
func (f *flow) memoryCameBack() {
	if f.blocked {
		f.blocked = false
		f.work.Broadcast()
	}
	if len(f.room.waiting) > 0 {
		f.room.some.Signal()
	}
}

// takeReady takes what is drawn next, if there is memory for it: the sample that has waited
// longest, and another one if the two gain from being decoded together.
func (f *flow) takeReady(d *drawer) []*load {
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
	hands := append(d.loads[:0], f.remove(0))
	if i := slices.IndexFunc(f.ready, (*load).pairable); i >= 0 && hands[0].pairable() && d.admit(1, f.ready[i], false) {
		hands = append(hands, f.remove(i))
	}
	for _, l := range hands {
		f.room.notLarge(l)
	}
	return hands
}

// wantsMore reports whether there is a drawer with nothing to do that more samples on their way
// would help.
func (f *flow) wantsMore() bool {
	return f.ownReads.slow && len(f.room.waiting) == 0 && f.underWay() >= f.window.size && f.window.size < f.window.most && f.batches.schedule.nextSlot() != nil
}

// readHere has a drawer read the next sample of a batch itself, or two that gain from being decoded
// together, unless reading fails. The lock is held, but not during the read. Not ok: the read hung,
// and another goroutine has taken the drawer over.
func (d *drawer) readHere(b *batch) (ok bool) {
	first, ok := d.readOne(b)
	if first == nil {
		return ok
	}
	f, second := d.batches.flow, (*load)(nil)
	if first.pairable() && b.state == making && len(b.todo) >= len(f.drawers) && f.hungReads.count.Load() == 0 {
		d.first = first
		if second, ok = d.readOne(b); !ok {
			return false
		}
		d.first = nil
	}
	f.addReady(first) // not earlier, or another drawer could take it alone
	if second != nil {
		f.addReady(second)
	}
	return true
}

// readOne has a drawer read the next sample of a batch. It returns nil if that failed, or if there
// is no memory.
func (d *drawer) readOne(b *batch) (_ *load, ok bool) {
	all, f := d.batches, d.batches.flow
	l, turn := f.claimSlot(b), d.takeovers
	d.loading = l
	all.mu.Unlock()
	watch := startWatch()
	err := l.fetch()
	waited := watch.waited()
	if err != nil {
		l.ended(err)
	}
	all.mu.Lock()
	f.ownReads.waitedFor(d, waited)
	if d.takeovers == turn {
		if d.loading = nil; err != nil {
			return nil, true
		}
		return l, true
	}
	if f.loading--; err == nil {
		f.handOver(l)
	}
	return nil, false
}

// claimSlot hands the next slot of a batch to a load. The lock is held.
func (f *flow) claimSlot(b *batch) *load {
	l := f.takeSpare()
	l.claim(b)
	return l
}

// takeSpare returns a load that carries nothing. The lock is held.
func (f *flow) takeSpare() (l *load) {
	if n := len(f.spareLoads); n > 0 {
		l, f.spareLoads = f.spareLoads[n-1], f.spareLoads[:n-1]
		return l
	}
	l = newLoad(f.batches)
	f.hungReads.loads = append(f.hungReads.loads, l)
	return l
}

// resume continues what was held back while items waited for memory: batches, and slots of those
// that have begun. The lock is held.
func (f *flow) resume() {
	f.batches.takeWork.Broadcast()
	f.moreSlots(len(f.drawers))
}

// loadAhead begins the loads that may begin. The lock is held.
func (f *flow) loadAhead() {
	for f.mayLoad() {
		b := f.batches.schedule.nextSlot()
		if b == nil {
			return
		}
		l := f.claimSlot(b)
		f.loading++
		if f.idle > 0 {
			f.idle--
			f.next <- l
			continue
		}
		f.batches.wait.Go(func() {
			for ; l != nil; l = f.awaitLoad() {
				f.loadMore(l)
			}
		})
	}
}

// mostIdle bounds the goroutines that rest. Where so many loads are under way, reads take so long
// that the start of a goroutine does not count.
const mostIdle = 32

// awaitLoad waits for the next load. It returns nil if enough other goroutines rest, or when the
// engine closes.
func (f *flow) awaitLoad() *load {
	f.batches.mu.Lock()
	enough := f.batches.closed || f.idle >= min(f.window.size, mostIdle)
	if !enough {
		f.idle++
	}
	f.batches.mu.Unlock()
	if enough {
		return nil
	}
	return <-f.next
}

// forGPU reports whether the workers of the GPU take all slots of images.
func (f *flow) forGPU() bool {
	return f.onlyGPU || f.batches.device.share.takesAll() && f.hungReads.count.Load() == 0
}

// loadMore loads a sample, and then further ones while more are wanted.
func (f *flow) loadMore(l *load) {
	all := f.batches
	for l != nil {
		err := l.fetch()
		for err != nil && l.conclude(err) {
			err = l.fetch()
		}
		all.mu.Lock()
		f.loading--
		if err == nil {
			f.handOver(l)
		}
		l = nil
		if b := all.schedule.nextSlot(); b != nil && f.mayLoad() {
			l = f.claimSlot(b)
			f.loading++
		}
		all.mu.Unlock()
	}
}

// moreSlots wakes everything that fills slots, because n more can be handed out. Workers of the GPU
// that wait for slots choose first, and then call it again. The lock is held.
func (f *flow) moreSlots(n int) {
	if f.gpuWaits > 0 {
		f.gpuWork.Broadcast()
		if f.batches.device.share.isOn() {
			return
		}
	}
	f.loadAhead()
	for range min(n, f.resting) {
		f.work.Signal()
	}
}

// tryAgain makes another attempt at the load's item.
func (l *load) tryAgain() {
	if w := l.item.gpu; w != nil {
		w.make([]*load{l})
		return
	}
	f := l.batches.flow
	f.batches.mu.Lock()
	f.loading++
	f.batches.mu.Unlock()
	f.loadMore(l)
}

// endItem ends a load's item. The load becomes spare before anyone is woken, so that the next
// sample can use it.
func (l *load) endItem(err error) {
	it, at := l.item, l.sample.slotOnGPU
	l.batches.flow.recycle(l)
	l.batches.itemDone(it, at, err)
}

// presizeLoads allocates what the first samples took in an earlier run.
func (f *flow) presizeLoads() {
	hint := int(f.batches.opts.Hints.Input)
	if hint == 0 {
		return
	}
	for range f.usualLoads() {
		l := newLoad(f.batches)
		if err := l.input.presize(hint); err != nil {
			f.batches.opts.Logger.Warn("an input buffer could not be allocated beforehand", "reason", err)
		}
		f.hungReads.loads, f.spareLoads = append(f.hungReads.loads, l), append(f.spareLoads, l)
	}
}

// recycle makes a load spare. The load keeps its buffer, unless more loads are spare than will be
// used.
func (f *flow) recycle(l *load) {
	l.input.chargeActual()
	f.batches.mu.Lock()
	kept := f.addSpare(l)
	f.batches.mu.Unlock()
	if !kept {
		l.input.giveBack()
	}
}

// addSpare adds a load to those that are spare, unless there are enough. The lock is held.
func (f *flow) addSpare(l *load) bool {
	f.room.notLarge(l)
	if f.room.trial == l {
		f.room.trial = nil
		f.resume()
	}
	if len(f.room.waiting) > 0 {
		f.room.some.Signal() // the one that waits may be the only one now
	}
	if len(f.spareLoads) < f.usualLoads() || f.batches.closed {
		f.spareLoads = append(f.spareLoads, l)
		return true
	}
	f.hungReads.loads = without(f.hungReads.loads, l)
	return false
}

// trim frees what idle loads and drawers keep for the next sample.
func (f *flow) trim() {
	for _, l := range f.spareLoads {
		l.input.giveBack()
	}
	for _, d := range f.drawers {
		if d.resting {
			d.trim()
		}
	}
}

// replaceHanging starts a goroutine for each drawer whose own read is among those that hang. A
// sample that waits to be drawn together with that one is drawn alone.
func (f *flow) replaceHanging(hanging []*load) {
	for _, d := range f.drawers {
		if d.loading != nil && slices.Contains(hanging, d.loading) {
			d.loading = nil
			if d.first != nil {
				f.handOver(d.first)
				d.first = nil
			}
			d.takeovers++
			f.loading++ // from now on, it counts like any other load
			f.batches.wait.Go(d.run)
		}
	}
}
