package gpu

import (
	"errors"
	"fmt"
	"sync"

	"github.com/batchfs/batchfs/internal/cuda"
)

var (
	// ErrFull means that the limit leaves no room at the moment: slots in use take it.
	ErrFull = errors.New("no room on the GPU yet")
	// ErrMemory means that a slot does not fit, however long one waits, or that the driver has no
	// memory left.
	ErrMemory = cuda.ErrMemory
	// ErrLost means that the GPU cannot be used any more by this process.
	ErrLost = cuda.ErrLost
	// ErrNVJPEG means that nvJPEG failed for no fault of an image.
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
	// Free is how many bytes of the GPU's memory nothing uses now.
	Free() (int64, error)
	// Alloc allocates n bytes, a multiple of SlabUnit, and exports them to other processes.
	Alloc(n int64) (Memory, error)
	// Release frees what Alloc returned.
	Release(Memory) error
	// OpenNVJPEG lets Runs have Images, which become gray or RGB pixels. It returns what the pixels depend on: nvJPEG's version
	// and backend, and the GPU's name. The error may be cuda.ErrNoNVJPEG or cuda.ErrOldNVJPEG.
	OpenNVJPEG(gray bool) (name string, err error)
	// Run does what a Run says. When it returns, the GPU uses none of its memory, unless the
	// error is ErrLost.
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
	Handle  [64]byte // for cuIpcOpenMemHandle in other processes
}

// SlabUnit is what slabs are multiples of. The driver gives smaller allocations a share of a
// block of this size, which would be exported as a whole.
const SlabUnit = 2 << 20

// Options are the settings of a Device.
type Options struct {
	// Limit is bytes for batches. 0: half of what is free on the GPU without them, whenever there is no room for a slot.
	Limit int64
	// Growth, from 1 to 4: memory that has to grow becomes at least this many times as large as
	// it was, if the limit has room. 0 counts as 1.
	Growth float64
}

// A Device is the memory of one GPU that batches are put into: slots of slabs. Slabs are
// allocated as slots need them, up to a limit, and freed by Close alone, since other processes
// map them. Until the first slot is needed, a Device takes nothing of the GPU. It is safe for
// concurrent use.
type Device struct {
	driver  Driver
	options Options

	growing sync.Mutex // held to allocate a slab
	first   int64      // least size of the first slab

	// No call to the driver is made while mu is held.
	mu     sync.Mutex
	slabs  []*slab
	used   int // slots in use
	stats  Stats
	lost   error // why nothing is asked of the driver any more
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

// Slot returns memory for n bytes, with unspecified contents. The error is ErrFull if there will
// be room when other slots are released, ErrMemory if there will not be, ErrLost, or another of
// the driver's. It does not wait for room.
func (d *Device) Slot(n int64) (*Slot, error) {
	if s, err := d.take(n); s != nil || err != nil {
		return s, err
	}
	d.growing.Lock()
	defer d.growing.Unlock()
	for { // other callers make room, and take it, at any time
		if s, err := d.take(n); s != nil || err != nil {
			return s, err
		}
		if err := d.grow(n); err != nil {
			if err = d.refusal(n, err); err != nil {
				return nil, err
			}
		}
	}
}

// Room is Slot without a call to the driver: nil if slots in use take all that is allocated.
func (d *Device) Room(n int64) *Slot {
	s, _ := d.take(n)
	return s
}

// take finds room for a slot; nil, nil: there is none.
func (d *Device) take(n int64) (*Slot, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.lost != nil {
		return nil, d.lost
	}
	need := roundUp(max(n, 1), slotUnit)
	var best *slab
	room := int64(0)
	for _, s := range d.slabs {
		if r := s.room(need); r > 0 && (best == nil || r < room) {
			best, room = s, r
		}
	}
	if best == nil {
		return nil, nil
	}
	d.used++
	d.stats.Real += n
	d.stats.MaxReal = max(d.stats.MaxReal, n)
	return &Slot{device: d, slab: best, offset: best.take(need), size: n, holders: 1}, nil
}

// grow allocates a slab for a slot of n bytes, larger by the growth factor or for what Presize
// said if there is room for that; growing is held.
func (d *Device) grow(n int64) error {
	limit, err := d.limit()
	if err != nil {
		return err
	}
	held, need := d.Stats().Reserved, roundUp(max(n, 1), SlabUnit)
	left := limit - held
	if need > left {
		return ErrFull
	}
	more := roundUp(int64((d.options.Growth-1)*float64(held)), SlabUnit)
	if held == 0 {
		more = d.first
	}
	if more > need && more <= left {
		if err := d.allocate(more); !errors.Is(err, ErrMemory) {
			return err
		}
	}
	return d.allocate(need)
}

// limit is the most that slabs may take together; growing is held. Others come and go on the GPU, so what is free is asked
// each time, but slabs stay.
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

func (d *Device) allocate(n int64) error {
	memory, err := d.driver.Alloc(n)
	d.mu.Lock()
	defer d.mu.Unlock()
	if err != nil {
		return d.note(err)
	}
	d.slabs = append(d.slabs, newSlab(memory, n))
	d.stats.Reserved += n
	d.stats.MaxReserved = max(d.stats.MaxReserved, d.stats.Reserved)
	return nil
}

// note remembers that the GPU is lost; mu is held.
func (d *Device) note(err error) error {
	if d.lost == nil && errors.Is(err, ErrLost) {
		d.lost = err
	}
	return err
}

// refusal says whether a slot for which there was no room will ever have some; nil: there is some now.
func (d *Device) refusal(n int64, err error) error {
	if !errors.Is(err, ErrFull) && !errors.Is(err, ErrMemory) {
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	fits := false // once all slots are released
	for _, s := range d.slabs {
		fits = fits || s.size >= roundUp(max(n, 1), slotUnit)
	}
	switch {
	case fits && d.used == 0:
		return nil
	case fits:
		return ErrFull
	case errors.Is(err, ErrMemory):
		return err
	}
	return fmt.Errorf("%w: a batch takes %d bytes; the limit is %d, and %d of it are in allocations that are too small",
		ErrMemory, n, d.stats.Limit, d.stats.Reserved)
}

// Presize makes the first slab large enough for n slots of size bytes, if the limit allows it.
func (d *Device) Presize(size int64, n int) {
	d.growing.Lock()
	defer d.growing.Unlock()
	d.first = roundUp(roundUp(max(size, 1), slotUnit)*int64(n), SlabUnit)
}

// Run has the driver do a Run. The caller holds the slots in it.
func (d *Device) Run(r Run) error { return d.ask(func() error { return d.driver.Run(r) }) }

// OpenNVJPEG is the driver's. It comes before the first Sample for nvJPEG.
func (d *Device) OpenNVJPEG(gray bool) (name string, err error) {
	err = d.ask(func() (err error) {
		name, err = d.driver.OpenNVJPEG(gray)
		return err
	})
	return name, err
}

// Register lets the GPU fetch bytes from memory by itself, until Unregister. The caller keeps the
// pages where they are in between.
func (d *Device) Register(m []byte) error { return d.ask(func() error { return d.driver.Register(m) }) }

// Unregister ends what Register began. Nothing is to be done about a failure: the GPU is lost.
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

// Close frees all slabs, whatever slots are in use, and ends the use of the GPU. What other
// processes have mapped is no longer defined.
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
