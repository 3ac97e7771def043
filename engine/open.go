package engine

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/batchfs/batchfs/layout"
	"github.com/batchfs/batchfs/pinned"
)

// A File is a complete batch in one form, open. Its bytes stay valid and unchanged
// until Close.
type File struct {
	engine *Engine
	batch  *batch
	copy   *derived // nil when the batch's own buffer has the form
	closed atomic.Bool
}

// Bytes is the whole file. It belongs to the engine: read only, until Close.
func (f *File) Bytes() []byte { return f.buffer().Bytes() }

// Fd is a descriptor of a file that holds exactly Bytes, for the kernel to serve;
// -1 where there is none. It is valid until Close; what the kernel has registered
// stays valid after it.
func (f *File) Fd() int { return f.buffer().Fd() }

func (f *File) buffer() *pinned.Buffer {
	if f.copy != nil {
		return f.copy.buf
	}
	return f.batch.buf
}

// Close lets go of the bytes. Closing twice panics.
func (f *File) Close() {
	if f.closed.Swap(true) {
		panic("engine: file closed twice")
	}
	f.engine.unref(f.batch, f.copy)
}

// Open returns a batch in one of its large forms, made by whoever asked first. It
// waits until the batch is complete; ctx ends only the waiting, not the making.
//
// Errors: ErrNotExist, ErrBad, ErrNoMemory, ErrTooBig, ErrClosed, and ctx's own.
func (e *Engine) Open(ctx context.Context, k Key, form layout.Form) (*File, error) {
	if !e.Exists(k) || !form.Large() {
		return nil, fmt.Errorf("%w: %s.%s", ErrNotExist, k, form.Ext())
	}
	own := form
	if form == layout.PNG {
		own = formOf(e.opts.Layout) // a picture is made from the pixels
	}
	b, err := e.ready(ctx, k, own)
	if err != nil {
		return nil, err
	}
	if b.form == form {
		return &File{engine: e, batch: b}, nil
	}
	c, err := e.derive(b, form)
	if err != nil {
		e.unref(b, nil)
		return nil, err
	}
	return &File{engine: e, batch: b, copy: c}, nil
}

// ready returns a complete batch and holds it; the caller lets go by unref. form
// is what it is made in when it is not there yet.
func (e *Engine) ready(ctx context.Context, k Key, form layout.Form) (*batch, error) {
	e.mu.Lock()
	if e.closed {
		e.mu.Unlock()
		return nil, ErrClosed
	}
	b := e.table[k]
	if b == nil {
		b = e.newBatch(k, form)
		e.enqueue(b)
	} else if b.state == queued && !b.laidOut {
		b.form = form
	}
	b.refs++
	e.follow(b, form)
	if b.state == ready {
		e.mu.Unlock()
		e.meter.opened(0, true)
		return b, nil
	}
	if b.waiting++; b.waiting == 1 {
		e.asked++
		b.asked = e.asked
	}
	e.urge(b)
	e.mu.Unlock()
	return b, e.await(ctx, b)
}

// await waits for a batch that the caller holds, and lets go of it on failure.
func (e *Engine) await(ctx context.Context, b *batch) error {
	began := time.Now()
	e.meter.waiting(1)
	var err error
	select {
	case <-b.done:
		err = b.err
	case <-ctx.Done():
		err = ctx.Err()
	case <-e.closing:
		err = ErrClosed
	}
	e.meter.waiting(-1)
	e.meter.opened(time.Since(began), err == nil)
	e.mu.Lock()
	b.waiting--
	e.mu.Unlock()
	if err != nil {
		e.unref(b, nil)
	}
	switch {
	case errors.Is(err, ErrNoMemory):
		e.log.Warn("an open failed for want of memory", "batch", b.key.String(), "reason", err)
	case errors.Is(err, ErrTooBig):
		e.log.Warn("an open failed: the batch is too large for any file", "batch", b.key.String(), "reason", err)
	}
	return err
}

// newBatch enters a batch into the table.
func (e *Engine) newBatch(k Key, form layout.Form) *batch {
	b := &batch{key: k, form: form, done: make(chan struct{})}
	b.progress.L = &e.mu
	e.table[k] = b
	return b
}

// enqueue lets batch workers see a batch.
func (e *Engine) enqueue(b *batch) {
	e.queue = append(e.queue, b)
	e.takeWork.Broadcast()
}

// unref lets go of a batch, and of its copy in another form where there is one.
func (e *Engine) unref(b *batch, c *derived) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if c != nil {
		if c.refs--; c.refs == 0 {
			delete(b.copies, c.form)
			c.buf.Release()
			e.memory.Broadcast()
		}
	}
	if b.refs--; b.refs > 0 {
		return
	}
	if s := b.stream; s != nil {
		s.used = time.Now()
	}
	e.settle(b)
}

// A derived is a batch copied into another form, for as long as somebody has it
// open.
type derived struct {
	form layout.Form
	refs int // guarded by Engine.mu
	once sync.Once
	buf  *pinned.Buffer
	err  error
}

// derive returns b, which the caller holds, in another form. Whoever asks first
// makes it; the others wait for that.
func (e *Engine) derive(b *batch, form layout.Form) (*derived, error) {
	e.mu.Lock()
	c := b.copies[form]
	if c == nil {
		c = &derived{form: form}
		if b.copies == nil {
			b.copies = map[layout.Form]*derived{}
		}
		b.copies[form] = c
	}
	c.refs++
	e.mu.Unlock()

	c.once.Do(func() { c.buf, c.err = e.copyAs(b, form) })
	if c.err == nil {
		return c, nil
	}
	e.mu.Lock()
	if c.refs--; b.copies[form] == c {
		delete(b.copies, form)
	}
	e.mu.Unlock()
	return nil, c.err
}

// copyAs writes a complete batch in another form into memory of its own.
func (e *Engine) copyAs(b *batch, form layout.Form) (*pinned.Buffer, error) {
	spec := b.spec
	if form != layout.PNG {
		spec = spec.In(form.OrderOf(e.opts.Layout))
	}
	buf, err := e.allocate(b, layout.Size(form, spec))
	if err != nil {
		return nil, err
	}
	if form == layout.PNG {
		e.converter.PutSheet(buf.Bytes(), spec, b.pixels, b.valid)
		return buf, nil
	}
	start := layout.DataOffset(form, spec)
	layout.Turn(buf.Bytes()[start:], spec.Order, b.pixels, b.spec)
	layout.PutHeader(form, spec, buf.Bytes(), e.meta(b.outcomes, b.valid))
	return buf, nil
}

// formOf is the form that holds a tensor of this order and nothing else.
func formOf(o layout.Order) layout.Form {
	if o == layout.NCHW {
		return layout.NCHWForm
	}
	return layout.NHWCForm
}
