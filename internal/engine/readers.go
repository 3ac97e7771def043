package engine

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/batchfs/batchfs/internal/fault"
	"github.com/batchfs/batchfs/layout"
	"github.com/batchfs/batchfs/shard"
)

// readers wait for batches on behalf of Opens.
type readers struct {
	*batches
	checks map[Key]*check // guarded by batches.mu
}

// A check asks the file system about the bad samples of a batch before it is opened. It may
// hang, so no worker does it, and Opens of the batch share one.
type check struct {
	done chan struct{}
	err  error // why the batch cannot be made; set when done is closed
}

// hold returns a complete batch, made in form unless it exists already. The caller releases it
// with unhold.
func (r *readers) hold(ctx context.Context, k Key, form layout.Form, as turn) (*batch, error) {
	if err := r.checkKnown(ctx, k); err != nil {
		return nil, err
	}
	b, isReady, err := r.join(k, form, as)
	switch {
	case err != nil:
		return nil, err
	case isReady:
		r.meter.count(func(s *BatchStats) { s.Opened++ })
		return b, nil
	}
	r.meter.count(func(s *BatchStats) {
		s.Waiting++
		s.StallSeconds -= r.meter.uptime()
	})
	err = r.await(ctx, b, k.String())
	for err == errGone {
		if b, isReady, err = r.join(k, form, as); err == nil && !isReady {
			err = r.await(ctx, b, k.String())
		}
	}
	r.meter.count(func(s *BatchStats) {
		s.Waiting--
		s.Stalled++
		s.StallSeconds += r.meter.uptime()
		if err == nil {
			s.Opened++
		}
	})
	return b, err
}

// holdCopy returns a batch in another form. The caller holds the source until then. Concurrent
// callers share one copy; interrupting one of them does not end it for the others. The error is
// errGone if the batch is no longer there.
func (r *readers) holdCopy(ctx context.Context, b *batch, form layout.Form, as turn) (*batch, error) {
	c, isReady, err := r.joinCopy(b, form, as)
	if err != nil || isReady {
		return c, err
	}
	return c, r.await(ctx, c, r.catalog.Options.FileName(b.key, form))
}

// await waits until a batch that the caller has joined is complete, and releases it if it fails. A
// wait for memory takes at most memoryWait, and is logged if it fails.
func (r *readers) await(ctx context.Context, b *batch, name string) (err error) {
	began := time.Now()
	timer := time.NewTimer(r.opts.MemoryWait)
	defer timer.Stop()
	defer func() { r.endWait(b, err == nil) }()
	for {
		select {
		case <-b.done:
			return b.err
		case <-ctx.Done():
			return ctx.Err()
		case <-r.ctx.Done():
			return ErrClosed
		case <-timer.C:
		}
		left := r.memoryWaitLeft(b, began)
		if left <= 0 {
			err := fmt.Errorf("%w: no room for %s under the memory limit within %v", ErrNoMemory, name, r.opts.MemoryWait)
			if b.isSent() {
				err = fmt.Errorf("%w: no room for %s on the GPU within %v", ErrNoRoomOnGPU, name, r.opts.MemoryWait)
			}
			r.opts.warnMachine(b.key, err)
			return err
		}
		timer.Reset(left)
	}
}

// memoryWaitLeft is how much longer an Open that began at began may wait for memory. The wait
// begins anew when the batches that hold the memory no longer have to wait for storage.
func (r *readers) memoryWaitLeft(b *batch, began time.Time) time.Duration {
	r.mu.Lock()
	since, held := r.schedule.refusedSince(b), time.Since(r.flow.hungReads.ended)
	if slices.ContainsFunc(r.schedule.in[making], r.flow.hungReads.hangs) {
		held = 0
	} else if slices.ContainsFunc(r.schedule.in[making], func(b *batch) bool { return b.short.IsZero() }) {
		held = min(held, time.Since(r.catalog.Dataset.Held()))
	}
	r.mu.Unlock()
	if since.IsZero() {
		return max(r.opts.MemoryWait, 10*time.Millisecond)
	}
	return r.opts.MemoryWait - min(time.Since(since), time.Since(began), held)
}

// checkKnown drops a complete batch that shows substitutes for samples that may be good now. It
// returns an error for a batch that failed before and would fail again.
func (r *readers) checkKnown(ctx context.Context, k Key) error {
	c := r.startCheck(k)
	if c == nil {
		return nil
	}
	select {
	case <-c.done:
		return c.err
	case <-ctx.Done():
		return ctx.Err()
	case <-r.ctx.Done():
		return ErrClosed
	}
}

// startCheck joins the check of a batch, or starts it; nil: there is nothing to check.
func (r *readers) startCheck(k Key) *check {
	r.mu.Lock()
	defer r.mu.Unlock()
	b := r.table[k]
	failed, doubted := b == nil && r.knownBad[k], r.doubtedIn(b)
	if r.closed || !failed && len(doubted) == 0 {
		return nil
	}
	c := r.checks[k]
	if c == nil {
		c = &check{done: make(chan struct{})}
		r.checks[k] = c
		r.wait.Go(func() { r.runCheck(k, b, doubted, c) })
	}
	return c
}

