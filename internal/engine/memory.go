package engine

import (
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/batchfs/batchfs/cache"
	"github.com/batchfs/batchfs/internal/pages"
	"github.com/batchfs/batchfs/layout"
	"github.com/batchfs/batchfs/pinned"
)

// memory is the one allocator. Everything is charged to its ledger; when that is full,
// memory gives way in the order of reclaim.
type memory struct {
	ledger *ledger
	store  *pinned.Store
	pool   *pinned.Pool
	log    *slog.Logger
	fixed  atomic.Int64    // bytes that never give way: the process, the index, empty caches, what others reserved
	warned sync.Once       // reports that batch memory is not page-locked
	inputs *pinned.Account // encoded samples
	rest   *pinned.Account // other buffers of loads and drawers
	allocations

	// What gives way. The caches and the planner may be nil.
	batches eviction
	pages   *pages.Cache
	cache   *cache.Cache
	planner *planner

	mu       sync.Mutex
	trimmed  time.Time   // when the cache last had the pool trimmed
	released atomic.Bool // a buffer went back to the pool since

	idle struct {
		sync.Mutex
		given atomic.Uint64 // how often giveBackIdle gave something back
	}
}

func newMemory(o *Options) *memory {
	m := &memory{
		ledger: newLedger(o.MemoryLimit), log: o.Logger, inputs: pinned.NewAccount("input"), rest: pinned.NewAccount("scratch"),
		allocations: allocations{began: time.Now()},
	}
	if m.store = pinned.NewAnonymousStore(); !o.Anonymous {
		m.store = pinned.NewStore(o.MemoryLimit)
	}
	po := pinned.PoolOptions{Name: "batch", Lock: o.Lock, Growth: o.Memory.HostGrowth}
	if o.Device != nil {
		po.Registrar = o.Device
	}
	m.pool = pinned.NewPool(m.store, batchBudget{m.ledger}, po)
	return m
}

// ExamineMemory says what the memory of batches is like on this machine: why it is not in files of
// a private tmpfs, why it is not reused, and why the kernel does not page-lock so many bytes of it;
// nil: it is.
func ExamineMemory(lock int64) (files, reuse, locking error) {
	store := pinned.NewStore(1 << 20)
	defer store.Close()
	return store.Reason(), store.Leases(), pinned.CanLock(lock)
}

// close frees what is left. Buffers in use are freed when they are released.
func (m *memory) close() {
	m.pool.Close()
	m.store.Close()
}

// allocations records when large buffers are allocated. While the kernel maps and locks one, reads
// on other threads wait, too; the storage is not to blame for that.
type allocations struct {
	began   time.Time // times are counted from here
	running atomic.Int32
	last    atomic.Int64 // when one that took long ended
}

const longAllocation = stallAfter / 10

// allocate calls get, which allocates a buffer that may be large.
func allocate[T any](a *allocations, get func() (T, error)) (T, error) {
	began := time.Now()
	a.running.Add(1)
	defer func() {
		if time.Since(began) > longAllocation {
			a.last.Store(int64(time.Since(a.began)))
		}
		a.running.Add(-1)
	}()
	return get()
}

// over is the time since the last long allocation ended; 0 while one is running.
func (a *allocations) over(now time.Time) time.Duration {
	if a.running.Load() > 0 {
		return 0
	}
	return now.Sub(a.began) - time.Duration(a.last.Load())
}

// buffer returns memory for a batch, or for a copy of one. The error is errNoRoom if the limit
// leaves no room now, and ErrNoMemory if it never will or the kernel refuses.
func (m *memory) buffer(b *batch, size int64) (*pinned.Buffer, error) {
	most := m.forBatches()
	if b.source != nil && b.source.form != layout.CUDA {
		most -= layout.Size(b.source.form, b.source.spec) // a copy is made beside its source
	}
	if size > most {
		return nil, fmt.Errorf("%w: %s takes %d bytes, and the memory limit leaves %d for batches", ErrNoMemory, b.key, size, max(0, most))
	}
	for refused := false; ; {
		before, given := m.ledger.returns(), m.idle.given.Load()
		buf, err := (*pinned.Buffer)(nil), error(pinned.ErrNoMemory)
		if m.ledger.excess() <= 0 { // otherwise the limit was lowered, and idle memory must be given back
			buf, err = allocate(&m.allocations, func() (*pinned.Buffer, error) { return m.pool.Get(size) })
		}
		switch {
		case err == nil:
			m.warnUnlocked()
			return buf, nil
		case errors.Is(err, pinned.ErrNoMemory):
			if !m.reclaim(b, size, before) {
				return nil, errNoRoom
			}
		case refused || !m.giveBackIdle(given):
			return nil, machineError(err)
		default:
			refused = true // by the kernel, which is asked once more
		}
	}
}

// forBatches is the most that batches can ever take together.
func (m *memory) forBatches() int64 {
	load, drawing := roomApart(m.ledger.most)
	return m.ledger.most - m.fixed.Load() - load - drawing
}

// freeBuffer gives a buffer back.
func (m *memory) freeBuffer(buf *pinned.Buffer) {
	buf.Release()
	m.released.Store(true)
	m.ledger.cameBack()
}

// fits returns an error if the limit can never have room, beside a batch, for a sample of so many
// bytes and for drawing it. The least room for drawing is left in any case.
func (m *memory) fits(b *batch, input, drawing int64) error {
	n, room := input+drawing, m.ledger.most-m.fixed.Load()-b.size-max(0, m.ledger.drawing-drawing)
	if n <= room {
		return nil
	}
	return fmt.Errorf("%w: it takes %d bytes while it is decoded, and the memory limit leaves %d beside its batch", ErrNoMemory, n, max(0, room))
}

