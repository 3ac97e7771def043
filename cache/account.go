package cache

// Room is how much of its limit a cache has for samples, each of which takes Cost of its size.
// It is 0 if the limit is too low for any cache. With TinyLFU, ristretto's tables take part of
// the room as they grow.
func Room(p Policy, limit, samples int64) int64 {
	if p == None || limit <= 0 {
		return 0
	}
	partial := int64(systemPage) + pageMeta // a page whose crumbs are only partly used
	return max(0, limit-fixedBytes(p, limit, samples)-partial)
}

// Cost is how much of a cache's Room a sample of size bytes takes.
func Cost(size int64) int64 { return cost(size, systemPage) }

// cost is what a sample takes in the table and in an arena with pages of that size.
func cost(size int64, page int) int64 {
	pages, crumbs := shape(size, page)
	whole := int64(page) + pageMeta
	return entryBytes + pages*whole + (int64(crumbs)*whole+crumbsPerPage-1)/crumbsPerPage
}

func (c *Cache) cost(size int64) int64 { return cost(size, c.arena.page) }

// mostSamples is the largest number of samples a cache can hold.
func mostSamples(limit, samples int64) int64 {
	smallest := int64(systemPage/crumbsPerPage + entryBytes)
	return max(1, min(samples, limit/smallest))
}

// fixedBytes is the memory of an empty cache: its hash table, the first page of each region,
// and what ristretto keeps.
func fixedBytes(p Policy, limit, samples int64) int64 {
	const regions = 7
	n := mostSamples(limit, samples)
	fixed := roundUp(4*bucketsFor(n), int64(systemPage)) + regions*int64(systemPage)
	if p == TinyLFU {
		fixed += lfuFixed(n) + lfuTables(0)
	}
	return fixed
}

// charge asks the limit and the budget for n more bytes, or returns some if n is negative. The
// caller holds c.mu, or has the only reference to c.
func (c *Cache) charge(n int64) bool {
	switch {
	case n > 0 && (c.charged+n > c.limit || !c.budget.Reserve(n)):
		return false
	case n < 0:
		c.budget.Release(-n)
	}
	c.charged += n
	c.meter.peak = max(c.meter.peak, c.charged)
	return true
}

// pageCost is the charge for one page of memory.
func (c *Cache) pageCost() int64 { return int64(c.arena.page) + pageMeta }

// entryCost is the charge for the n-th entry when it is first used. It includes the growth of
// ristretto's tables to that many samples.
func (c *Cache) entryCost(n int) int64 {
	if c.lfu == nil {
		return entryBytes
	}
	return entryBytes + lfuTables(int64(n)) - lfuTables(int64(n-1))
}

// place allocates an entry and a chain for a sample, and more memory if needed and available;
// otherwise it returns 0. The caller holds c.mu.
func (c *Cache) place(size int64) uint32 {
	if c.closed {
		return 0
	}
	short, possible := c.arena.short(size)
	if !possible {
		return 0
	}
	more := int64(short) * c.pageCost()
	if !c.table.spare() {
		if !c.table.room() {
			return 0
		}
		more += c.entryCost(c.table.fresh)
	}
	if !c.charge(more) {
		return 0
	}
	if err := c.arena.warmUp(short); err != nil {
		c.charge(-more)
		return 0
	}
	n := c.table.take()
	c.table.entries[n].chain = c.arena.take(size)
	return n
}

// publish assigns a placed and written entry to the sample. The caller holds c.mu.
func (c *Cache) publish(n, id uint32, s Stamp, waits int) {
	e := &c.table.entries[n]
	e.id, e.stamp, e.waits = id, s, int32(waits)
	c.table.insert(n)
	c.held += s.Size
	c.costs += c.cost(s.Size)
}

// evict removes a sample: at once, or when its last reader is done. The caller holds c.mu.
func (c *Cache) evict(n uint32) {
	size := c.table.entries[n].stamp.Size
	c.held -= size
	c.costs -= c.cost(size)
	c.table.remove(n)
	if c.table.entries[n].readers == 0 {
		c.release(n)
	}
}

// release frees the memory of an entry that is not held. The caller holds c.mu.
func (c *Cache) release(n uint32) {
	c.arena.release(c.table.entries[n].chain)
	c.table.release(n)
}
