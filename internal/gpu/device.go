package gpu

import (
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/batchfs/batchfs/internal/cuda"
)

var (
	// ErrFull means that the limit leaves no room at the moment, because of slots in use.
	ErrFull = errors.New("no room on the GPU yet")
	// ErrMemory means that a slot does not fit, however long one waits, or that the driver has no
	// memory left.
	ErrMemory = cuda.ErrMemory
	// ErrLost means that the GPU cannot be used any more by this process.
	ErrLost = cuda.ErrLost
	// ErrNVJPEG means that nvJPEG failed, but not because of an image.
	ErrNVJPEG = cuda.ErrNVJPEG

	// The reasons why no GPU, or no nvJPEG, can be used.
	ErrNotBuilt  = cuda.ErrNotBuilt // this program is built without CUDA
	ErrNoDriver  = cuda.ErrNoDriver
	ErrOldDriver = cuda.ErrOldDriver
	ErrNoDevice  = cuda.ErrNoDevice
	ErrNoNVJPEG  = cuda.ErrNoNVJPEG
	ErrOldNVJPEG = cuda.ErrOldNVJPEG
)

// A Driver is what a Device needs of a GPU's driver. Its methods are safe for concurrent use.
// Their errors wrap ErrMemory or ErrLost where these apply.
type Driver interface {
	// UUID is the GPU's, as GPU-8-4-4-4-12 hexadecimal digits.
	UUID() string
	// Free is how many bytes of the GPU's memory are unused now.
	Free() (int64, error)
	// CannotShare is why other processes cannot open memory of the GPU; nil if they can, as far as
	// is known.
	CannotShare() error
	// Alloc allocates n bytes, a multiple of SlabUnit. If they are shared, other processes can open
	// them and write to them.
	Alloc(n int64, shared bool) (Memory, error)
	// Release frees what Alloc returned.
	Release(Memory) error
	// OpenNVJPEG lets Runs have Images, which become gray or RGB pixels. It returns everything that
	// the pixels depend on: nvJPEG's version and backend, and the GPU's name. The error may be
	// cuda.ErrNoNVJPEG or cuda.ErrOldNVJPEG.
	OpenNVJPEG(gray bool) (name string, err error)
	// Run executes a Run. When it returns, the GPU uses none of its memory, unless the error is
	// ErrLost.
	Run(r Run) error
	// Register page-locks memory that bytes are copied from, so that the GPU fetches them by
	// itself; Unregister ends that, before the memory is freed.
	Register(m []byte) error
	Unregister(m []byte) error
	// Close ends all use of the GPU.
	Close() error
}

// Memory is an allocation on a GPU.
type Memory struct {
	Address uint64
	Handle  [64]byte // for cuIpcOpenMemHandle in other processes; zero if it is not shared
}

// Slabs are multiples of SlabUnit. The driver puts smaller allocations into a shared block of this
// size, which would be exported as a whole.
const SlabUnit = 2 << 20

// Options are the settings of a Device.
type Options struct {
	// Limit is how many bytes batches and work memory may take together, the latter at most half of
	// it. 0: half of what would be free on the GPU without them, determined whenever there is no
	// room for a slot.
	Limit int64
	// Growth, from 1 to 4: memory that must grow becomes at least this many times as large as it
	// was, if the limit has room. 0 counts as 1.
	Growth float64
}

// A Device is the memory on one GPU for batches and for making them: slots of slabs, which are
// allocated as slots need them, up to a limit. Until the first slot is needed, a Device takes
// nothing of the GPU. It is safe for concurrent use.
type Device struct {
	driver  Driver
	options Options

	growing sync.Mutex // held to allocate a slab, or to free one
	first   int64      // least size of the first slab of batches

	// The holder of mu makes no call to the driver.
	mu     sync.Mutex
	slabs  []*slab
	nvjpeg bool // nvJPEG decodes, so every batch needs work memory
	stats  Stats
	lost   error // why the driver is not called any more
	closed bool
}

// Stats describes a Device, in bytes, with the meanings of pinned.BufferStats.
type Stats struct {
	Limit                                int64 // 0: not known yet
	Real, MaxReal, Reserved, MaxReserved int64
	Lost                                 error // why the GPU is lost; nil if it is not
}

// New makes a Device, which closes its driver when it is closed.
func New(driver Driver, o Options) *Device {
	return &Device{driver: driver, options: o, stats: Stats{Limit: o.Limit}}
}

// UUID is the GPU's.
func (d *Device) UUID() string { return d.driver.UUID() }

// Stats returns the current state. It does not ask the driver.
func (d *Device) Stats() Stats {
	d.mu.Lock()
	defer d.mu.Unlock()
	s := d.stats
	s.Lost = d.lost
	return s
}

