package tier

import (
	"context"
	"slices"
	"sync"
	"time"
)

// Object is a version of an object that is read through a tier.
type Object struct {
	Name, Version string // see newKey
	Size          int64  // bytes
}

// Fetch reads a part of an object from its origin.
type Fetch func(ctx context.Context, p []byte, offset int64) error

// piece is a part of a read that lies in one extent.
type piece struct {
	key      key
	from, to int64 // bounds of the extent in the object
}

// piecesOf returns the extents that contain a part of the object.
func (o *Object) piecesOf(offset, n int64) (all []piece) {
	for at := offset / ExtentBytes * ExtentBytes; at < offset+n; at += ExtentBytes {
		all = append(all, piece{newKey(o.Name, o.Version, at/ExtentBytes), at, min(at+ExtentBytes, o.Size)})
	}
	return all
}

// Read reads a part of an object: from the tier, or else with fetch. fetch may also be called
// later, until Close returns, to fill the tier. The error is fetch's.
func (t *Tier) Read(ctx context.Context, o *Object, p []byte, offset int64, fetch Fetch) error {
	var missing []piece
	for _, x := range o.piecesOf(offset, int64(len(p))) {
		from, to := max(x.from, offset), min(x.to, offset+int64(len(p)))
		if !t.get(x.key, p[from-offset:to-offset], from-x.from) {
			missing = append(missing, x)
		}
	}
	if missing == nil {
		t.hits.Add(1)
		t.hitBytes.Add(int64(len(p)))
		return nil
	}
	t.misses.Add(1)
	if err := fetch(ctx, p, offset); err != nil {
		return err
	}
	for _, x := range missing {
		var data []byte
		if x.from >= offset && x.to <= offset+int64(len(p)) {
			data = p[x.from-offset : x.to-offset]
		}
		t.keepLater(x, data, func(to []byte) error { return fetch(t.ctx, to, x.from) })
	}
	return nil
}

// filling fetches extents in the background.
type filling struct {
	ctx     context.Context
	cancel  context.CancelFunc
	wait    sync.WaitGroup
	queue   chan func()
	mu      sync.Mutex
	idle    *sync.Cond // signals that there is less to wait for
	pending map[key]*pending
	late    []*pending // those without room, oldest first
	waiting int64      // bytes waiting to be written
	drops   int        // how many extents were dropped
	resting time.Time  // nothing is kept before this time
}

// pending is an extent that waits to be kept.
type pending struct {
	piece
	data   []byte // nil: unknown until fill was called
	fill   func([]byte) error
	wanted bool
}

const (
	fillers     = 4    // extents fetched at once, each in memory of its own
	queueLength = 1024 // extents; others are requested again in the next epoch
	mostWaiting = 4 * ExtentBytes
	mostLate    = mostWaiting / 2 // bytes without room
	rest        = time.Minute
)

func (t *Tier) start() {
	t.ctx, t.cancel = context.WithCancel(context.Background())
	t.idle = sync.NewCond(&t.mu)
	t.queue, t.pending = make(chan func(), queueLength), map[key]*pending{}
	for range fillers {
		t.wait.Go(func() {
			for {
				select {
				case <-t.ctx.Done():
					return
				case f := <-t.queue:
					f()
				}
			}
		})
	}
}

func (t *Tier) stop() {
	t.cancel()
	t.wait.Wait()
	t.mu.Lock()
	defer t.mu.Unlock()
	t.idle.Broadcast()
}

// Settle waits until everything to be fetched in the background was fetched, or given up, or found
// no room.
func (t *Tier) Settle() {
	t.mu.Lock()
	defer t.mu.Unlock()
	for len(t.pending) > len(t.late) && t.ctx.Err() == nil {
		t.idle.Wait()
	}
}

