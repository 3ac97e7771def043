package dataset

import (
	"context"

	"golang.org/x/time/rate"
)

// A limiter divides a bandwidth among all readers.
type limiter struct {
	bytes *rate.Limiter
	piece int // bytes per request, and the burst: what the storage delivers in 20 ms
}

// Bounds of limiter.piece: requests should be neither too numerous nor too slow.
const (
	minPiece = 4 << 10
	maxPiece = 4 << 20
)

// newLimiter returns nil, which never waits, if perSecond is 0.
func newLimiter(perSecond int64) *limiter {
	if perSecond == 0 {
		return nil
	}
	piece := int(min(max(perSecond/50&^(minPiece-1), minPiece), maxPiece))
	return &limiter{rate.NewLimiter(rate.Limit(perSecond), piece), piece}
}

// take waits until n bytes (at most one piece) may be read. It returns ErrStopped if the context
// ends first.
func (l *limiter) take(ctx context.Context, n int) error {
	if l.bytes.WaitN(ctx, n) != nil {
		return ErrStopped
	}
	return nil
}

// takeAll is take without the limit of one piece. A nil limiter never waits.
func (l *limiter) takeAll(ctx context.Context, n int) error {
	for ; n > 0 && l != nil; n -= l.piece {
		if err := l.take(ctx, min(n, l.piece)); err != nil {
			return err
		}
	}
	return nil
}
