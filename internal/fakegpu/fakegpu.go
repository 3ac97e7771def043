// Package fakegpu is a fake GPU driver for tests. The GPU's memory is Go's.
package fakegpu

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/maphash"
	"maps"
	"slices"
	"sync"
	"unsafe"

	"github.com/batchfs/batchfs/decode"
	"github.com/batchfs/batchfs/internal/gpu"
)

// Poison is what memory contains before anything is copied to it.
const Poison = 0xDB

// A GPU is a gpu.Driver. The fields above mu are set before its first use.
type GPU struct {
	Memory int64                   // bytes in all
	Alone  error                   // why other processes cannot open its memory; nil: they can
	Fail   func(call string) error // called by every call; nil: none fails
	Begin  func(gpu.Run)           // called before a Run is executed
	// Overrun simulates another process that overwrites all exported memory, between the copies to
	// the GPU and the kernels of each Run.
	Overrun bool

	mu         sync.Mutex
	slabs      map[uint64][]byte
	shared     map[uint64]bool // exported to other processes
	registered map[*byte]int
	Put        int // bytes copied to the GPU without kernels; Fast of them were in registered memory
	Fast       int
	Back       int // bytes copied from the GPU
	Runs       int // with kernels
	decoder    *decode.Decoder
	closed     bool
}

// UUID is always the same.
func (g *GPU) UUID() string { return "GPU-00112233-4455-6677-8899-aabbccddeeff" }

func (g *GPU) enter(call string) error {
	if g.Fail != nil {
		if err := g.Fail(call); err != nil {
			return err
		}
	}
	g.mu.Lock()
	if g.closed {
		panic("fakegpu: " + call + " after Close")
	}
	return nil
}

// Free implements gpu.Driver.
func (g *GPU) Free() (int64, error) {
	if err := g.enter("Free"); err != nil {
		return 0, err
	}
	defer g.mu.Unlock()
	return g.Memory - g.allocated(), nil
}

func (g *GPU) allocated() (n int64) {
	for _, s := range g.slabs {
		n += int64(len(s))
	}
	return n
}

// CannotShare implements gpu.Driver.
func (g *GPU) CannotShare() error { return g.Alone }

// Alloc implements gpu.Driver. A handle begins with the address.
func (g *GPU) Alloc(n int64, shared bool) (m gpu.Memory, err error) {
	if err := g.enter("Alloc"); err != nil {
		return m, err
	}
	defer g.mu.Unlock()
	if n <= 0 || n%gpu.SlabUnit != 0 {
		panic(fmt.Sprintf("fakegpu: a slab of %d bytes", n))
	}
	if g.allocated()+n > g.Memory {
		return m, fmt.Errorf("%w: CUDA_ERROR_OUT_OF_MEMORY", gpu.ErrMemory)
	}
	if shared && g.Alone != nil {
		return m, g.Alone
	}
	slab := bytes.Repeat([]byte{Poison}, int(n))
	if g.slabs == nil {
		g.slabs, g.shared = map[uint64][]byte{}, map[uint64]bool{}
	}
	m.Address = uint64(uintptr(unsafe.Pointer(&slab[0])))
	g.slabs[m.Address] = slab
	if shared {
		g.shared[m.Address] = true
		binary.LittleEndian.PutUint64(m.Handle[:], m.Address)
	}
	return m, nil
}

// Release implements gpu.Driver.
func (g *GPU) Release(m gpu.Memory) error {
	if err := g.enter("Release"); err != nil {
		return err
	}
	defer g.mu.Unlock()
	if g.slabs[m.Address] == nil {
		panic("fakegpu: released twice")
	}
	delete(g.slabs, m.Address)
	delete(g.shared, m.Address)
	return nil
}

// overrun overwrites all memory that other processes can write. The caller holds mu.
func (g *GPU) overrun() {
	for address := range g.shared {
		copy(g.slabs[address], bytes.Repeat([]byte{Poison}, len(g.slabs[address])))
	}
}

// Run implements gpu.Driver. Host memory must not change until the GPU has copied it.
func (g *GPU) Run(r gpu.Run) error {
	before := digest(r)
	if g.Begin != nil {
		g.Begin(r)
	}
	if err := g.enter("Run"); err != nil {
		return err
	}
	defer g.mu.Unlock()
	if digest(r) != before {
		panic("fakegpu: memory was changed while the GPU was to copy it")
	}
	if len(r.Launches) > 0 {
		g.Runs++
	}
	for _, p := range r.Put {
		if len(p.From) > 0 {
			g.put(p, len(r.Launches) > 0)
		}
	}
	if g.Overrun {
		g.overrun()
	}
	for i := range r.Images {
		g.decode(&r.Images[i])
	}
	for _, l := range r.Launches {
		launch(l, g.at(r.At, 1))
	}
	for _, w := range r.Within {
		copy(g.at(w.To, w.Bytes), g.at(w.From, w.Bytes))
	}
	for _, b := range r.Back {
		copy(b.To, g.at(b.From, int64(len(b.To))))
		g.Back += len(b.To)
	}
	return nil
}

