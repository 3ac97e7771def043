package engine

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/batchfs/batchfs/internal/fault"
	"github.com/batchfs/batchfs/internal/gpu"
	"github.com/batchfs/batchfs/layout"
	"github.com/batchfs/batchfs/pinned"
)

// Batches get to a GPU in two ways. Most are copies of other batches, made ahead where a stream
// reads the form CUDA. If the GPU made samples of a batch (gpudecode.go), the batch is only there,
// and other forms are copied back. Only readers of the form CUDA depend on the GPU: work that it
// does not do in time, or fails at, is done without it.

// device is the GPU that batches are put on, with what its driver is asked to do. There is a device
// even without a GPU. The lock of the batches guards it.
type device struct {
	batches *batches
	gpu     *gpu.Device // nil: none
	share   *gpuShare   // divides samples between the GPU and the processors; nil: the GPU makes none
	workers []*gpuWorker
	use     gpuUse

	asking       []*batch      // batches that the driver is working on
	wait         time.Duration // how long host forms wait for the driver
	isLost       bool          // the GPU is lost, and that was reported
	unregistered sync.Once     // reports that the GPU does not copy from batch memory by itself
}

func newDevice(all *batches) *device {
	d := &device{batches: all, gpu: all.opts.Device, wait: deviceWait}
	if d.gpu != nil && (all.opts.DecodeOnDevice || all.opts.NVJPEG != "") {
		d.share = &gpuShare{whole: all.opts.NVJPEG != ""}
	}
	return d
}

// deviceWait is how long host forms wait for a call to the GPU's driver: longer than the driver
// takes to start and to compile kernels.
const deviceWait = 5 * time.Second

// ask has the GPU's driver do something for a batch, whose memory stays until the driver has
// answered. Only work for readers on the GPU may take longer than deviceWait, and no work is waited
// for once the engine closes. If the wait ends early, the error is errHangs or ErrClosed, and late,
// unless it is nil, is called once the driver has answered.
func (d *device) ask(b *batch, f func() error, late func(error)) error {
	all := d.batches
	all.mu.Lock()
	d.asking = append(d.asking, b)
	b.beginWork()
	all.mu.Unlock()
	answer, left := make(chan error), make(chan error, 1)
	all.wait.Go(func() {
		d.near()
		err := func() (err error) { defer catch(&err); return f() }()
		all.mu.Lock()
		d.asking = without(d.asking, b)
		all.endWork(b)
		all.mu.Unlock()
		select {
		case answer <- err:
		case why := <-left:
			if why == errHangs {
				d.answered()
			}
			if late != nil {
				late(err)
			}
		}
	})
	var timer <-chan time.Time
	if !b.isSent() {
		timer = time.After(d.wait)
	}
	select {
	case err := <-answer:
		return err
	case <-all.ctx.Done():
		left <- ErrClosed
		return ErrClosed
	case <-timer:
		d.share.hanging.Add(1)
		left <- errHangs
		return errHangs
	}
}

// answered notes that a call which hung has returned: the GPU gets slots again. If it gets all of
// them, nobody else takes those that are left.
func (d *device) answered() {
	all := d.batches
	all.mu.Lock()
	defer all.mu.Unlock()
	d.share.hanging.Add(-1)
	all.flow.moreSlots(len(all.flow.drawers))
}

// findSlot finds memory on the GPU for a copy. Other batches on the GPU give way to a copy that an
// Open waits for. The error is errNoRoom if there is no room now.
func (d *device) findSlot(c *batch) error {
	all := d.batches
	for {
		before := all.memory.ledger.returns()
		err := d.ask(c, func() error {
			slot, err := d.gpu.Slot(c.spec.Bytes())
			all.mu.Lock()
			defer all.mu.Unlock()
			c.slot = slot
			return err
		}, nil)
		full := errors.Is(err, gpu.ErrFull)
		if !full && !errors.Is(err, gpu.ErrMemory) {
			return err
		}
		if _, free := all.memory.batches.takeFrom(all.memory.batches.onGPU(), c, before, worthForeseen); !free {
			if full {
				return errNoRoom
			}
			return err
		}
	}
}

// slotAhead returns memory on the GPU for a batch if the GPU is to make samples of it for readers
// there; nil: there are no such readers, or there is no room without asking the driver.
func (d *device) slotAhead(b *batch) *gpu.Slot {
	all := d.batches
	all.mu.Lock()
	wanted := d.share.isOn() && d.isReadThere(b) && b.source == nil && b.form == all.catalog.TensorForm()
	all.mu.Unlock()
	for wanted {
		before := all.memory.ledger.returns()
		if slot := d.gpu.Room(b.spec.Bytes()); slot != nil {
			return slot
		}
		_, wanted = all.memory.batches.takeFrom(all.memory.batches.onGPU(), b, before, worthSpent)
	}
	return nil
}

