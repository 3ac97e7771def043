package cache

// Room is how many bytes of its limit a cache has for samples; each takes Cost of its size. It is 0
// if the limit is too low for any cache.
func Room(p Policy, limit, samples int64) int64 {
	if p == None || limit <= 0 {
		return 0
	}
	return max(0, limit-fixedBytes(p, limit, samples)-pageCost) // one page may have unused crumbs
}

// Cost is how much of a cache's Room a sample of size bytes takes.
func Cost(size int64) int64 {
	pages, crumbs := shape(size)
	return entryBytes + pages*pageCost + (int64(crumbs)*pageCost+crumbsPerPage-1)/crumbsPerPage
}

// pageCost is the charge for one page of memory.
var pageCost = int64(systemPage) + pageMeta

// mostSamples is the largest number of samples a cache can hold.
func mostSamples(limit, samples int64) int64 {
	smallest := int64(systemPage/crumbsPerPage) + entryBytes
	return max(1, min(samples, limit/smallest))
}

// fixedBytes is the memory of an empty cache: the beginning of its table, the first page of each
// region, which may be partly used, and ristretto's memory.
func fixedBytes(p Policy, limit, samples int64) int64 {
	return 3*int64(systemPage) + tableStart(mostSamples(limit, samples)) + lfuBytes(p, limit, samples)
}

// A ledger accounts for the memory that a cache may use, and does use. The cache's lock guards it.
type ledger struct {
	limit   int64
	budget  Budget // may be nil
	charged int64  // bytes, also charged to the budget
	peak    int64
}

// charge asks the limit and the budget for n more bytes. A negative n gives bytes back.
func (a *ledger) charge(n int64) bool {
	switch {
	case n > 0 && (a.charged+n > a.limit || a.budget != nil && !a.budget.Reserve(n)):
		return false
	case n < 0 && a.budget != nil:
		a.budget.Release(-n)
	}
	a.charged += n
	a.peak = max(a.peak, a.charged)
	return true
}

// place allocates an entry and a chain for a sample, and more memory if needed. It returns 0 if
// there is none. The caller holds c.mu.
func (c *Cache) place(size int64) uint32 {
	fresh, free := c.table.spare()
	if !free {
		return 0
	}
	entry := int64(0)
	if fresh {
		entry = entryBytes + c.lfu.entryCost()
	}
	where, ok := c.ledger.allocate(&c.arena, size, entry)
	if !ok {
		return 0
	}
	n := c.table.take()
	c.table.entries[n].chain = where
	return n
}

// allocate takes a chain for a sample from an arena. It charges for more bytes, and for pages that
// it must give memory first.
func (a *ledger) allocate(from *arena, size, more int64) (where chain, ok bool) {
	short, possible := from.short(size)
	if cost := more + int64(short)*pageCost; possible && a.charge(cost) {
		if from.warmUp(short) == nil {
			return from.take(shape(size)), true
		}
		a.charge(-cost)
	}
	if pages, crumbs, enough := from.scattered(size); enough && a.charge(more) {
		return from.take(pages, crumbs), true
	}
	return chain{}, false
}
