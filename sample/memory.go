package sample

import (
	"context"
	"fmt"

	"golang.org/x/sync/semaphore"
)

// leastMemory is what there always is: one sample of an ordinary dataset must fit.
const leastMemory = 64 << 20

// A Memory is the bytes that the Readers of a command may take together. It is safe for
// concurrent use.
type Memory struct {
	size  int64 // what samples that are being worked on take
	keep  int64 // what a Reader keeps of each kind between samples
	space *semaphore.Weighted
}

// NewMemory returns a Memory of limit bytes, at least 64 MiB, for so many Readers. A
// quarter of it is for what they keep between samples.
func NewMemory(limit int64, readers int) *Memory {
	limit = max(limit, leastMemory)
	m := &Memory{size: limit - limit/4, keep: min(32<<20, limit/4/int64(max(readers, 1))/3)}
	m.space = semaphore.NewWeighted(m.size)
	return m
}

// Keep is how many bytes of each kind of memory a Reader, and whoever works with one, may
// keep between samples.
func (m *Memory) Keep() int64 { return m.keep }

// take waits until n bytes are free, or all of it where n is more, and returns how many
// bytes it took.
func (m *Memory) take(ctx context.Context, n int64) (int64, error) {
	n = min(n, m.size)
	if err := m.space.Acquire(ctx, n); err != nil {
		return 0, err
	}
	return n, nil
}

// fits says whether n bytes may be had at all.
func (m *Memory) fits(n int64) error {
	if n > m.size {
		return fmt.Errorf("%w: it takes %d bytes, and there may be %d for one sample (--memory-limit)", ErrMemory, n, m.size)
	}
	return nil
}
