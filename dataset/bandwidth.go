package dataset

import (
	"sync"
	"time"
)

// A limiter shares a bandwidth among all who read. It is a bucket of tokens, kept as
// the time at which the storage will have delivered all that it was asked for: who
// asks waits until its own bytes would be there. So a late timer makes nobody
// slower in the long run, and nobody waits while holding a lock.
type limiter struct {
	rate  int64 // bytes a second
	piece int   // what is asked for at a time

	timers sync.Pool // of *time.Timer, stopped

	mu   sync.Mutex
	done time.Time
}

const (
	// burst is for how long an idle storage may be thought to have read ahead. What
	// any second delivers exceeds the rate by no more than that part of it.
	burst = 10 * time.Millisecond
	// A piece is what the storage delivers in pieceTime, within bounds that keep
	// requests from being many or late.
	pieceTime = 20 * time.Millisecond
	minPiece  = 4 << 10
	maxPiece  = 4 << 20
)

func newLimiter(rate int64) *limiter {
	piece := rate / int64(time.Second/pieceTime) &^ (minPiece - 1)
	return &limiter{rate: rate, piece: int(min(max(piece, minPiece), maxPiece))}
}

// takes is how long the storage needs for n bytes.
func (l *limiter) takes(n int) time.Duration {
	return time.Duration(float64(n) / float64(l.rate) * float64(time.Second))
}

// take waits until n bytes may have been read, or fails with ErrStopped when stop is
// closed before.
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

// book asks for n bytes and returns how long they will take.
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

// cancel gives back what was booked and will not be read.
func (l *limiter) cancel(n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.done = l.done.Add(-l.takes(n))
}
