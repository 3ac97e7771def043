package engine

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/batchfs/batchfs/decode"
	"github.com/batchfs/batchfs/internal/catalog"
	"github.com/batchfs/batchfs/internal/fault"
	"github.com/batchfs/batchfs/internal/gpu"
	"github.com/batchfs/batchfs/internal/pixels"
	"github.com/batchfs/batchfs/pinned"
)

// Beside the drawers, a few workers make samples on the GPU. Each takes a portion of a batch's
// slots, and has the GPU make them at once while the drawers go on with the rest. If the batch is
// read on the GPU, the samples stay there (batch.onGPU); otherwise they come back and are copied
// into the slots. The drawers make what the GPU does not take, or fails at.
//
// The GPU needs whole files, even if there are entry points: its kernels find out where each
// stretch of a file's codes begins, all at once, and can start anywhere only because of that.

const (
	mostOnDevice     = 256       // samples of a portion: the fewer, the more often kernels take turns with those of training
	fewOnDevice      = 16        // samples of a portion that is not divided further where there is little room
	mostDeviceBytes  = 512 << 20 // memory on the GPU for a portion
	mostDevicePixels = 4 << 20   // pixels of an image: one block of threads decodes all its codes, while all other images of the portion wait
	stagingUnit      = 1 << 20
	processorsPerGPU = 4 // beyond two workers for the GPU, there is one more for each group of this many: one loads while another waits
)

// A gpuWorker takes portions of slots, and has the GPU make them.
type gpuWorker struct {
	batches *batches

	mu      sync.Mutex     // held while the GPU is at work
	staging *pinned.Buffer // what the GPU reads and writes; nil: none yet
}

// startWorkers starts the workers that have the GPU make samples.
func (d *device) startWorkers() {
	all, n := d.batches, 0
	switch {
	case d.share == nil:
	case all.opts.NVJPEG != "":
		n = all.opts.Workers
	default:
		n = min(all.opts.Workers, max(2, len(all.flow.drawers)/processorsPerGPU))
	}
	for range n {
		w := &gpuWorker{batches: all}
		d.workers = append(d.workers, w)
		all.wait.Go(w.run)
	}
}

func (w *gpuWorker) run() {
	w.batches.device.near()
	for hands := w.claim(); hands != nil; hands = w.claim() {
		w.make(hands)
		if all := w.batches; !all.device.share.isOn() {
			all.mu.Lock()
			all.flow.moreSlots(len(all.flow.drawers)) // the drawers have to make these slots now
			all.mu.Unlock()
		}
	}
}

// claim waits for a portion of the most important batch. It returns nil when the engine closes.
func (w *gpuWorker) claim() (hands []*load) {
	all := w.batches
	all.mu.Lock()
	defer all.mu.Unlock()
	for !all.closed {
		if b := all.schedule.nextForGPU(); b != nil {
			for range min(w.portion(b), all.device.mostHands()) {
				l := all.flow.claimSlot(b)
				l.item.gpu = w
				hands = append(hands, l)
			}
		}
		all.flow.loadAhead()
		all.flow.work.Broadcast()
		if len(hands) > 0 {
			return hands
		}
		all.flow.gpuWaits++
		all.flow.gpuWork.Wait()
		all.flow.gpuWaits--
	}
	return nil
}

// portion is how many slots of a batch the worker should take now.
func (w *gpuWorker) portion(b *batch) int {
	all := w.batches
	switch {
	case all.device.share.isOn() && all.flow.hungReads.count.Load() == 0:
		images := slices.IndexFunc(b.todo, func(n int32) bool { return b.partOf(n) != catalog.Images })
		if images < 0 {
			images = len(b.todo)
		}
		return all.device.share.portion(images, len(all.flow.drawers))
	case all.opts.NVJPEG != "":
		return 1 // nobody else makes it
	}
	return 0
}

