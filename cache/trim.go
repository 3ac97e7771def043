package cache

// trimPages is how many pages are given back at a time.
const trimPages = 4096

// Trim gives at least n bytes back to the budget and the system, if it holds as
// many that nobody is reading, and returns how many it gave: first pages without
// samples, then samples, those first that will be wanted last.
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

// trim gives back n bytes or some of them; 0 when there is nothing left to give.
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

// spare makes samples leave until n pages are warm, and returns those of them that
// ristretto has to be told of. c.mu is held.
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