// CannotShare is why no other process can read batches on the GPU; nil if others can, as far as is
// known.
func (d *Device) CannotShare() error { return d.driver.CannotShare() }

// Slot returns memory for a batch of n bytes, which other processes can open, with unspecified
// contents. The error is ErrFull if there will be room when other slots are released, ErrMemory if
// there will not be, ErrLost, or another error of the driver. Slot does not wait for room.
func (d *Device) Slot(n int64) (*Slot, error) { return d.slot(n, true) }

// slot returns memory that is shared, or that no other process ever sees.
func (d *Device) slot(n int64, shared bool) (*Slot, error) {
	if s, err := d.take(n, shared); s != nil || err != nil {
		return s, err
	}
	d.growing.Lock()
	defer d.growing.Unlock()
	for { // meanwhile, other callers may make room, or take it
		if s, err := d.take(n, shared); s != nil || err != nil {
			return s, err
		}
		err := d.grow(n, shared)
		for err != nil && (errors.Is(err, ErrFull) || errors.Is(err, ErrMemory)) && d.freeWork(n, shared) {
			err = d.grow(n, shared)
		}
		if err != nil {
			if err = d.refusal(n, shared, err); err != nil {
				return nil, err
			}
		}
	}
}

// Room is Slot without a call to the driver; nil if slots in use take all allocated memory.
func (d *Device) Room(n int64) *Slot {
	s, _ := d.take(n, true)
	return s
}

// take finds room for a slot; nil, nil: there is none.
func (d *Device) take(n int64, shared bool) (*Slot, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.lost != nil {
		return nil, d.lost
	}
	need := roundUp(max(n, 1), slotUnit)
	var best *slab
	room := int64(0)
	for _, s := range d.slabs {
		if r := s.room(need); s.shared == shared && r > 0 && (best == nil || r < room) {
			best, room = s, r
		}
	}
	if best == nil {
		return nil, nil
	}
	best.used++
	d.stats.Real += n
	d.stats.MaxReal = max(d.stats.MaxReal, n)
	return &Slot{device: d, slab: best, offset: best.take(need), size: n, holders: 1}, nil
}

// grow allocates a slab for a slot of n bytes. If there is room, the slab is larger, by the growth
// factor or because of Presize. The caller holds growing.
func (d *Device) grow(n int64, shared bool) error {
	limit, err := d.limit()
	if err != nil {
		return err
	}
	held, need := d.Stats().Reserved, roundUp(max(n, 1), SlabUnit)
	left, like := limit-held, d.reserved(shared)
	if !shared {
		left = min(left, toWork(limit)-like)
	}
	if need > left {
		return ErrFull
	}
	more := roundUp(int64((d.options.Growth-1)*float64(like)), SlabUnit)
	if like == 0 && shared {
		more = d.first
	}
	if more > need && more <= left {
		if err := d.allocate(more, shared); !errors.Is(err, ErrMemory) {
			return err
		}
	}
	return d.allocate(need, shared)
}

// toWork is how many bytes of a limit may be work memory, so that there is also room for batches.
func toWork(limit int64) int64 { return roundUp(limit/2, SlabUnit) }

// reserved is how many bytes are in slabs of one kind.
func (d *Device) reserved(shared bool) (n int64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, s := range d.slabs {
		if s.shared == shared {
			n += s.size
		}
	}
	return n
}

// freeWork frees unused work slabs, to make room for a slab of batches or a larger work slab of at
// least n bytes. It returns false if that does not help. The caller holds growing.
func (d *Device) freeWork(n int64, shared bool) bool {
	var idle []*slab
	d.mu.Lock()
	if kept := d.kept(shared); d.fits(n, shared) {
		d.slabs = slices.DeleteFunc(d.slabs, func(s *slab) bool {
			if s.shared || s.used > 0 || s == kept {
				return false
			}
			idle = append(idle, s)
			d.stats.Reserved -= s.size
			return true
		})
	}
	d.mu.Unlock()
	for _, s := range idle {
		_ = d.ask(func() error { return d.driver.Release(s.memory) }) // if it fails, the next call does, too
	}
	return len(idle) > 0
}

// kept is the work slab that is not freed for batches: nvJPEG's largest one, without which there
// would be no batches at all; nil: there is none. The caller holds mu.
func (d *Device) kept(forBatches bool) (largest *slab) {
	for _, s := range d.slabs {
		if d.nvjpeg && forBatches && !s.shared && (largest == nil || s.size > largest.size) {
			largest = s
		}
	}
	return largest
}

// fits reports whether the limit has room for n bytes beside the kept work slab and the slabs of
// batches, which cannot be freed because other processes map them. The caller holds mu.
func (d *Device) fits(n int64, shared bool) bool {
	left, kept := d.stats.Limit, d.kept(shared)
	for _, s := range d.slabs {
		if s.shared || s == kept {
			left -= s.size
		}
	}
	if !shared {
		left = min(left, toWork(d.stats.Limit))
	}
	return roundUp(max(n, 1), SlabUnit) <= left
}

