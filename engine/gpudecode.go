package engine

import (
	"errors"
	"slices"
	"time"

	"github.com/batchfs/batchfs/decode"
	"github.com/batchfs/batchfs/decode/pixels"
	"github.com/batchfs/batchfs/gpu"
	"github.com/batchfs/batchfs/pinned"
)

// A few item workers also make samples on the GPU: each takes a portion of a batch's slots, with a mate for every
// further one, and has these made at once while other workers go on with the rest. If the batch is read on the GPU, they
// stay there (batch.onGPU); else what comes back is copied into the slots. What the GPU does not do, or fails at, the
// worker does on a processor.
//
// Files are read as a whole for that, even if there are entry points: the kernels find out where each stretch
// of a file's codes begins, all at once, and start anywhere only by way of that.

const (
	mostOnDevice     = 64        // samples of a portion
	mostDeviceBytes  = 256 << 20 // on the GPU for a portion
	mostDevicePixels = 4 << 20   // of an image: one block of threads decodes all its codes, and all others of the portion wait
	stagingUnit      = 1 << 20
	processorsPerGPU = 4 // for each of which there is a worker that uses the GPU, beyond two: one loads while the other waits
)

// deviceWorkers is the number of workers that use the GPU.
func (all *batches) deviceWorkers() int {
	switch {
	case all.share == nil:
		return 0
	case all.opts.NVJPEG != "":
		return all.crew.size
	}
	return min(all.crew.size, max(2, cap(all.schedule.processors.free)/processorsPerGPU))
}

// claimPortion claims further slots of the worker's batch for its mates, and returns all hands that have a slot; nil: the
// worker goes on without the GPU.
func (all *batches) claimPortion(w *worker) []*worker {
	if len(w.hands) <= 2 || !all.share.isOn() {
		return nil
	}
	all.mu.Lock()
	defer all.mu.Unlock()
	b := w.item.b
	if all.closed || !w.item.isCurrent() || b.refused || all.crew.stalled.Load() > 0 || w.lone == b {
		return nil
	}
	n := min(all.share.portion(1+len(b.todo), cap(all.schedule.processors.free)), len(w.hands))
	if n == 0 {
		return nil
	}
	for _, h := range w.hands[1:n] {
		h.take(b)
	}
	return w.hands[:n]
}

// makePortion fills the slots that the hands have claimed.
func (w *worker) makePortion(hands []*worker) {
	all, began, errs := w.batches, time.Now(), make([]error, len(hands))
	var fetched []*worker
	for i, h := range hands {
		if errs[i] = all.stillWanted(h.item); errs[i] != nil {
			continue
		}
		h.noParts = true
		errs[i] = h.fetchFirst()
		h.noParts = false
		if errs[i] == nil && h.isForDevice() {
			fetched = append(fetched, h)
		}
	}
	var failed error
	if all.opts.NVJPEG != "" {
		failed = w.makeByNVJPEG(fetched)
	} else if made, err := w.makeOnDevice(fetched); err != nil {
		all.decodingFailed(err)
	} else if made > 0 {
		all.share.deviceTook(began, made)
		all.meter.decoded(JPEGStats{GPU: int64(made)})
	} else {
		all.share.rest() // nothing is of a kind that the GPU decodes
	}
	for i, h := range hands {
		if errs[i] == nil && !h.sample.made && slices.Contains(fetched, h) {
			errs[i] = failed
		}
		if errs[i] == nil && !h.sample.made {
			errs[i] = draw(h.hands[:1])[0]
		}
		h.conclude(errs[i])
	}
}

// isForDevice reports whether the sample that was fetched may be of a kind that the GPU decodes.
func (w *worker) isForDevice() bool {
	if w.batches.opts.NVJPEG != "" {
		return w.isForNVJPEG()
	}
	head := &w.sample.head
	return head.Format == decode.JPEG && int64(head.Height)*int64(head.Width) <= mostDevicePixels
}

// makeOnDevice makes samples on the GPU, and notes which. How many is 0 if the GPU has no room, or decodes none of them.
// After an error, the staging buffer stays as it is until the engine ends, since a lost GPU may still use it.
func (w *worker) makeOnDevice(hands []*worker) (made int, err error) {
	defer catch(&err)
	in := w.batches.holdSlot(w.item)
	defer release(in)
	plan, on := w.planOnDevice(hands, in)
	if plan == nil {
		return 0, nil
	}
	made, err = w.runOnDevice(plan, on, in)
	if errors.Is(err, errNoRoom) || errors.Is(err, gpu.ErrFull) {
		return 0, nil
	}
	return made, err
}

