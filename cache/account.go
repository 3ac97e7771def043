package cache

// Room is how much of its limit a cache has for samples, each of which takes Cost of its size.
// It is 0 if the limit is too low for any cache.
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

// fixedBytes is the memory of an empty cache: its hash table, TinyLFU's counters, and the first
// page of each other region.
func fixedBytes(p Policy, limit, samples int64) int64 {
	page := int64(systemPage)
	fixed := 3*page + roundUp(4*bucketsFor(mostSamples(limit, samples)), page)
	if p == TinyLFU {
		fixed += roundUp(countersFor(limit, samples), page)
	}
	return fixed
}

// charge asks the limit and the budget for n more bytes, or returns some if n is negative. The
// caller holds c.mu, or has the only reference to c.
func (c *Cache) charge(n int64) bool {
	switch {
	case n > 0 && (c.charged+n > c.limit || c.budget != nil && !c.budget.Reserve(n)):
		return false
	case n < 0 && c.budget != nil:
		c.budget.Release(-n)
	}
	c.charged += n
	c.meter.peak = max(c.meter.peak, c.charged)
	return true
}

// pageCost is the charge for one page of memory.
func (c *Cache) pageCost() int64 { return int64(c.arena.page) + pageMeta }

// place allocates an entry and a chain for a sample, and more memory if needed and available;
// otherwise it returns 0. The caller holds c.mu.
func (c *Cache) place(size int64) uint32 {
	short, possible := c.arena.short(size)
	fresh, free := c.table.spare()
	if !possible || !free {
		return 0
	}
	more := int64(short) * c.pageCost()
	if fresh {
		more += entryBytes
	}
	if !c.charge(more) {
		return 0
	}
	if c.arena.warmUp(short) != nil {
		c.charge(-more)
		return 0
	}
	n := c.table.take()
	c.table.entries[n].chain = c.arena.take(size)
	return n
}
