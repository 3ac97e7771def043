package cache

// Wants says whether the policy would keep a sample that is read in an epoch, if there is room.
// A caller that reads only part of an unwanted sample calls Missed instead of Put.
func (c *Cache) Wants(epoch int, id int64) bool {
	keep, _ := c.askPolicy(epoch, id)
	return keep
}

// askPolicy asks the policy about a sample that is read in an epoch. known is false if the plan
// does not know yet.
func (c *Cache) askPolicy(epoch int, id int64) (keep, known bool) {
	if c.policy != Constant {
		return true, true
	}
	keep, known = c.plan.Keep(epoch, id)
	return keep && known, known
}

// served applies the policy to a sample that was served to a reader of the epoch.
//
// Under a plan, a sample may wait for another epoch than the reader's: for a later one, if this
// epoch has already read it; for an earlier one, if that epoch's reader is behind. It then keeps
// waiting, unless the plan wants it for the epoch after this one. A sample that waits for a distant
// epoch is treated as new.
func (c *Cache) served(epoch int, id int64, s Stamp) {
	keep, known := c.askPolicy(epoch, id)
	c.lfu.ask(uint32(id))
	c.mu.Lock()
	defer c.mu.Unlock()
	count := c.meter.read(epoch, known)
	count.Hits++
	n := c.current(uint32(id), s)
	if n == 0 { // evicted while it was being copied
		return
	}
	waits, size := int(c.table.entries[n].waits), c.table.entries[n].size
	switch {
	case c.policy != Constant:
		c.meter.kept(count, size)
	case keep && (waits <= epoch || isFar(waits, epoch)):
		c.table.relabel(n, epoch+1)
		c.meter.kept(count, size)
	case !keep && (waits == epoch || isFar(waits, epoch)):
		c.evict(n)
	}
}

// store keeps a sample if there is room, and reports whether it did. The caller holds c.mu,
// which store releases while it copies.
func (c *Cache) store(epoch int, id uint32, s Stamp, data []byte) bool {
	waits := forever
	if c.policy == Constant {
		waits = epoch + 1
	}
	if c.renew(id, s, waits) {
		return true
	}
	n := c.makeRoom(epoch, s.Size)
	if n == 0 {
		return false
	}
	c.write(n, id, s, waits, data)
	return true
}

// write copies a sample into an entry and makes that held, unless another reader has stored the
// sample meanwhile. The caller holds c.mu, which write releases while it copies.
func (c *Cache) write(n, id uint32, s Stamp, waits int, data []byte) {
	where := c.table.entries[n].chain
	c.mu.Unlock()
	c.arena.write(where, data)
	c.mu.Lock()
	if c.renew(id, s, waits) {
		c.release(n)
		return
	}
	e := &c.table.entries[n]
	e.id, e.stamp, e.size, e.waits = id, s, s.Size, int32(waits)
	c.table.insert(n)
	c.held += s.Size
	c.lfu.came(s.Size)
}

// current returns the entry of a sample, 0 if it is not held. A sample with another stamp is
// evicted. The caller holds c.mu.
func (c *Cache) current(id uint32, s Stamp) uint32 {
	n := c.table.find(id)
	if n != 0 && c.table.entries[n].stamp != s {
		c.evict(n)
		return 0
	}
	return n
}

// renew says whether the sample is already held. If so, it makes the sample wait for the epoch. The
// caller holds c.mu.
func (c *Cache) renew(id uint32, s Stamp, waits int) bool {
	n := c.current(id, s)
	if n == 0 {
		return false
	}
	if was := int(c.table.entries[n].waits); was < waits || isFar(was, waits-1) {
		c.table.relabel(n, waits)
	}
	return true
}

// makeRoom allocates memory for a sample, and evicts others if the policy agrees. It returns 0 if
// there is no room. The caller holds c.mu.
func (c *Cache) makeRoom(epoch int, size int64) uint32 {
	for {
		if n := c.place(size); n != 0 {
			return n
		}
		victim := uint32(0)
		switch {
		case Cost(size) > c.ledger.limit: // evicting everything would not help
		case c.policy == Constant:
			victim = c.table.expendable(epoch, true)
		}
		if victim == 0 {
			return 0
		}
		c.evict(victim)
	}
}

// evict removes a sample: at once, or when its last reader is done. The caller holds c.mu.
func (c *Cache) evict(n uint32) {
	e := &c.table.entries[n]
	c.held -= e.size
	if e.packed {
		c.packed--
		c.grown -= Cost(e.size) - Cost(e.stamp.Size)
	}
	c.lfu.leaves(e.id, e.stamp.Size)
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
