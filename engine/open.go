package engine

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/batchfs/batchfs/layout"
	"github.com/batchfs/batchfs/pinned"
)

// A File is an open complete batch in one form. Its bytes stay valid and unchanged until
// Close.
type File struct {
	engine *Engine
	batch  *batch
	copy   *derived // nil when the batch's own buffer has the form
	closed atomic.Bool
}

// Bytes is the whole file. It belongs to the engine: callers must not write to it, or use
// it after Close.
func (f *File) Bytes() []byte { return f.buffer().Bytes() }

// Fd is the descriptor of a file that holds exactly Bytes, for the kernel to serve; -1 if
// there is none. It is valid until Close. A registration with the kernel stays valid after
// Close.
func (f *File) Fd() int { return f.buffer().Fd() }

func (f *File) buffer() *pinned.Buffer {
	if f.copy != nil {
		return f.copy.buf
	}
	return f.batch.buf
}

// Close releases the bytes. Closing twice panics.
func (f *File) Close() {
	if f.closed.Swap(true) {
		panic("engine: file closed twice")
	}
	f.engine.unref(f.batch, f.copy)
}

// Open returns a batch in one of its large forms, making it in the form that was asked for
// first. It waits until the batch is complete and, if the memory limit is used up, at most
// Options.MemoryWait for its turn. If ctx ends, the batch is still made for the other Opens
// that wait for it; if there are none, it is given up.
//
// Errors: ErrNotExist, ErrBad, ErrNoMemory, ErrTooBig, ErrMachine, ErrClosed, and ctx's own.
func (e *Engine) Open(ctx context.Context, k Key, form layout.Form) (*File, error) {
	if !e.Exists(k) || !form.Large() {
		return nil, fmt.Errorf("%w: %s.%s", ErrNotExist, k, form.Ext())
	}
	own := form
	if form == layout.PNG {
		own = formOf(e.opts.Layout) // a picture is rendered from the pixels
	}
	b, err := e.ready(ctx, k, own)
	if err != nil {
		return nil, err
	}
	if b.form == form {
		return &File{engine: e, batch: b}, nil
	}
	c, err := e.derive(ctx, b, form)
	if err != nil {
		e.unref(b, nil)
		return nil, err
	}
	return &File{engine: e, batch: b, copy: c}, nil
}

// outdated reports whether a batch shows a substitute for a sample whose file has changed
// since and may be good now. It asks the file system about substituted samples only.
// Nothing holds the batch.
func (e *Engine) outdated(b *batch) bool {
	for i, o := range b.outcomes[:b.items] {
		if (o.status == statusReplaced || o.status == statusZeroed) && e.stillBad(b.slots[i].ID) == nil {
			return true
		}
	}
	return false
}

// A check asks the file system about the bad samples of a batch before it is opened. It may
// hang, so no worker does it; all who open the batch meanwhile share one.
type check struct {
	done chan struct{}
	err  error // why the batch cannot be made; set when done is closed
}

// renew drops a complete batch that is outdated, and fails for one that failed before and
// would again. Where the file system does not answer, the caller waits no longer than its
// context.
func (e *Engine) renew(ctx context.Context, k Key) error {
	e.mu.Lock()
	b := e.table[k]
	failed := b == nil && e.tried[k]
	kept := b != nil && b.state == ready && b.refs == 0 && b.standIns
	if e.closed || !failed && !kept {
		e.mu.Unlock()
		return nil
	}
	c := e.checks[k]
	if c == nil {
		c = &check{done: make(chan struct{})}
		e.checks[k] = c
		e.wait.Go(func() { e.check(k, b, c) })
	}
	e.mu.Unlock()
	select {
	case <-c.done:
		return c.err
	case <-ctx.Done():
		return ctx.Err()
	case <-e.closing:
		return ErrClosed
	}
}