// doubtedIn returns the samples that are bad in a complete batch and may be good now. A store shows
// that only when it is read, so a batch that was made ahead from one is served as it is.
func (r *readers) doubtedIn(b *batch) []shard.Slot {
	switch {
	case b == nil || b.state != ready || b.refs > 0:
		return nil
	case b.opened:
		return b.missing
	}
	return slices.DeleteFunc(slices.Clone(b.missing), func(s shard.Slot) bool { return r.catalog.Dataset.InStore(int(s.ID)) })
}

// runCheck looks at the samples of a batch that are known to be bad: those doubted of b, or of a
// batch that failed, if b is nil.
func (r *readers) runCheck(k Key, b *batch, doubted []shard.Slot, c *check) {
	outdated, err := r.look(k, b, doubted)
	if err != nil && fault.Of(err) != fault.File {
		err = machineError(err)
		r.opts.warnMachine(k, err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case outdated && b == nil:
		delete(r.knownBad, k)
	case outdated && r.table[k] == b && b.refs == 0 && b.state == ready:
		r.discard(b)
	}
	delete(r.checks, k)
	c.err = err
	close(c.done)
}

// look reports whether the files of bad samples have changed so that the batch would change if it
// were made again, or why a batch that failed would fail again. It asks the file system only about
// samples that are known to be bad.
func (r *readers) look(k Key, b *batch, doubted []shard.Slot) (outdated bool, err error) {
	defer catch(&err)
	if b != nil {
		return slices.ContainsFunc(doubted, func(s shard.Slot) bool { return r.bad.checkIn(k.Part, s) == nil }), nil
	}
	slots, valid := r.catalog.Slots(k)
	for _, s := range slots[:min(max(valid, 1), len(slots))] {
		if err := r.bad.checkIn(k.Part, s); err != nil {
			return false, err
		}
	}
	return true, nil
}

// join holds a batch for an Open, which waits for it unless it is ready.
func (all *batches) join(k Key, form layout.Form, as turn) (b *batch, isReady bool, err error) {
	all.mu.Lock()
	defer all.mu.Unlock()
	if all.closed {
		return nil, false, ErrClosed
	}
	b = all.table[k]
	made := all.catalog.MadeIn(form)
	if b == nil {
		b = all.newBatch(k, made)
	} else if b.state == wanted && b.slots == nil {
		b.form = made
	}
	all.schedule.addOpen(b, as)
	all.streams.Follow(k, form)
	return b, b.state == ready, nil
}

// joinCopy holds the copy of a complete batch for an Open. The caller holds the source until then.
func (all *batches) joinCopy(source *batch, form layout.Form, as turn) (c *batch, isReady bool, err error) {
	all.mu.Lock()
	defer all.mu.Unlock()
	defer all.letGo(source)
	if all.closed {
		return nil, false, ErrClosed
	}
	if c = source.copies[form]; c == nil {
		c = all.newCopy(source, form)
	}
	all.schedule.addOpen(c, as)
	c.holdSource()
	return c, c.state == ready, nil
}

// newCopy has a copy of a complete batch made. Nothing holds it yet.
func (all *batches) newCopy(source *batch, form layout.Form) *batch {
	c := &batch{key: source.key, form: form, done: make(chan struct{})}
	c.source, c.spec, c.valid = source, source.spec, source.valid
	if form.Tensor() {
		c.spec = all.catalog.Options.SpecIn(source.spec.In(form.OrderOf(all.opts.Layout)), c.key, form)
	}
	if source.copies == nil {
		source.copies = map[layout.Form]*batch{}
	}
	source.copies[form] = c
	all.enqueue(c)
	return c
}

// endWait ends the wait of an Open. If the Open did not get the batch, it releases it.
func (all *batches) endWait(b *batch, got bool) {
	all.mu.Lock()
	defer all.mu.Unlock()
	if b.waiting--; !got {
		all.letGo(b)
	}
}

func (all *batches) unhold(b *batch) {
	all.mu.Lock()
	defer all.mu.Unlock()
	all.letGo(b)
}

func (all *batches) letGo(b *batch) {
	if b.refs--; b.refs > 0 {
		return
	}
	if all.isKnown(b) {
		all.streams.Closed(b.key)
	}
	if b.state < ready {
		all.abandon(b)
	} else {
		all.freeUnneeded(b)
		all.memory.ledger.cameBack() // if the batch is kept, it may give way now
	}
	if b.holds {
		b.holds = false
		all.letGo(b.source)
	} else if b.source != nil {
		all.freeUnneeded(b.source)
	}
}

// abandonedFor is how long a batch is still made after its readers gave it up: an interrupted
// process often asks again at once.
const abandonedFor = time.Second

// abandon gives up a batch that no Open waits for any more. The newest batch of a stream that is
// being read is given up after abandonedFor, any other at once.
func (all *batches) abandon(b *batch) {
	if !all.isKnown(b) || !all.streams.IsBeingRead(b.key) || b.refused() {
		all.discard(b)
		return
	}
	asked := b.askedAs
	time.AfterFunc(abandonedFor, func() {
		all.mu.Lock()
		defer all.mu.Unlock()
		if b.refs == 0 && b.state < ready && b.askedAs == asked {
			all.discard(b)
		}
	})
}
