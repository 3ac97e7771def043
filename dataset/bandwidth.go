package dataset

import (
	"context"
	"sync"
	"time"
)

// A limiter shares a bandwidth among all readers. It is a token bucket, stored as the time at
// which the storage will have delivered every byte requested so far; a reader waits until its
// own bytes are due. A late timer therefore slows no reader in the long run, and what a reader
// does not take after all goes to the others at once.
type limiter struct {
	rate  int64 // bytes per second
	piece int   // bytes per request

	mu   sync.Mutex
	done time.Time
}

const (
	// burst is how far ahead an idle storage is assumed to have read. In any second, delivery
	// exceeds the rate by at most that fraction of it.
	burst = 10 * time.Millisecond
	// A piece is what the storage delivers in 20 ms, bounded so that requests are neither too
	// numerous nor too slow.
	minPiece = 4 << 10
	maxPiece = 4 << 20
)

func newLimiter(rate int64) *limiter {
	return &limiter{rate: rate, piece: int(min(max(rate/50&^(minPiece-1), minPiece), maxPiece))}
}

// take waits until n bytes may be read. It returns ErrStopped if the context ends first.
func (l *limiter) take(ctx context.Context, n int) error {
	wait := l.book(n)
	if wait <= 0 {
		return nil
	}
	select {
	case <-time.After(wait):
		return nil
	case <-ctx.Done():
		l.book(-n)
		return ErrStopped
	}
}

// takeAll is take for any number of bytes. A nil limiter never waits.
func (l *limiter) takeAll(ctx context.Context, n int) error {
	for ; n > 0 && l != nil; n -= l.piece {
		if err := l.take(ctx, min(n, l.piece)); err != nil {
			return err
		}
	}
	return nil
}

// book reserves n bytes, or returns them if n is negative, and says how long to wait for them.
func (l *limiter) book(n int) time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	if earliest := now.Add(-burst); n > 0 && l.done.Before(earliest) {
		l.done = earliest
	}
	l.done = l.done.Add(time.Duration(float64(n) / float64(l.rate) * float64(time.Second)))
	return l.done.Sub(now)
}