// check looks at what is known to be bad of a batch: of b, which is complete, or of one that
// failed, where b is nil.
func (e *Engine) check(k Key, b *batch, c *check) {
	outdated := false
	c.err = guarded(func() error {
		if b == nil {
			return e.failsAgain(k)
		}
		outdated = e.outdated(b)
		return nil
	})
	if c.err != nil && causeOf(c.err) != ofFile {
		c.err = machineError(c.err)
		e.warnMachine(k, c.err)
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	switch {
	case b == nil && c.err == nil:
		delete(e.tried, k)
	case outdated && e.table[k] == b && b.refs == 0 && b.state == ready:
		e.drop(b)
	}
	delete(e.checks, k)
	close(c.done)
}

// ready returns a complete batch and holds it; the caller lets go by unref. form
// is what it is made in when it is not there yet.
func (e *Engine) ready(ctx context.Context, k Key, form layout.Form) (*batch, error) {
	if err := e.renew(ctx, k); err != nil {
		return nil, err
	}
	e.mu.Lock()
	if e.closed {
		e.mu.Unlock()
		return nil, ErrClosed
	}
	b := e.table[k]
	if b == nil {
		b = e.newBatch(k, form)
		e.enqueue(b)
	} else if b.state == queued && b.slots == nil {
		b.form = form
	}
	b.refs++
	e.opens++
	b.openedAs = e.opens
	e.follow(b, form)
	if b.state == ready {
		e.mu.Unlock()
		e.meter.opened(0, true)
		return b, nil
	}
	if b.waiting++; b.waiting == 1 {
		b.asked = e.opens
	}
	e.takeWork.Broadcast() // it goes before what is only prefetched
	if e.stalled.Load() > 0 {
		e.itemWork.Broadcast() // it may have a worker now
	}
	e.mu.Unlock()
	return b, e.await(ctx, b)
}

// await waits for a batch that the caller holds, and releases it on failure.
func (e *Engine) await(ctx context.Context, b *batch) error {
	began := time.Now()
	e.meter.waiting(1)
	err := e.awaitTurn(ctx, b, began)
	e.meter.waiting(-1)
	e.meter.opened(time.Since(began), err == nil)
	e.mu.Lock()
	b.waiting--
	e.mu.Unlock()
	if err != nil {
		e.unref(b, nil)
	}
	return err
}

// awaitTurn returns when the batch has ended, or when the wait has to end.
func (e *Engine) awaitTurn(ctx context.Context, b *batch, began time.Time) error {
	left := func() time.Duration { return e.memoryWaitLeft(b, began) }
	if err := e.awaitDone(ctx, b.done, left, b.key, b.key.String()); err != nil {
		return err
	}
	return b.err
}

// awaitDone waits until done is closed, and for memory as long as left says, which it asks
// first after Options.MemoryWait. It logs an open that got no memory.
func (e *Engine) awaitDone(ctx context.Context, done <-chan struct{}, left func() time.Duration, k Key, name string) error {
	timer := time.NewTimer(e.opts.MemoryWait)
	defer timer.Stop()
	for {
		select {
		case <-done:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		case <-e.closing:
			return ErrClosed
		case <-timer.C:
		}
		more := left()
		if more <= 0 {
			err := fmt.Errorf("%w: no room for %s under the memory limit within %v", ErrNoMemory, name, e.opts.MemoryWait)
			e.warnMachine(k, err)
			return err
		}
		timer.Reset(more)
	}
}

// memoryWaitLeft is how much longer an Open that began at began may wait for memory.
func (e *Engine) memoryWaitLeft(b *batch, began time.Time) time.Duration {
	e.mu.Lock()
	defer e.mu.Unlock()
	since := e.waitsForMemory(b)
	if since.IsZero() {
		return max(e.opts.MemoryWait, 10*time.Millisecond)
	}
	if since.Before(began) {
		since = began
	}
	return e.opts.MemoryWait - time.Since(since)
}

// unref releases a batch, and its copy in another form if c is not nil.
func (e *Engine) unref(b *batch, c *derived) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if c != nil {
		e.unrefCopy(b, c)
	}
	if b.refs--; b.refs > 0 {
		return
	}
	if s := b.stream; s != nil {
		s.used = time.Now()
	}
	if b.state < ready {
		e.abandon(b)
	} else {
		e.settle(b)
		e.ledger.cameBack() // if it is kept, it may give way now
	}
}

// abandonedFor is how long a batch is still made after its readers gave it up, if there is
// nothing better to do: an interrupted process often asks again at once.
const abandonedFor = time.Second

// abandon gives up a batch that no Open waits for any more. The newest batch of a stream
// that is being read is kept for abandonedFor, because its reader may come back.
func (e *Engine) abandon(b *batch) {
	s := b.stream
	if s == nil || s.ended || s.newest() != b || b.refused || !s.inOrder && !e.isLatest(s) {
		e.drop(b)
		return
	}
	asked := b.asked
	time.AfterFunc(abandonedFor, func() {
		e.mu.Lock()
		defer e.mu.Unlock()
		if b.refs == 0 && b.state < ready && b.asked == asked {
			e.drop(b)
		}
	})
}

