package sample

import (
	"context"
	"fmt"

	"golang.org/x/sync/semaphore"
)

// leastMemory is the minimum, so that a sample of an ordinary dataset always fits.
const leastMemory = 64 << 20

// A Memory is the memory that the Readers of a command may use together, in bytes. It is
// safe for concurrent use.
type Memory struct {
	size  int64 // for samples being processed
	keep  int64 // what a Reader may keep of each kind between samples
	space *semaphore.Weighted
}

// NewMemory returns a Memory of limit bytes, but at least 64 MiB, for the given number of
// Readers. A quarter of it is for what they keep between samples.
func NewMemory(limit int64, readers int) *Memory {
	limit = max(limit, leastMemory)
	m := &Memory{size: limit - limit/4, keep: min(32<<20, limit/4/int64(max(readers, 1))/3)}
	m.space = semaphore.NewWeighted(m.size)
	return m
}

// Keep is how many bytes of each kind of memory a Reader, or its user, may keep between
// samples.
func (m *Memory) Keep() int64 { return m.keep }

// take waits until n bytes are free, or everything if n is more than there is, and returns
// the number of bytes taken.
func (m *Memory) take(ctx context.Context, n int64) (int64, error) {
	n = min(n, m.size)
	if err := m.space.Acquire(ctx, n); err != nil {
		return 0, err
	}
	return n, nil
}

// fits returns an error if n bytes can never be available.
func (m *Memory) fits(n int64) error {
	if n > m.size {
		return fmt.Errorf("%w: it takes %d bytes, and there may be %d for one sample (--memory-limit)", ErrMemory, n, m.size)
	}
	return nil
}
