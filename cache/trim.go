package cache

// trimPages is how many pages are returned at a time.
const trimPages = 4096

// Trim returns at least n bytes to the budget and the system, if that much is not being read,
// and returns how many it freed. It frees pages without samples first, then evicts samples,
// starting with those that will be needed last.
func (c *Cache) Trim(n int64) int64 {
	if c == nil {
		return 0
	}
	if c.lfu != nil {
		c.lfu.mu.Lock()
		defer c.lfu.mu.Unlock()
	}
	freed := int64(0)
	for freed < n {
		more := c.trim(n - freed)
		if more == 0 {
			break
		}
		freed += more
	}
	return freed
}

// trim frees n bytes or fewer; 0 when nothing is left to free.
func (c *Cache) trim(n int64) int64 {
	c.mu.Lock()
	if c.closed {
		c.mu.Unlock()
		return 0
	}
	want := int(min((n+c.pageCost()-1)/c.pageCost(), trimPages))
	left := c.spare(want)
	list := c.arena.detach(want, nil)
	c.mu.Unlock()

	for _, id := range left {
		c.lfu.forget(id)
	}
	cold, warm := c.arena.forget(list)

	c.mu.Lock()
	defer c.mu.Unlock()
	c.arena.attach(cold, warm)
	freed := int64(len(cold)) * c.pageCost()
	c.charge(-freed)
	return freed
}

// spare evicts samples until n pages are warm, and returns those of them that ristretto must be
// told about. The caller holds c.mu.
func (c *Cache) spare(n int) (left []uint32) {
	for c.arena.nWarm < n {
		victim := c.table.leastWanted(c.reading)
		if victim == 0 {
			break
		}
		if c.lfu != nil {
			left = append(left, c.table.entries[victim].id)
		}
		c.evict(victim)
	}
	return left
}
