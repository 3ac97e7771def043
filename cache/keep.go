package cache

// Wants says whether the policy would keep a sample that is read in an epoch, if there is room.
// A caller that reads only part of an unwanted sample calls Missed instead of Put.
func (c *Cache) Wants(epoch int, id int64) bool {
	keep, _ := c.asks(epoch, id)
	return keep
}

// asks asks the policy about a sample that is read in an epoch. known is false if a plan does
// not know yet.
func (c *Cache) asks(epoch int, id int64) (keep, known bool) {
	if c.policy != Constant {
		return true, true
	}
	keep, known = c.plan.Keep(epoch, id)
	return keep && known, known
}

// served applies the policy to a sample that was served to a reader of the epoch. The caller
// holds c.mu.
//
// Under a plan, a sample may wait for another epoch than the reader's: for a later one, if this
// epoch has already read it; for an earlier one, if that epoch's reader is behind. It then
// keeps waiting, unless the plan wants it for the epoch after this one. A sample that waits for
// an epoch far away is treated as new.
func (c *Cache) served(epoch int, n uint32, keep bool) {
	c.reading = epoch
	c.meter.epoch(epoch).Hits++
	e := &c.table.entries[n]
	if e.gone {
		return
	}
	waits := int(e.waits)
	switch {
	case c.policy != Constant:
		c.meter.kept(epoch, e.stamp.Size)
	case keep && (waits <= epoch || far(waits, epoch)):
		c.table.relabel(n, epoch+1)
		c.meter.kept(epoch, e.stamp.Size)
	case !keep && (waits == epoch || far(waits, epoch)):
		c.evict(n)
	}
}

// store keeps a sample if there is room, and reports whether it did.
func (c *Cache) store(epoch int, id uint32, s Stamp, data []byte) bool {
	if c.lfu != nil {
		return c.lfu.store(id, s, data)
	}
	waits := forever
	if c.policy == Constant {
		waits = epoch + 1
	}
	c.mu.Lock()
	if c.again(id, s, waits) {
		c.mu.Unlock()
		return true
	}
	n := c.makeRoom(epoch, s.Size)
	if n == 0 {
		c.mu.Unlock()
		return false
	}
	where := c.table.entries[n].chain
	c.mu.Unlock()

	c.arena.write(where, data)

	c.mu.Lock()
	defer c.mu.Unlock()
	if c.again(id, s, waits) { // another reader stored it first
		c.release(n)
		return true
	}
	c.publish(n, id, s, waits)
	return true
}

// again says whether the sample is already held, and if so makes it wait for the epoch. A
// sample with another stamp is evicted. The caller holds c.mu.
func (c *Cache) again(id uint32, s Stamp, waits int) bool {
	n := c.table.find(id)
	if n == 0 {
		return false
	}
	e := &c.table.entries[n]
	if e.stamp != s {
		c.evict(n)
		return false
	}
	if int(e.waits) < waits || far(int(e.waits), waits-1) {
		c.table.relabel(n, waits)
	}
	return true
}

// makeRoom allocates memory for a sample, evicting samples that wait for epochs far away if
// needed; 0 if there is none. The caller holds c.mu.
func (c *Cache) makeRoom(epoch int, size int64) uint32 {
	for {
		if n := c.place(size); n != 0 {
			return n
		}
		victim := uint32(0)
		if c.policy == Constant && c.cost(size) <= c.limit {
			victim = c.table.stale(epoch)
		}
		if victim == 0 {
			return 0
		}
		c.evict(victim)
	}
}

// drop evicts a sample if leaves says so for its stamp.
func (c *Cache) drop(id uint32, leaves func(Stamp) bool) {
	if c.lfu != nil {
		c.lfu.mu.Lock()
		defer c.lfu.mu.Unlock()
	}
	c.mu.Lock()
	n := c.table.find(id)
	if n != 0 && leaves(c.table.entries[n].stamp) {
		c.evict(n)
	} else {
		n = 0
	}
	c.mu.Unlock()
	if n != 0 && c.lfu != nil {
		c.lfu.forget(id)
	}
}
