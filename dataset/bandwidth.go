package dataset

import (
	"sync"
	"time"
)

// A limiter shares a bandwidth among all readers. It is a token bucket, stored as the time at
// which the storage will have delivered every byte requested so far; a reader waits until its
// own bytes are due. A late timer therefore slows no reader in the long run, and no reader
// waits while holding a lock.
type limiter struct {
	rate  int64 // bytes per second
	piece int   // bytes per request

	timers sync.Pool // stopped *time.Timer values

	mu   sync.Mutex
	done time.Time
}

const (
	// burst is how far ahead an idle storage is assumed to have read. In any second, delivery
	// exceeds the rate by at most that fraction of it.
	burst = 10 * time.Millisecond
	// A piece is what the storage delivers in pieceTime, bounded so that requests are neither
	// too numerous nor too slow.
	pieceTime = 20 * time.Millisecond
	minPiece  = 4 << 10
	maxPiece  = 4 << 20
)

func newLimiter(rate int64) *limiter {
	piece := rate / int64(time.Second/pieceTime) &^ (minPiece - 1)
	return &limiter{rate: rate, piece: int(min(max(piece, minPiece), maxPiece))}
}

// takes returns how long the storage needs for n bytes.
func (l *limiter) takes(n int) time.Duration {
	return time.Duration(float64(n) / float64(l.rate) * float64(time.Second))
}

// take waits until n bytes may be read. It returns ErrStopped if stop is closed first.
func (l *limiter) take(n int, stop <-chan struct{}) error {
	wait := l.book(n)
	if wait <= 0 {
		return nil
	}
	timer, reused := l.timers.Get().(*time.Timer)
	if reused {
		timer.Reset(wait)
	} else {
		timer = time.NewTimer(wait)
	}
	defer l.timers.Put(timer)
	select {
	case <-timer.C:
		return nil
	case <-stop:
		timer.Stop()
		l.cancel(n)
		return ErrStopped
	}
}

// book reserves n bytes and returns how long to wait for them.
func (l *limiter) book(n int) time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	if earliest := now.Add(-burst); l.done.Before(earliest) {
		l.done = earliest
	}
	l.done = l.done.Add(l.takes(n))
	return l.done.Sub(now)
}

// cancel returns a reservation whose bytes will not be read.
func (l *limiter) cancel(n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.done = l.done.Add(-l.takes(n))
}
