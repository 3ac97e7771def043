package engine

import (
	"errors"

	"github.com/batchfs/batchfs/gpu"
	"github.com/batchfs/batchfs/layout"
	"github.com/batchfs/batchfs/pinned"
)

// Batches on a GPU are copies of others, made ahead where a stream reads the form CUDA.

// slotFor returns memory on the GPU for a copy. Copies made ahead give way to one that an Open
// waits for. The error is errNoRoom if there is no room now.
func (all *batches) slotFor(c *batch) (*gpu.Slot, error) {
	for {
		before := all.memory.ledger.returns()
		slot, err := all.opts.Device.Slot(c.spec.Bytes())
		full := errors.Is(err, gpu.ErrFull)
		if !full && !errors.Is(err, gpu.ErrMemory) {
			return slot, err
		}
		if !all.dropSent(c, before) {
			if full {
				return nil, errNoRoom
			}
			return nil, err
		}
	}
}

// dropSent drops the copy that was made ahead farthest from its reader, for c, which was refused
// when the ledger had counted before returns. It returns false if there is none, or its memory is
// not free yet.
func (all *batches) dropSent(c *batch, before uint64) (free bool) {
	all.mu.Lock()
	defer all.mu.Unlock()
	c.refusedAt = before
	switch {
	case all.closed || c.state == failed || c.refs == 0:
		return false
	case all.memory.ledger.returns() != before:
		return true
	}
	var victim *batch
	for _, b := range all.table {
		v := b.copies[layout.CUDA]
		if v == nil || v.refs > 0 || v.state == queued || v.state == laying {
			continue
		}
		if victim == nil || all.streams.distance(v) > all.streams.distance(victim) {
			victim = v
		}
	}
	if victim == nil {
		return false
	}
	free = victim.writers == 0
	all.discard(victim)
	return free
}

// send makes a copy on the GPU.
func (all *batches) send(c *batch) error {
	defer all.askingDevice(c)()
	source := c.source
	all.register(source.buf)
	if err := c.slot.Fill(source.pixels); err != nil {
		return err
	}
	place := layout.Place{Device: all.opts.Device.UUID()}
	place.Handle, place.Offset = c.slot.Place()
	document, err := layout.AppendCUDA(nil, c.spec, c.valid, place)
	c.document = document
	return err
}

// askingDevice notes that the GPU's driver is being asked about a batch, until done is called.
func (all *batches) askingDevice(b *batch) (done func()) {
	all.mu.Lock()
	defer all.mu.Unlock()
	all.asking = append(all.asking, b)
	return func() {
		all.mu.Lock()
		defer all.mu.Unlock()
		all.asking = without(all.asking, b)
	}
}

// register lets the GPU copy from and to a buffer by itself, if possible.
func (all *batches) register(buf *pinned.Buffer) {
	if err := buf.Register(); err != nil {
		all.unregistered.Do(func() {
			all.log.Warn("batch memory is not registered with the GPU; copies take longer", "reason", err)
		})
	}
}

// isAhead reports whether a copy was made ahead, and is kept for its first reader.
func (b *batch) isAhead() bool { return b.task() == toSend && !b.opened }

// sendAhead has a batch that was just completed copied to the GPU if its readers read it there.
func (all *batches) sendAhead(b *batch) {
	if s := b.stream; s != nil && s.form == layout.CUDA && b.spec.Order == all.opts.Layout {
		all.newCopy(b, layout.CUDA)
	}
}

// deviceFailed reports that a batch could not be put on the GPU: of a lost GPU once, of anything
// else each time that an Open fails.
func (all *batches) deviceFailed(c *batch, err error) {
	lost := errors.Is(err, gpu.ErrLost)
	if lost && all.deviceLost || !lost && c.waiting == 0 {
		return
	}
	all.deviceLost = lost
	warnMachine(all.log, c.key, err)
	all.bad.reportBatch(c.key.String()+"."+c.form.Ext(), err)
}
