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
	idle    *sync.Cond   // signals that pending has become smaller
	pending map[key]bool // whether they are still wanted
	waiting int64        // bytes waiting to be written
	resting time.Time    // nothing is kept before this time
}

const (
	fillers     = 4    // extents fetched at once, each in memory of its own
	queueLength = 1024 // extents; others are requested again in the next epoch
	mostWaiting = 4 * ExtentBytes
	rest        = time.Minute
)

func (t *Tier) start() {
	t.ctx, t.cancel = context.WithCancel(context.Background())
	t.idle = sync.NewCond(&t.mu)
	t.queue, t.pending = make(chan func(), queueLength), map[key]bool{}
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

// Settle waits until everything to be fetched in the background was fetched, or given up.
func (t *Tier) Settle() {
	t.mu.Lock()
	defer t.mu.Unlock()
	for len(t.pending) > 0 && t.ctx.Err() == nil {
		t.idle.Wait()
	}
}

// keepLater keeps an extent in the background: data, which it copies, or, without data or if too
// much is waiting, the bytes that fill writes. fill may be nil. keepLater says whether it will try.
func (t *Tier) keepLater(x piece, data []byte, fill func([]byte) error) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if _, pending := t.pending[x.key]; pending {
		return true
	}
	if t.ctx.Err() != nil || time.Now().Before(t.resting) || len(t.queue) == cap(t.queue) {
		return false
	}
	holds := int64(0)
	if n := int64(len(data)); n > 0 && t.waiting+n <= mostWaiting {
		holds, data = n, slices.Clone(data)
		fill = func(to []byte) error { copy(to, data); return nil }
	} else if fill == nil {
		return false
	}
	t.pending[x.key] = true
	t.waiting += holds
	t.queue <- func() { // does not block: all others only receive
		t.keep(x, fill)
		t.mu.Lock()
		defer t.mu.Unlock()
		if !t.pending[x.key] {
			t.shelf.remove(x.key)
		}
		delete(t.pending, x.key)
		t.waiting -= holds
		t.idle.Broadcast()
	}
	return true
}

// want sets whether an extent that waits to be kept is still wanted; pending is false if it does
// not wait.
func (t *Tier) want(k key, wanted bool) (pending bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if _, pending = t.pending[k]; pending {
		t.pending[k] = wanted
	}
	return pending
}

// keep adds an extent. After a failure nothing is added for a while: trying again at once helps
// neither with a full disk nor with a store that is away.
func (t *Tier) keep(x piece, fill func([]byte) error) {
	t.mu.Lock()
	resting := time.Now().Before(t.resting)
	t.mu.Unlock()
	if resting {
		return
	}
	err := t.put(x.key, int(x.to-x.from), fill)
	if err == nil || t.ctx.Err() != nil {
		return
	}
	t.mu.Lock()
	t.resting = time.Now().Add(rest)
	t.mu.Unlock()
	if isFull(err) {
		t.opts.Logger.Warn("the disk of the local cache is full; what it has is used, nothing is added for a minute")
	} else {
		t.opts.Logger.Warn("the local cache is not filled for a minute", "reason", err)
	}
}
