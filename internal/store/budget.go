package store

import "sync"

// A budget is what may be spent on requests that are not necessary. It begins full, and
// requests that succeed earn a part of one: an outage ends it soon, instead of being
// multiplied by it.
type budget struct {
	mu        sync.Mutex
	most, has float64
}

func newBudget(most float64) budget { return budget{most: most, has: most} }

func (b *budget) earn(part float64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.has = min(b.has+part, b.most)
}

// spend takes one, if there is one.
func (b *budget) spend() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.has < 1 {
		return false
	}
	b.has--
	return true
}