// runOnDevice makes samples as planned, in the batch's slot if that is there. The error is errNoRoom without memory for the staging buffer.
func (w *worker) runOnDevice(plan *gpu.Plan, on []*worker, in *gpu.Slot) (made int, err error) {
	all, b := w.batches, w.item.b
	if err := w.growStaging(plan.Host()); err != nil {
		return 0, err
	}
	host := w.staging.Bytes()
	for i := range on {
		plan.Put(host, i)
	}
	tensor, left, err := w.askForSamples(plan, in)
	if !errors.Is(err, gpu.ErrFull) {
		all.memory.ledger.cameBack() // others may wait for the GPU's memory
	}
	if err != nil {
		if in != nil && err == errHangs { // it may write there later
			all.giveUpSlot(w.item, in)
		}
		return 0, err
	}
	for _, k := range left {
		on[k] = nil
	}
	n := int(b.spec.SampleBytes())
	for k, h := range on {
		if h == nil || all.beginWriting(h.item) != nil {
			continue // drawing it finds out again that it is not wanted
		}
		if in == nil {
			copy(b.slotBytes(h.item.slot), tensor[k*n:][:n])
		}
		h.record()
		h.sample.made, h.sample.at = true, in
		made++
		all.endWriting(b)
	}
	return made, nil
}

// holdSlot returns the memory on the GPU of an item's batch, for the caller to release; nil: it has none.
func (all *batches) holdSlot(it item) *gpu.Slot {
	all.mu.Lock()
	defer all.mu.Unlock()
	if !it.isCurrent() || it.b.slot == nil {
		return nil
	}
	it.b.slot.Hold()
	return it.b.slot
}

// giveUpSlot makes an item's batch go on without its memory on the GPU.
func (all *batches) giveUpSlot(it item, in *gpu.Slot) {
	all.mu.Lock()
	defer all.mu.Unlock()
	if it.isCurrent() && it.b.slot == in {
		all.leaveGPU(it.b)
	}
}

func release(s *gpu.Slot) {
	if s != nil {
		s.Release()
	}
}

// askForSamples has the GPU make samples that are in the staging buffer, which the worker does not have any more if there
// is no answer.
func (w *worker) askForSamples(plan *gpu.Plan, in *gpu.Slot) (tensor []byte, left []int, err error) {
	all, staging := w.batches, w.staging
	w.staging = nil
	if in != nil {
		in.Hold()
	}
	var made struct {
		tensor []byte
		left   []int
	}
	err = all.ask(w.item.b, func() (err error) {
		defer release(in)
		all.register(staging)
		made.tensor, made.left, err = all.opts.Device.Make(plan, staging.Bytes())
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

// planOnDevice plans the samples that the GPU decodes, as many as fit, in the batch's slot or, without one, in a tensor of
// their own; nil: none.
func (w *worker) planOnDevice(on []*worker, in *gpu.Slot) (*gpu.Plan, []*worker) {
	all := w.batches
	to := gpu.Tensor{Spec: w.item.b.spec, Converter: all.converter, Fill: all.opts.Fill, In: in}
	o, nvjpeg := w.pixelOptions, all.opts.NVJPEG != ""
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
			return nil, nil
		}
		var kept []*worker
		for i, h := range on {
			if plan.Decodes(i) {
				kept = append(kept, h)
			}
		}
		if plan.Device() > mostDeviceBytes && !(nvjpeg && len(on) == 1) {
			kept = kept[:len(kept)/2]
		}
		if len(kept) == len(on) {
			return plan, on
		}
		on = kept
	}
	return nil, nil
}

// growStaging makes the worker's staging buffer at least n bytes large. Other memory gives way only if processors cannot make
// the samples instead. The error may be errNoRoom.
func (w *worker) growStaging(n int) error {
	if w.staging != nil && len(w.staging.Bytes()) >= n {
		return nil
	}
	w.freeStaging()
	all, size := w.batches, int64(n+stagingUnit-1)&^(stagingUnit-1)
	var buf *pinned.Buffer
	var err error
	if all.opts.NVJPEG != "" {
		buf, err = all.memory.buffer(w.item.b, size)
	} else if buf, err = all.memory.pool.Get(size); err != nil {
		all.share.rest()
		err = errNoRoom
	}
	if err != nil {
		return err
	}
	w.staging = buf
	return nil
}

func (w *worker) freeStaging() {
	if w.staging != nil {
		w.batches.memory.freeBuffer(w.staging)
		w.staging = nil
	}
}

// decodingFailed ends decoding on the GPU, unless it only lacks memory at the moment, or has not answered yet.
func (all *batches) decodingFailed(err error) {
	switch {
	case errors.Is(err, ErrClosed):
		return
	case errors.Is(err, gpu.ErrMemory):
		all.share.rest()
	case !errors.Is(err, errHangs):
		all.share.off.Store(true)
	}
	all.share.failed.Do(func() {
		if all.opts.NVJPEG != "" {
			return // its failures are those of batches
		}
		all.log.Warn("the GPU does not decode; the processors do", "reason", err)
	})
}