// A derived is a copy of a batch in another form. It exists while it is open or being made.
type derived struct {
	form layout.Form
	refs int           // guarded by Engine.mu
	done chan struct{} // closed when buf or err is set
	buf  *pinned.Buffer
	err  error

	short atomic.Bool // its maker was refused memory, and tries again
}

// derive returns b, which the caller holds, in another form. Concurrent callers share one
// copy, which is made in a goroutine of its own, so that interrupting a caller does not
// stop it.
func (e *Engine) derive(ctx context.Context, b *batch, form layout.Form) (*derived, error) {
	e.mu.Lock()
	if e.closed {
		e.mu.Unlock()
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
		e.wait.Go(func() { e.makeCopy(b, c) })
	}
	c.refs++
	e.mu.Unlock()

	err := e.awaitCopy(ctx, b, c)
	if err == nil {
		return c, nil
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.unrefCopy(b, c)
	return nil, err
}

// awaitCopy waits for a copy, and for memory for it at most Options.MemoryWait.
func (e *Engine) awaitCopy(ctx context.Context, b *batch, c *derived) error {
	left := func() time.Duration {
		if c.short.Load() {
			return 0
		}
		return max(e.opts.MemoryWait, 10*time.Millisecond)
	}
	if err := e.awaitDone(ctx, c.done, left, b.key, b.key.String()+"."+c.form.Ext()); err != nil {
		return err
	}
	return c.err
}

// makeCopy makes a copy, then releases the copy and the batch.
func (e *Engine) makeCopy(b *batch, c *derived) {
	buf, err := e.copyInTurn(b, c)
	if err != nil && causeOf(err) != ofCancelled {
		err = machineError(err)
		e.warnMachine(b.key, err)
	}
	e.mu.Lock()
	if c.buf, c.err = buf, err; err != nil {
		delete(b.copies, c.form) // the next Open tries again
	}
	e.mu.Unlock()
	close(c.done)
	e.unref(b, c)
}

// unrefCopy releases a copy. Engine.mu is held.
func (e *Engine) unrefCopy(b *batch, c *derived) {
	if c.refs--; c.refs > 0 {
		return
	}
	if b.copies[c.form] == c {
		delete(b.copies, c.form)
	}
	if c.buf != nil {
		c.buf.Release()
		e.released++
		e.ledger.cameBack()
	}
}

// copyInTurn makes a copy, waiting for memory while a caller still wants it.
func (e *Engine) copyInTurn(b *batch, c *derived) (buf *pinned.Buffer, err error) {
	const soonest, latest = 2 * time.Millisecond, 50 * time.Millisecond
	for pause := soonest; ; pause = min(2*pause, latest) {
		err = guarded(func() (err error) {
			buf, err = e.copyAs(b, c.form)
			return err
		})
		if causeOf(err) != ofTurn {
			return buf, err
		}
		c.short.Store(true)
		select {
		case <-time.After(pause):
		case <-e.closing:
			return nil, ErrClosed
		}
		e.mu.Lock()
		alone := c.refs == 1
		e.mu.Unlock()
		if alone {
			return nil, errDropped
		}
	}
}

// copyAs writes a complete batch in another form into a new buffer.
func (e *Engine) copyAs(b *batch, form layout.Form) (copied *pinned.Buffer, err error) {
	spec := b.spec
	if form != layout.PNG {
		spec = spec.In(form.OrderOf(e.opts.Layout))
	}
	buf, err := e.allocate(b, layout.Size(form, spec))
	if err != nil {
		return nil, err
	}
	defer func() {
		if copied == nil { // a panic
			buf.Release()
		}
	}()
	if form == layout.PNG {
		e.converter.PutSheet(buf.Bytes(), spec, b.pixels, b.valid)
		return buf, nil
	}
	start := layout.DataOffset(form, spec)
	layout.Turn(buf.Bytes()[start:], spec.Order, b.pixels, b.spec, 0)
	layout.PutHeader(form, spec, buf.Bytes(), e.meta(b.outcomes, b.valid))
	return buf, nil
}

// formOf is the form that holds just a tensor of this order.
func formOf(o layout.Order) layout.Form {
	if o == layout.NCHW {
		return layout.NCHWForm
	}
	return layout.NHWCForm
}
