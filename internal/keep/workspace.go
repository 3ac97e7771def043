package keep

import (
	"iter"
	"slices"
	"unsafe"

	"github.com/batchfs/batchfs/shard"
)

// A Workspace provides Choose with memory and can cancel it. It serves one call at a time.
type Workspace interface {
	// Take returns n zero bytes at an address that is a multiple of 8. An error ends Choose.
	Take(n int64) ([]byte, error)
	// Give returns memory from Take, which is no longer used.
	Give(memory []byte)
	// Err is called about every thousand steps, many times per millisecond. An error ends
	// Choose.
	Err() error
}

// onHeap is a Workspace on the Go heap that never cancels.
type onHeap struct{}

func (onHeap) Take(n int64) ([]byte, error) {
	words := make([]uint64, (n+7)/8)
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(words))), n), nil
}
func (onHeap) Give([]byte) {}
func (onHeap) Err() error  { return nil }

// scratch hands out a Workspace's memory as arrays, and returns all of it in the end.
type scratch struct {
	from Workspace
	live [][]byte // few entries, so that give can search them
}

// nested returns scratch memory that is freed earlier.
func (s *scratch) nested() *scratch { return &scratch{from: s.from} }

// stopped is the panic that ends Choose, which recovers it.
type stopped struct{ err error }

// checkMask selects the steps of a loop that call check: those with these bits 0.
const checkMask = 1<<10 - 1

// check ends Choose if the workspace returns an error.
func (s *scratch) check() {
	if err := s.from.Err(); err != nil {
		panic(stopped{err})
	}
}

// steps counts from 0 to n-1, and calls check from time to time.
func (s *scratch) steps(n int) iter.Seq[int] {
	return func(yield func(int) bool) {
		for i := range n {
			if i&checkMask == 0 {
				s.check()
			}
			if !yield(i) {
				return
			}
		}
	}
}

// number is an element type of arrays in scratch memory. None contains a pointer.
type number interface {
	int32 | uint64 | float64 | shard.Slot | packing
}

// zeros returns n zeros.
func zeros[T number](s *scratch, n int) []T {
	if n == 0 {
		return nil
	}
	s.check()
	var one T
	memory, err := s.from.Take(int64(n) * int64(unsafe.Sizeof(one)))
	if err != nil {
		panic(stopped{err})
	}
	s.live = append(s.live, memory)
	return unsafe.Slice((*T)(unsafe.Pointer(unsafe.SliceData(memory))), n)
}

// give returns the memory of a list from take sooner, whatever its length has become.
func give[T number](s *scratch, list []T) {
	first := (*byte)(unsafe.Pointer(unsafe.SliceData(list)))
	is := func(memory []byte) bool { return cap(list) > 0 && unsafe.SliceData(memory) == first }
	if i := slices.IndexFunc(s.live, is); i >= 0 {
		s.from.Give(s.live[i])
		s.live = slices.Delete(s.live, i, i+1)
	}
}

// push appends to a list, moving it if it is full.
func push[T number](s *scratch, list []T, x T) []T {
	if len(list) == cap(list) {
		more := zeros[T](s, max(256, len(list)+len(list)/2))
		n := copy(more, list)
		give(s, list)
		list = more[:n]
	}
	return append(list, x)
}

// end returns all memory that is left.
func (s *scratch) end() {
	for _, memory := range s.live {
		s.from.Give(memory)
	}
	s.live = nil
}