// grow makes a buffer that was admitted n bytes long. If the kernel refuses, everything idle is
// given back and the kernel is asked once more.
func (m *memory) grow(buf *pinned.Host, n int) ([]byte, error) {
	given := m.idle.given.Load()
	p, err := allocate(&m.allocations, func() ([]byte, error) { return buf.Grow(n) })
	if err != nil && m.giveBackIdle(given) {
		p, err = buf.Grow(n)
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrNoMemory, err)
	}
	return p, nil
}

// reclaim frees some memory for a batch that was refused n bytes when ledger.returns was before. It
// returns false if nothing may give way, or if the memory that gives way is not free yet. Idle
// memory, batches that were read and unpacked pages give way to any batch; plans being computed,
// the cache and prefetched batches only to a batch that an Open waits for. A batch that an Open
// waits for gives way to nothing here; but see room.giveWayTo.
func (m *memory) reclaim(b *batch, n int64, before uint64) bool {
	if m.pool.Trim() > 0 || m.ledger.returns() != before {
		return true
	}
	if found, free := m.batches.takeFrom(m.batches.inMemory(), b, before, worthSpent); found {
		return free
	}
	if m.pages.Trim(n) > 0 {
		return true
	}
	if m.batches.holds(b) && (m.planner.giveWay() > 0 || m.cache.Trim(n) > 0) {
		return true
	}
	if found, free := m.batches.takeFrom(m.batches.inMemory(), b, before, worthForeseen); found {
		return free
	}
	return m.batches.trim(before)
}

// giveBackIdle returns idle memory, and its descriptors, to the kernel for one that it refused, and
// reports whether it is worth asking again. Many can be refused at once: only the first of them
// finds anything idle, but there is room for the others, too. given is what idle.given was before
// the kernel was asked.
func (m *memory) giveBackIdle(given uint64) bool {
	m.idle.Lock()
	defer m.idle.Unlock()
	if m.idle.given.Load() != given {
		return true
	}
	dropped := m.batches.dropUnheld()
	if m.pool.Trim() == 0 && dropped == 0 {
		return false
	}
	m.idle.given.Add(1)
	return true
}

// setLimit changes the limit and frees unused memory to meet it.
func (m *memory) setLimit(n int64) {
	m.ledger.setLimit(min(n, m.ledger.most))
	for excess := m.ledger.excess(); excess > 0; excess = m.ledger.excess() {
		if m.pool.Trim() == 0 && m.pages.Trim(excess) == 0 && m.planner.giveWay() == 0 && m.cache.Trim(excess) == 0 && !m.giveBackIdle(m.idle.given.Load()) {
			return
		}
	}
}

// reserve permanently takes bytes out of the limit, which it may exceed.
func (m *memory) reserve(u use, bytes int64) {
	m.fixed.Add(bytes)
	for !m.ledger.reserve(u, bytes) {
		if m.pool.Trim() == 0 && m.pages.Trim(bytes) == 0 && m.planner.giveWay() == 0 {
			m.ledger.force(u, bytes)
			return
		}
	}
}

// presize allocates the buffers that one stream cycles through (the prefetched batches, the open
// one, and the one being released), so that no reader waits for pages as well as for pixels. If
// these are too large, it allocates one or none. Without readers, they are freed like those of an
// idle stream.
func (m *memory) presize(c Budget) {
	if err := m.store.Leases(); err != nil {
		m.log.Warn("batch memory is freed after each batch instead of reused, which is slower", "reason", err)
	}
	o := c.Options
	size := c.TensorSize()
	most := min(256<<20, m.ledger.most/4)
	if hint := saturating(o.Hints.Batch, o.BatchSize); hint > 0 {
		size, most = hint, m.ledger.most/2
	}
	n := o.PrefetchDepth + 2
	if o.Device != nil && size < m.ledger.most {
		o.Device.Presize(size, n)
	}
	if saturating(n, size) > most {
		n = 1
	}
	if size > most {
		return
	}
	// The batch that needs memory which is unavailable now asks for it again.
	_ = m.pool.Presize(size, n)
	m.warnUnlocked()
}

// warnUnlocked logs once that the kernel refused to lock batch memory, maybe for a later batch.
func (m *memory) warnUnlocked() {
	if err := m.pool.Stats().LockError; err != nil {
		m.warned.Do(func() { m.log.Warn("batch memory is not page-locked", "reason", err) })
	}
}

// cacheBudget lets a cache, of samples or of unpacked pages, draw on memory. Batches that were read
// and are kept for a late reader give way to it, because a plan relies on its memory. Unpacked
// pages also give way to samples. A cache asks while it holds its lock.
type cacheBudget struct {
	*memory
	use use
}

func (m cacheBudget) Reserve(n int64) bool {
	for !m.ledger.reserve(m.use, n) {
		if !m.freeRead() && (m.use == usePages || m.pages.Trim(n) == 0) {
			return false
		}
	}
	return true
}

func (m cacheBudget) Release(n int64) { m.ledger.release(m.use, n) }

// freeRead frees a batch that was read, and the memory that becomes idle with it, and reports
// whether there was any.
func (m *memory) freeRead() bool {
	m.batches.dropOldestRead()
	return m.trimDue() && m.pool.Trim() > 0
}

// trimEvery is the shortest time between two trims of the pool for the cache, if nothing was
// released: the pool asks the kernel about each buffer that a reader may still see.
const trimEvery = 50 * time.Millisecond

// trimDue reports whether the cache may have the pool trimmed.
func (m *memory) trimDue() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := time.Now()
	due := m.released.Swap(false) || now.Sub(m.trimmed) > trimEvery
	if due {
		m.trimmed = now
	}
	return due
}