// make has the claimed slots filled.
func (w *gpuWorker) make(hands []*load) {
	all, began := w.batches, time.Now()
	var fetched []*load
	for _, l := range hands {
		err := l.item.stillWanted()
		if err == nil {
			err = l.fetch()
		}
		if err == nil && w.takes(l) {
			fetched = append(fetched, l)
		} else {
			w.leave(l, err, len(hands) > 1)
		}
	}
	made, failed := w.makeOnDevice(fetched)
	if all.opts.NVJPEG == "" { // processors make what the GPU has not made
		if failed != nil {
			all.device.decodingFailed(failed)
		} else if made == 0 {
			all.device.share.pauseGPU() // there is no room, or the GPU decodes none of these samples
		}
		if failed = nil; made > 0 {
			all.device.share.deviceTook(began, made)
		}
	}
	for _, l := range fetched {
		if l.sample.madeOnGPU {
			w.letGo(l)
			l.ended(nil)
			continue
		}
		err := failed
		switch {
		case err == nil:
			err = l.plan()
		case errors.Is(err, errNoRoom):
			staging, _ := errors.AsType[noStaging](err)
			err, l.item.asks, l.item.again = errNoRoom, amount{onGPU: true, staging: int64(staging)}, true
		}
		w.leave(l, err, len(hands) > 1)
	}
}

// letGo leaves any other attempt at a load's item to the drawers, unless nobody else may make it.
func (w *gpuWorker) letGo(l *load) {
	if w.batches.opts.NVJPEG == "" {
		l.item.gpu = nil
	}
}

// leave has a load continue apart from its portion: what was fetched goes to the drawers. If there
// was no memory for it beside others, another attempt follows.
func (w *gpuWorker) leave(l *load, err error, others bool) {
	all := w.batches
	w.letGo(l)
	switch {
	case err == nil:
		all.mu.Lock()
		all.flow.handOver(l)
		all.mu.Unlock()
		return
	case fault.Of(err) == fault.Memory && (others || l.item.gpu == nil):
		w.trim()
		l.input.giveBack()
		all.wait.Go(l.tryAgain)
		return
	}
	l.ended(err)
}

// takes reports whether the sample that was fetched may be of a kind that the GPU decodes.
func (w *gpuWorker) takes(l *load) bool {
	head := &l.sample.head
	switch {
	case l.item.part != catalog.Images:
		return false
	case w.batches.opts.NVJPEG != "":
		return l.isForNVJPEG()
	}
	return head.Format == decode.JPEG && int64(head.Height)*int64(head.Width) <= mostDevicePixels
}

// makeOnDevice makes samples on the GPU, all at once if there is room for that, and marks them.
// made is 0 if the GPU has no room, or decodes none of them; with nvJPEG, the error is then
// errNoRoom or errUnplanned. After an error, the staging buffer stays as it is until the engine
// ends, since a lost GPU may still use it.
func (w *gpuWorker) makeOnDevice(of []*load) (made int, err error) {
	defer catch(&err)
	w.mu.Lock()
	defer w.mu.Unlock()
	all, few := w.batches, fewOnDevice
	nvjpeg := all.opts.NVJPEG != ""
	if nvjpeg {
		few = 1
	}
	for most := len(of); len(of) > 0; {
		if nvjpeg {
			if lost := all.device.gpu.Stats().Lost; lost != nil {
				return made, lost
			}
			if all.device.share.hanging.Load() > 0 { // one more call would keep the memory of one more batch
				return made, errHangs
			}
		}
		in := of[0].holdSlot()
		n := min(most, len(of))
		plan, on, rest := w.planOnDevice(of[:n], in)
		done := 0
		if plan != nil {
			done, err = w.runOnDevice(plan, on, in)
			all.meter.decoded(JPEGStats{GPU: int64(done)})
		} else if nvjpeg {
			err = errUnplanned
		}
		release(in)
		if errors.Is(err, gpu.ErrLost) {
			all.device.share.failed.Store(true) // it may use the staging buffer forever
		}
		full := errors.Is(err, errNoRoom) || errors.Is(err, gpu.ErrFull)
		switch {
		case err == nil:
			made, of = made+done, append(rest, of[n:]...)
		case (full || errors.Is(err, gpu.ErrMemory)) && len(on) > few: // fewer samples may fit
			most, err = len(on)/2, nil
		case full && !nvjpeg:
			return made, nil
		case errors.Is(err, gpu.ErrFull):
			return made, fmt.Errorf("%w: %w", errNoRoom, err)
		default:
			return made, err
		}
	}
	return made, nil
}

