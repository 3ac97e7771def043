package store

import (
	"sync"
	"time"
)

// A memo remembers values for a while. It forgets all of them when there are too many.
type memo[K comparable, V any] struct {
	life time.Duration
	most int

	mu  sync.Mutex
	all map[K]remembered[V]
}

type remembered[V any] struct {
	value V
	since time.Time
}

// now is the time of day, by which stores judge signatures. Unlike the monotonic clock, it goes on
// while the machine sleeps, and it may be set back.
func now() time.Time { return time.Now().Round(0) }

func (m *memo[K, V]) find(key K) (value V, found bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	was, found := m.all[key]
	age := now().Sub(was.since)
	return was.value, found && age >= 0 && age < m.life
}

func (m *memo[K, V]) keep(key K, value V) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.all == nil || len(m.all) >= m.most {
		m.all = map[K]remembered[V]{}
	}
	m.all[key] = remembered[V]{value, now()}
}

func (m *memo[K, V]) forget(key K) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.all, key)
}
