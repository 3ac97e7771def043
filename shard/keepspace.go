package shard

import "unsafe"

// A Workspace is where Keep works: it provides the memory and may end the work. It belongs
// to one call of Keep at a time.
type Workspace interface {
	// Take returns n zero bytes at an address that is a multiple of 8, or an error,
	// which ends Keep.
	Take(n int64) ([]byte, error)
	// Give returns what Take returned. Nothing refers to it any more.
	Give(memory []byte)
	// Err is asked every few thousand steps, which is many times a millisecond. An
	// error ends Keep.
	Err() error
}

// onHeap is a Workspace of ordinary memory, which never ends.
type onHeap struct{}

func (onHeap) Take(n int64) ([]byte, error) {
	words := make([]uint64, ceilDiv(n, 8))
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(words))), n), nil
}
func (onHeap) Give([]byte) {}
func (onHeap) Err() error  { return nil }

// scratch hands out a Workspace's memory as arrays, and knows what is to be given back.
type scratch struct {
	from Workspace
	live [][]byte // few
}

// stopped is the panic that ends Keep, and never leaves it.
type stopped struct{ err error }

// checkMask says at which steps of a loop to call check: those of which these bits are 0.
const checkMask = 1<<12 - 1

// check ends Keep where the workspace says so.
func (s *scratch) check() {
	if err := s.from.Err(); err != nil {
		panic(stopped{err})
	}
}

// number is what memory is handed out as. None holds a pointer.
type number interface {
	int32 | uint64 | float64 | Slot
}

// take returns n zeros.
func take[T number](s *scratch, n int) []T {
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

// give returns what take returned, or a list that began as that.
func give[T number](s *scratch, list []T) {
	first := (*byte)(unsafe.Pointer(unsafe.SliceData(list)))
	for i, memory := range s.live {
		if cap(list) > 0 && unsafe.SliceData(memory) == first {
			last := len(s.live) - 1
			s.live[i] = s.live[last]
			s.live = s.live[:last]
			s.from.Give(memory)
			return
		}
	}
}

// extend returns a list with room for at least one more, in other memory where it had none.
func extend[T number](s *scratch, list []T) []T {
	if len(list) < cap(list) {
		return list
	}
	more := take[T](s, max(256, len(list)+len(list)/2))
	n := copy(more, list)
	give(s, list)
	return more[:n]
}

// push appends to a list.
func push[T number](s *scratch, list []T, x T) []T { return append(extend(s, list), x) }

// end gives everything back.
func (s *scratch) end() {
	for _, memory := range s.live {
		s.from.Give(memory)
	}
	s.live = nil
}