// runOnDevice makes samples as planned, in the batch's slot if that is there. The error is a
// noStaging if there is no memory for the staging buffer.
func (w *gpuWorker) runOnDevice(plan *gpu.Plan, on []*load, in *gpu.Slot) (made int, err error) {
	all, b := w.batches, on[0].item.batch
	if err := w.growStaging(b, plan.Host()); err != nil {
		return 0, err
	}
	host := w.staging.Bytes()
	for i := range on {
		plan.Put(host, i)
	}
	tensor, left, err := w.askForSamples(b, plan, in)
	if !errors.Is(err, gpu.ErrFull) {
		all.memory.ledger.cameBack() // others may be waiting for the GPU's memory
	}
	if err != nil {
		if in != nil && err == errHangs { // the GPU may write there later
			all.device.giveUpSlot(b, in)
		}
		return 0, err
	}
	n := int(b.spec.SampleBytes())
	for k, h := range on {
		if slices.Contains(left, k) || h.item.beginWriting() != nil {
			continue // drawing the sample finds out again that it is not wanted
		}
		if in == nil {
			copy(b.slotBytes(h.item.slot), tensor[k*n:][:n])
		}
		h.record()
		h.sample.madeOnGPU, h.sample.slotOnGPU = true, in
		made++
		h.item.endWriting()
	}
	return made, nil
}

// holdSlot returns the memory on the GPU of a load's batch, for the caller to release; nil: it has
// none.
func (l *load) holdSlot() *gpu.Slot {
	all, b := l.batches, l.item.batch
	all.mu.Lock()
	defer all.mu.Unlock()
	if !l.item.isCurrent() || b.slot == nil {
		return nil
	}
	b.slot.Hold()
	return b.slot
}

// giveUpSlot makes a batch go on without its memory there.
func (d *device) giveUpSlot(b *batch, in *gpu.Slot) {
	all := d.batches
	all.mu.Lock()
	defer all.mu.Unlock()
	if b.state < ready && b.slot == in {
		d.leave(b)
	}
}

func release(s *gpu.Slot) {
	if s != nil {
		s.Release()
	}
}

// askForSamples has the GPU make the samples in the staging buffer. If there is no answer, the
// worker no longer has that buffer.
func (w *gpuWorker) askForSamples(b *batch, plan *gpu.Plan, in *gpu.Slot) (tensor []byte, left []int, err error) {
	all, staging := w.batches, w.staging
	w.staging = nil
	if in != nil {
		in.Hold()
	}
	var made struct {
		tensor []byte
		left   []int
	}
	err = all.device.ask(b, func() (err error) {
		defer release(in)
		all.device.register(staging)
		made.tensor, made.left, err = all.device.gpu.Make(plan, staging.Bytes())
		return err
	}, func(err error) {
		if errors.Is(err, gpu.ErrLost) {
			<-all.ctx.Done()
		}
		all.memory.freeBuffer(staging)
	})
	if err == errHangs || err == ErrClosed {
		return nil, nil, err
	}
	w.staging = staging
	return made.tensor, made.left, err
}

