package dataset

import (
	"context"
	"errors"
	"sync"
)

// flights are the reads of a store that are under way for several samples at once: compressed pages of Parquet hold many.
type flights struct {
	mu  sync.Mutex
	all map[flightKey]*flight
}

type flightKey struct {
	name, version string
	offset        int64
	n             int
}

// A flight is read by the first of those that want it, into its own memory, from which the others copy.
type flight struct {
	p      []byte
	done   chan struct{} // closed when p or err is there
	err    error
	joined int // by others
	copied sync.WaitGroup
}

// fetchOnce is fetch for bytes that others may want at the same time: one of them asks the store.
func (s *storage) fetchOnce(ctx context.Context, f *file, p []byte, offset int64) (int, error) {
	key := flightKey{f.object.Name, f.object.Version, offset, len(p)}
	for {
		x, mine := s.flights.join(key, p)
		if mine {
			return s.fly(ctx, key, x, f, offset)
		}
		select {
		case <-x.done:
			copy(p, x.p)
			err := x.err
			x.copied.Done()
			if err == nil {
				return len(p), nil
			} else if !errors.Is(err, ErrStopped) {
				return 0, err
			} // only the other one was stopped
		case <-ctx.Done():
			x.copied.Done()
			return 0, ErrStopped
		}
	}
}

// fly reads for all that have joined a flight. If that panics, the others ask the store themselves.
func (s *storage) fly(ctx context.Context, key flightKey, x *flight, f *file, offset int64) (n int, err error) {
	err = ErrStopped
	defer func() { s.flights.land(key, x, err) }()
	return s.fetch(ctx, f, x.p, offset)
}

// join returns the flight of a key, which the caller has to land if it is its own.
func (l *flights) join(key flightKey, p []byte) (x *flight, mine bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if x = l.all[key]; x != nil {
		x.joined++
		x.copied.Add(1)
		return x, false
	}
	if l.all == nil {
		l.all = map[flightKey]*flight{}
	}
	x = &flight{p: p, done: make(chan struct{})}
	l.all[key] = x
	return x, true
}

// land ends a flight, and waits until all have their copies.
func (l *flights) land(key flightKey, x *flight, err error) {
	l.mu.Lock()
	delete(l.all, key)
	l.mu.Unlock()
	x.err = err
	close(x.done)
	x.copied.Wait()
}
