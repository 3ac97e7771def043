package gpu

import "slices"

// Slots begin at multiples of slotUnit, as frameworks expect of their own arrays.
const slotUnit = 512

// A slab is one allocation, divided into slots. The lock of its Device guards it.
type slab struct {
	memory Memory
	size   int64
	shared bool   // other processes can open it
	free   []span // in order, never adjacent
	used   int    // slots
}

// A span is a part of a slab, in bytes.
type span struct{ from, to int64 }

func newSlab(m Memory, size int64, shared bool) *slab {
	return &slab{memory: m, size: size, shared: shared, free: []span{{0, size}}}
}

// tightest is the index of the smallest free span of at least n bytes; -1: none.
func (s *slab) tightest(n int64) int {
	best := -1
	for i, f := range s.free {
		if size := f.to - f.from; size >= n && (best < 0 || size < s.free[best].to-s.free[best].from) {
			best = i
		}
	}
	return best
}

// room is the size of the smallest free span of at least n bytes; 0: none.
func (s *slab) room(n int64) int64 {
	i := s.tightest(n)
	if i < 0 {
		return 0
	}
	return s.free[i].to - s.free[i].from
}

// take takes n bytes, for which there must be room, and returns where they begin.
func (s *slab) take(n int64) int64 {
	i := s.tightest(n)
	from := s.free[i].from
	if s.free[i].from += n; s.free[i].from == s.free[i].to {
		s.free = slices.Delete(s.free, i, i+1)
	}
	return from
}

// give gives n bytes back.
func (s *slab) give(from, n int64) {
	i, _ := slices.BinarySearchFunc(s.free, from, func(f span, from int64) int { return int(f.from - from) })
	s.free = slices.Insert(s.free, i, span{from, from + n})
	if i+1 < len(s.free) && s.free[i].to == s.free[i+1].from {
		s.free[i].to = s.free[i+1].to
		s.free = slices.Delete(s.free, i+1, i+2)
	}
	if i > 0 && s.free[i-1].to == s.free[i].from {
		s.free[i-1].to = s.free[i].to
		s.free = slices.Delete(s.free, i, i+1)
	}
}

// A Slot is memory on a GPU for one batch. The caller of Device.Slot holds it, and so does everyone
// for whom Hold was called, until all have called Release.
type Slot struct {
	device  *Device
	slab    *slab
	offset  int64
	size    int64
	holders int
}

// Address is where the slot begins, in this process.
func (s *Slot) Address() uint64 { return s.slab.memory.Address + uint64(s.offset) }

// Place is how another process finds the slot: the handle of its slab, and the slot's offset there.
func (s *Slot) Place() (handle [64]byte, offset int64) { return s.slab.memory.Handle, s.offset }

// Hold makes a slot that is held need one more Release.
func (s *Slot) Hold() {
	s.device.mu.Lock()
	defer s.device.mu.Unlock()
	s.holders++
}

// Release gives the slot back once nobody holds it. One Release too many panics.
func (s *Slot) Release() {
	d := s.device
	d.mu.Lock()
	defer d.mu.Unlock()
	if s.slab == nil {
		panic("gpu: slot released twice")
	}
	if s.holders--; s.holders > 0 {
		return
	}
	s.slab.give(s.offset, roundUp(max(s.size, 1), slotUnit))
	s.slab.used--
	s.slab = nil
	d.stats.Real -= s.size
}

func roundUp(n, unit int64) int64 { return (n + unit - 1) / unit * unit }