// limit is the most that all slabs may take. Other programs come and go on the GPU, so limit asks
// each time how much is free, but slabs stay. The caller holds growing.
func (d *Device) limit() (int64, error) {
	if d.options.Limit > 0 {
		return d.options.Limit, nil
	}
	var free int64
	err := d.ask(func() (err error) {
		free, err = d.driver.Free()
		return err
	})
	d.mu.Lock()
	defer d.mu.Unlock()
	d.stats.Limit = max(d.stats.Reserved, (d.stats.Reserved+free)/2)
	return d.stats.Limit, err
}

func (d *Device) allocate(n int64, shared bool) error {
	memory, err := d.driver.Alloc(n, shared)
	d.mu.Lock()
	defer d.mu.Unlock()
	if err != nil {
		return d.note(err)
	}
	d.slabs = append(d.slabs, newSlab(memory, n, shared))
	d.stats.Reserved += n
	d.stats.MaxReserved = max(d.stats.MaxReserved, d.stats.Reserved)
	return nil
}

// note remembers that the GPU is lost. The caller holds mu.
func (d *Device) note(err error) error {
	if d.lost == nil && errors.Is(err, ErrLost) {
		d.lost = err
	}
	return err
}

// refusal returns whether a refused slot will ever have room; nil: there is room now.
func (d *Device) refusal(n int64, shared bool, err error) error {
	if !errors.Is(err, ErrFull) && !errors.Is(err, ErrMemory) {
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	now, later, worked := false, false, false
	for _, s := range d.slabs {
		if s.shared == shared && s.size >= roundUp(max(n, 1), slotUnit) {
			now, later = now || s.used == 0, true
		}
		worked = worked || !s.shared && s.used > 0
	}
	if errors.Is(err, ErrFull) && d.fits(n, shared) { // in place of work slabs in use
		now, later = now || !worked, true
	}
	switch {
	case now:
		return nil
	case later:
		return ErrFull
	case errors.Is(err, ErrMemory):
		return err
	}
	return fmt.Errorf("%w: %d bytes are needed; the limit is %d, and %d of it are in allocations that "+
		"are too small, or needed to decode", ErrMemory, n, d.stats.Limit, d.stats.Reserved)
}

// Presize makes the first slab of batches large enough for n batches of size bytes, if the limit
// allows it.
func (d *Device) Presize(size int64, n int) {
	d.growing.Lock()
	defer d.growing.Unlock()
	d.first = roundUp(roundUp(max(size, 1), slotUnit)*int64(n), SlabUnit)
}

// Run makes the driver execute a Run. The caller holds the slots in it.
func (d *Device) Run(r Run) error { return d.ask(func() error { return d.driver.Run(r) }) }

// OpenNVJPEG calls the driver's. It must precede the first Sample for nvJPEG.
func (d *Device) OpenNVJPEG(gray bool) (name string, err error) {
	err = d.ask(func() (err error) {
		name, err = d.driver.OpenNVJPEG(gray)
		return err
	})
	d.mu.Lock()
	defer d.mu.Unlock()
	d.nvjpeg = err == nil
	return name, err
}

// Register lets the GPU fetch bytes from memory by itself, until Unregister. Meanwhile, the caller
// must keep the pages in place.
func (d *Device) Register(m []byte) error { return d.ask(func() error { return d.driver.Register(m) }) }

// Unregister ends what Register began. It ignores a failure: the GPU is lost then.
func (d *Device) Unregister(m []byte) {
	_ = d.ask(func() error { return d.driver.Unregister(m) })
}

// ask makes a call to the driver, unless the GPU is lost.
func (d *Device) ask(call func() error) error {
	d.mu.Lock()
	lost := d.lost
	d.mu.Unlock()
	if lost != nil {
		return lost
	}
	err := call()
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.note(err)
}

// Close frees all slabs, even if slots are in use, and ends the use of the GPU. The content of
// memory that other processes have mapped is then undefined.
func (d *Device) Close() error {
	d.growing.Lock()
	defer d.growing.Unlock()
	d.mu.Lock()
	slabs, lost, closed := d.slabs, d.lost, d.closed
	d.slabs, d.lost, d.closed, d.stats.Reserved = nil, errClosed, true, 0
	d.mu.Unlock()
	if closed {
		return nil
	}
	var err error
	for _, s := range slabs {
		if lost == nil {
			err = errors.Join(err, d.driver.Release(s.memory))
		}
	}
	return errors.Join(err, d.driver.Close())
}

var errClosed = fmt.Errorf("%w: it was closed", ErrLost)
