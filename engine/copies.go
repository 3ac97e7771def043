package engine

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/batchfs/batchfs/layout"
	"github.com/batchfs/batchfs/pinned"
)

// A derived is a copy of a batch in another form. It exists while it is open or being made.
type derived struct {
	form layout.Form
	refs int           // guarded by batches.mu
	done chan struct{} // closed when buf or err is set
	buf  *pinned.Buffer
	err  error

	short atomic.Bool // its maker was refused memory, and tries again
}

// holdCopy returns b, which the caller holds, in another form; the caller lets go of it by
// unholdCopy. Concurrent callers share one copy, which is made in a goroutine of its own, so
// that interrupting a caller does not stop it.
func (r *readers) holdCopy(ctx context.Context, b *batch, form layout.Form) (*derived, error) {
	c, err := r.batches.joinCopy(b, form)
	if err != nil {
		return nil, err
	}
	left := func() time.Duration {
		if c.short.Load() {
			return 0
		}
		return max(r.memoryWait, 10*time.Millisecond)
	}
	if err = r.await(ctx, c.done, left, b.key, b.key.String()+"."+form.Ext()); err == nil {
		err = c.err
	}
	if err != nil {
		r.batches.unholdCopy(b, c)
		return nil, err
	}
	return c, nil
}

// joinCopy finds a copy, or starts to make it.
func (all *batches) joinCopy(b *batch, form layout.Form) (*derived, error) {
	all.mu.Lock()
	defer all.mu.Unlock()
	if all.closed {
		return nil, ErrClosed
	}
	c := b.copies[form]
	if c == nil {
		c = &derived{form: form, done: make(chan struct{})}
		if b.copies == nil {
			b.copies = map[layout.Form]*derived{}
		}
		b.copies[form] = c
		b.refs++ // held by makeCopy
		c.refs++
		all.wait.Go(func() { all.makeCopy(b, c) })
	}
	c.refs++
	return c, nil
}

// makeCopy makes a copy, then lets go of it and of the batch.
func (all *batches) makeCopy(b *batch, c *derived) {
	buf, err := all.copyInTurn(b, c)
	if err != nil && causeOf(err) != ofCancelled {
		err = machineError(err)
		warnMachine(all.log, b.key, err)
	}
	all.mu.Lock()
	if c.buf, c.err = buf, err; err != nil {
		delete(b.copies, c.form) // the next Open tries again
	}
	all.mu.Unlock()
	close(c.done)
	all.unholdCopy(b, c)
	all.unhold(b)
}

// unholdCopy lets go of a copy.
func (all *batches) unholdCopy(b *batch, c *derived) {
	all.mu.Lock()
	defer all.mu.Unlock()
	if c.refs--; c.refs > 0 {
		return
	}
	if b.copies[c.form] == c {
		delete(b.copies, c.form)
	}
	if c.buf != nil {
		all.memory.freeBuffer(c.buf)
	}
}

// copyInTurn makes a copy, waiting for memory while a caller still wants it.
func (all *batches) copyInTurn(b *batch, c *derived) (buf *pinned.Buffer, err error) {
	for pause := soonestRetry; ; pause = min(2*pause, latestRetry) {
		err = guarded(func() (err error) {
			buf, err = all.copyAs(b, c.form)
			return err
		})
		if causeOf(err) != ofTurn {
			return buf, err
		}
		c.short.Store(true)
		select {
		case <-time.After(pause):
		case <-all.closing:
			return nil, ErrClosed
		}
		all.mu.Lock()
		alone := c.refs == 1
		all.mu.Unlock()
		if alone {
			return nil, errDropped
		}
	}
}

// copyAs writes a complete batch in another form into a new buffer.
func (all *batches) copyAs(b *batch, form layout.Form) (copied *pinned.Buffer, err error) {
	spec := b.spec
	if form != layout.PNG {
		spec = spec.In(form.OrderOf(all.opts.Layout))
	}
	buf, err := all.memory.buffer(b, layout.Size(form, spec))
	if err != nil {
		return nil, err
	}
	defer func() {
		if copied == nil { // a panic
			buf.Release()
		}
	}()
	if form == layout.PNG {
		all.converter.PutSheet(buf.Bytes(), spec, b.pixels, b.valid)
		return buf, nil
	}
	start := layout.DataOffset(form, spec)
	layout.Turn(buf.Bytes()[start:], spec.Order, b.pixels, b.spec)
	layout.PutHeader(form, spec, buf.Bytes(), b.description().Meta())
	return buf, nil
}