// keepLater keeps an extent in the background: data, which it copies, or, without data or if too
// much is waiting, the bytes that fill writes. fill may be nil. keepLater says whether it will try.
func (t *Tier) keepLater(x piece, data []byte, fill func([]byte) error) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.pending[x.key] != nil {
		return true
	}
	if t.ctx.Err() != nil || time.Now().Before(t.resting) || len(t.queue) == cap(t.queue) {
		return false
	}
	p := &pending{piece: x, fill: fill, wanted: true}
	if n := int64(len(data)); n > 0 && t.waiting+n <= mostWaiting {
		p.data = slices.Clone(data)
		p.fill = func(to []byte) error { copy(to, p.data); return nil }
		t.waiting += n
	} else if fill == nil {
		return false
	}
	t.pending[x.key] = p
	t.enqueue(p)
	return true
}

// enqueue has an extent kept soon. There must be room in the queue, and t.mu be held.
func (t *Tier) enqueue(p *pending) { t.queue <- func() { t.settle(p) } }

// settle keeps an extent, unless there is no room. If a plan says what is kept, there will be room
// when another extent is dropped; until then, this one waits.
func (t *Tier) settle(p *pending) {
	t.mu.Lock()
	drops := t.drops
	t.mu.Unlock()
	full := t.keep(p)
	t.mu.Lock()
	defer t.mu.Unlock()
	defer t.idle.Broadcast()
	switch {
	case !p.wanted:
		t.shelf.remove(p.key)
		t.drops++
		t.retry()
	case full && t.follows.file != nil && t.mayBeLate(p):
		if t.late = append(t.late, p); t.drops != drops {
			t.retry()
		}
		return
	case full:
		t.notKept.Add(1)
	}
	t.forget(p)
}

// mayBeLate says whether an extent may wait for room. f.mu is held.
func (f *filling) mayBeLate(p *pending) bool {
	bytes := len(p.data)
	for _, other := range f.late {
		bytes += len(other.data)
	}
	return p.data != nil && bytes <= mostLate
}

// retry has the first extent kept that waits for room. t.mu is held.
func (t *Tier) retry() {
	if len(t.late) > 0 && len(t.queue) < cap(t.queue) {
		p := t.late[0]
		t.late = slices.Delete(t.late, 0, 1)
		t.enqueue(p)
	}
}

// forget ends the wait of an extent. f.mu is held.
func (f *filling) forget(p *pending) {
	delete(f.pending, p.key)
	f.waiting -= int64(len(p.data))
}

// roomCame notes that an extent was dropped.
func (t *Tier) roomCame() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.drops++
	t.retry()
}

// want sets whether an extent that waits to be kept is still wanted; waits is false if it does not
// wait.
func (f *filling) want(k key, wanted bool) (waits bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	p := f.pending[k]
	if p == nil {
		return false
	}
	p.wanted = wanted
	if i := slices.Index(f.late, p); i >= 0 && !wanted {
		f.late = slices.Delete(f.late, i, i+1)
		f.forget(p)
	}
	return true
}

// getWaiting reads a part of an extent that waits to be kept; false: it does not wait.
func (f *filling) getWaiting(k key, p []byte) bool {
	f.mu.Lock()
	waits := f.pending[k]
	ok := waits != nil && waits.wanted && waits.data != nil
	f.mu.Unlock()
	return ok && copy(p, waits.data) == len(p)
}

// keep adds an extent, and reports whether there is no room for it. After a failure nothing is
// added for a while: trying again at once helps neither with a full disk nor with a store that is
// away.
func (t *Tier) keep(p *pending) (full bool) {
	t.mu.Lock()
	resting := time.Now().Before(t.resting)
	t.mu.Unlock()
	if resting {
		return false
	}
	err := t.put(p.key, int(p.to-p.from), p.fill)
	if err == nil || err == errNoRoom || t.ctx.Err() != nil {
		return err == errNoRoom
	}
	t.mu.Lock()
	t.resting = time.Now().Add(rest)
	t.mu.Unlock()
	if isFull(err) {
		t.opts.Logger.Warn("the disk of the local cache is full; what it has is used, nothing is added for a minute")
	} else {
		t.opts.Logger.Warn("the local cache is not filled for a minute", "reason", err)
	}
	return false
}