// planOnDevice plans as many of the samples that the GPU decodes as fit, in the batch's slot or,
// without one, in a tensor of their own; nil: none. rest are those that did not fit.
func (w *gpuWorker) planOnDevice(on []*load, in *gpu.Slot) (plan *gpu.Plan, planned, rest []*load) {
	all := w.batches
	to := gpu.Tensor{Spec: on[0].item.batch.spec, Converter: all.catalog.Converter, Fill: all.opts.Fill, In: in}
	o, nvjpeg := on[0].pixelOptions, all.opts.NVJPEG != ""
	o.FullJPEGs = o.FullJPEGs || nvjpeg
	for len(on) > 0 {
		samples := make([]gpu.Sample, len(on))
		for i, h := range on {
			p := &h.sample
			samples[i] = gpu.Sample{Slot: i, Job: o.Plan(p.head, p.transform, pixels.Target{}), Data: p.data, NVJPEG: nvjpeg}
			if in != nil {
				samples[i].Slot = h.item.slot
			}
		}
		if in == nil {
			to.Spec.N = len(on)
		}
		plan, err := gpu.NewPlan(to, samples)
		if err != nil {
			return nil, nil, nil
		}
		var kept []*load
		for i, h := range on {
			if plan.Decodes(i) {
				kept = append(kept, h)
			}
		}
		if n := len(kept); n == 1 && !nvjpeg && plan.Device() > mostDeviceBytes {
			kept = nil
		} else if n > 1 && plan.Device() > mostDeviceBytes {
			fit := max(1, n*mostDeviceBytes/plan.Device())
			kept, rest = kept[:fit], slices.Concat(kept[fit:], rest)
		}
		if len(kept) == len(on) {
			return plan, on, rest
		}
		on = kept
	}
	return nil, nil, rest
}

// A noStaging is an errNoRoom: there is no room for a staging buffer of so many bytes.
type noStaging int64

func (n noStaging) Error() string { return errNoRoom.Error() }
func (n noStaging) Unwrap() error { return errNoRoom }

// growStaging makes the worker's staging buffer at least n bytes large. Other memory gives way only
// if processors cannot make the samples instead. The error may be a noStaging.
func (w *gpuWorker) growStaging(b *batch, n int) error {
	if w.staging != nil && len(w.staging.Bytes()) >= n {
		return nil
	}
	w.dropStaging()
	all, size := w.batches, int64(n+stagingUnit-1)&^(stagingUnit-1)
	var buf *pinned.Buffer
	var err error
	if all.opts.NVJPEG != "" {
		buf, err = all.memory.buffer(b, size)
	} else if buf, err = all.memory.pool.Get(size); err != nil {
		err = errNoRoom
	}
	if err == errNoRoom {
		return noStaging(size)
	}
	if err != nil {
		return err
	}
	w.staging = buf
	return nil
}

// trim frees the staging buffer, unless the GPU is at work, or has failed and may still use it.
func (w *gpuWorker) trim() {
	if !w.mu.TryLock() {
		return
	}
	defer w.mu.Unlock()
	if !w.batches.device.share.failed.Load() {
		w.dropStaging()
	}
}

// freeStaging frees the staging buffer when the engine ends.
func (w *gpuWorker) freeStaging() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.dropStaging()
}

func (w *gpuWorker) dropStaging() {
	if w.staging != nil {
		w.batches.memory.freeBuffer(w.staging)
		w.staging = nil
	}
}

// decodingFailed ends decoding on the GPU, unless the GPU only lacks memory at the moment, or has
// not answered yet.
func (d *device) decodingFailed(err error) {
	switch {
	case errors.Is(err, ErrClosed):
		return
	case errors.Is(err, gpu.ErrMemory):
		d.share.pauseGPU()
	case !errors.Is(err, errHangs):
		d.share.failed.Store(true)
	}
	d.share.reportOnce.Do(func() {
		if d.batches.opts.NVJPEG != "" {
			return // its failures are reported as those of batches
		}
		d.batches.opts.Logger.Warn("the GPU does not decode; the processors do", "reason", err)
	})
}