// Not a bytewise hash like FNV: with the race detector, that took a fortieth of the time of package
// engine's tests.
var digestSeed = maphash.MakeSeed()

// digest covers all host memory that a Run copies from or to.
func digest(r gpu.Run) uint64 {
	var h maphash.Hash
	h.SetSeed(digestSeed)
	for _, p := range r.Put {
		h.Write(p.From)
	}
	for _, b := range r.Back {
		h.Write(b.To)
	}
	return h.Sum64()
}

// put copies bytes to the GPU. The caller holds mu.
func (g *GPU) put(p gpu.Put, forKernels bool) {
	if !forKernels {
		g.Put += len(p.From)
	}
	for at, n := range g.registered {
		if off := uintptr(unsafe.Pointer(&p.From[0])) - uintptr(unsafe.Pointer(at)); off < uintptr(n) {
			if off+uintptr(len(p.From)) > uintptr(n) {
				panic("fakegpu: registered in part")
			}
			if !forKernels {
				g.Fast += len(p.From)
			}
		}
	}
	copy(g.at(p.To, int64(len(p.From))), p.From)
}

// OpenNVJPEG implements gpu.Driver.
func (g *GPU) OpenNVJPEG(gray bool) (string, error) {
	if err := g.enter("OpenNVJPEG"); err != nil {
		return "", err
	}
	defer g.mu.Unlock()
	o := decode.Options{IgnoreOrientation: true}
	if gray {
		o.Color = decode.Gray
	}
	g.decoder = decode.NewDecoder(o)
	return "nvJPEG in Go", nil
}

// decode makes pixels that differ from those of all other decoders in the last bit. It refuses
// damaged images. The caller holds mu.
func (g *GPU) decode(image *gpu.Image) {
	head, err := decode.ReadHeader(image.Data, true)
	if err == nil {
		pix := g.at(uint64(image.To), int64(head.Height*image.Pitch))
		err = g.decoder.Decode(decode.Image{Pix: pix, Stride: image.Pitch, Height: head.Height, Width: head.Width}, image.Data, head)
		for i := range pix {
			pix[i] ^= 1
		}
	}
	image.Refused = err != nil
}

// at returns n bytes of the GPU's memory. The caller holds mu.
func (g *GPU) at(address uint64, n int64) []byte {
	for start, slab := range g.slabs {
		if off := address - start; off < uint64(len(slab)) {
			return slab[off : off+uint64(n)]
		}
	}
	panic("fakegpu: no such memory")
}

// Read returns n bytes at an offset of an exported slab, as another process sees them.
func (g *GPU) Read(handle [64]byte, offset, n int64) []byte {
	g.mu.Lock()
	defer g.mu.Unlock()
	return bytes.Clone(g.at(binary.LittleEndian.Uint64(handle[:])+uint64(offset), n))
}

// Register implements gpu.Driver.
func (g *GPU) Register(m []byte) error {
	if err := g.enter("Register"); err != nil {
		return err
	}
	defer g.mu.Unlock()
	if g.registered == nil {
		g.registered = map[*byte]int{}
	}
	if _, twice := g.registered[&m[0]]; twice {
		return errors.New("registered twice")
	}
	g.registered[&m[0]] = len(m)
	return nil
}

// Unregister implements gpu.Driver. Memory counts as released even if that fails, as with a real
// driver.
func (g *GPU) Unregister(m []byte) error {
	if err := g.enter("Unregister"); err != nil {
		g.mu.Lock()
		defer g.mu.Unlock()
		delete(g.registered, &m[0])
		return err
	}
	defer g.mu.Unlock()
	if g.registered[&m[0]] != len(m) {
		panic("fakegpu: memory that is not registered, or another part of it")
	}
	delete(g.registered, &m[0])
	return nil
}

// Left describes what was not released.
func (g *GPU) Left() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.slabs)+len(g.registered) > 0 {
		return fmt.Errorf("%d slabs and %d registrations are left: %v", len(g.slabs), len(g.registered), slices.Collect(maps.Values(g.registered)))
	}
	return nil
}

// Close implements gpu.Driver.
func (g *GPU) Close() error {
	if err := g.enter("Close"); err != nil {
		return err
	}
	defer g.mu.Unlock()
	g.closed = true
	if g.decoder != nil {
		g.decoder.Close()
	}
	return nil
}