// isReadThere reports whether the reader of a batch reads on the GPU.
func (d *device) isReadThere(b *batch) bool {
	form, ok := d.batches.streams.Form(b.key)
	return ok && form == layout.CUDA && d.batches.isKnown(b)
}

// send puts the parts of a batch on the GPU that are not there yet: all of it, in a copy's slot, or
// what the GPU has not made.
func (d *device) send(b, from *batch) error {
	slot := b.slot
	run := from.absent(slot.Address())
	slot.Hold()
	err := d.ask(b, func() error {
		defer slot.Release()
		d.register(from.buf)
		return d.gpu.Run(run)
	}, nil)
	if err != nil {
		return err
	}
	place := layout.Place{Device: d.gpu.UUID()}
	place.Handle, place.Offset = slot.Place()
	b.document, err = layout.AppendCUDA(nil, b.spec, b.valid, place)
	return err
}

// absent returns the copies that put the missing parts of a batch on the GPU, where the batch
// begins at an address.
func (b *batch) absent(address uint64) (r gpu.Run) {
	n := b.spec.SampleBytes()
	at := func(slot int) uint64 { return address + uint64(slot)*uint64(n) }
	for i, end := 0, 0; i < b.spec.N; i = end {
		if end = i + 1; !b.isAway(i) {
			for end < b.spec.N && !b.isAway(end) {
				end++
			}
			r.Put = append(r.Put, gpu.Put{To: at(i), From: b.pixels[int64(i)*n : int64(end)*n]})
		} else if i >= b.items {
			r.Within = append(r.Within, gpu.Within{To: at(i), From: at(b.items - 1), Bytes: n})
		}
	}
	return r
}

// fetch makes a copy in host memory of a batch that is on the GPU.
func (d *device) fetch(c *batch) error {
	run := gpu.Run{Back: []gpu.Back{{To: c.pixels, From: c.source.slot.Address()}}}
	err := errHangs
	if d.share.hanging.Load() == 0 {
		err = d.ask(c, func() error {
			d.register(c.buf)
			return d.gpu.Run(run)
		}, nil)
	}
	if err != nil && fault.Of(err) != fault.Cancelled {
		d.decodingFailed(err)
		err = fmt.Errorf("%w: %w", errAway, err)
	}
	return err
}

// forget makes the next Open of a batch's key make a new batch. Files that are open on the old one
// stay.
func (all *batches) forget(b *batch) {
	all.mu.Lock()
	defer all.mu.Unlock()
	all.remove(b)
	all.freeUnneeded(b)
}

// leave makes a batch in the making go on without the GPU: samples that were only there are made
// again.
func (d *device) leave(b *batch) {
	all := d.batches
	for i := range b.items {
		if b.isAway(i) {
			b.finished--
			if b.outcomes.left != nil {
				b.outcomes.left[i]++
			}
			all.handOutAgain(b, int32(i)) // images are the first part of what a GPU makes
		}
	}
	b.freeSlot(all.memory)
	if b.state != making {
		b.form = all.catalog.TensorForm()
		all.schedule.move(b, making)
	}
}

// register lets the GPU copy from and to a buffer by itself, if possible.
func (d *device) register(buf *pinned.Buffer) {
	if err := buf.Register(); err != nil {
		d.unregistered.Do(func() {
			d.batches.opts.Logger.Warn("batch memory is not registered with the GPU; copies take longer", "reason", err)
		})
	}
}

// isAhead reports whether a copy was made ahead, and is kept for its first reader.
func (b *batch) isAhead() bool { return b.isSent() && !b.opened }

// sendAhead has a batch that was just completed copied to the GPU if its readers read it there.
func (d *device) sendAhead(b *batch) {
	all := d.batches
	if d.isReadThere(b) && b.form != layout.CUDA && b.spec.Order == all.opts.Layout {
		all.newCopy(b, layout.CUDA)
	}
}

// failed reports that a batch could not be put on the GPU: once if the GPU is lost, otherwise each
// time that an Open fails.
func (d *device) failed(c *batch, err error) {
	all, lost := d.batches, errors.Is(err, gpu.ErrLost)
	if lost && d.isLost || !lost && c.waiting == 0 {
		return
	}
	d.isLost = lost
	all.opts.warnMachine(c.key, err)
	all.bad.add(BadSample{time.Now(), all.catalog.Options.FileName(c.key, c.form), -1, err.Error()})
}
