package cache

// trimPages is how many pages are freed at a time, while the cache is locked.
const trimPages = 256

// Trim returns at least n bytes to the budget and the system, unless too much is being read, and
// returns how many it freed. It frees pages without samples first, then evicts samples, starting
// with those that will be needed last.
func (c *Cache) Trim(n int64) (freed int64) {
	if c == nil {
		return 0
	}
	for more := int64(1); freed < n && more > 0; freed += more {
		more = c.trim(n - freed)
	}
	return freed
}

// trim frees n bytes or fewer; 0 when nothing is left to free.
func (c *Cache) trim(n int64) int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	want := int(min((n+pageCost-1)/pageCost, trimPages))
	for c.arena.warm.n < want && c.table.held > 0 {
		c.evict(c.table.expendable(c.meter.reading, false))
	}
	freed := int64(c.arena.cool(want)) * pageCost
	c.ledger.charge(-freed)
	return freed
}
