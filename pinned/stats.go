package pinned

// Stats describes a pool in bytes, in the words of DALI's memory statistics.
type Stats struct {
	Real        int64 // bytes of the buffers in use
	MaxReal     int64 // the largest single buffer asked for so far
	Reserved    int64 // bytes held in all: in use, spare, released and perhaps still seen by readers
	MaxReserved int64 // the most that was ever held
	Buffers     int   // how many buffers exist
	Locked      bool  // page-locking was asked for and never refused: all memory in use is locked
	LockedBytes int64 // how much of what is held is page-locked
	LockError   error // why it was refused, a *LockError; nil when it was not, or was not asked for
	ReuseError  error // why buffers are freed as they are released, instead of reused; nil where they are reused
}

// Stats describes the pool as it is now. It asks the kernel nothing.
func (p *Pool) Stats() Stats {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := p.stats
	s.Locked, s.LockError, s.ReuseError = p.options.Lock && p.lockError == nil, p.lockError, p.reuseError
	for b := range p.owned {
		s.LockedBytes += b.lockedBytes()
	}
	for e := p.released.Front(); e != nil; e = e.Next() {
		s.LockedBytes += e.Value.(*Buffer).lockedBytes()
	}
	return s
}

// LockError is Stats().LockError, at the price of a look.
func (p *Pool) LockError() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.lockError
}

func (b *Buffer) lockedBytes() int64 {
	if !b.locked {
		return 0
	}
	return b.held
}

// BufferStats describes the pool as an entry of memory.json: of pinned memory where
// page-locking was asked for, whether or not it was granted.
func (p *Pool) BufferStats(name string) BufferStats {
	kind := HostMemory
	if p.options.Lock {
		kind = Pinned
	}
	s := p.Stats()
	return BufferStats{
		Name: name, Kind: kind, Real: s.Real, MaxReal: s.MaxReal,
		Reserved: s.Reserved, MaxReserved: s.MaxReserved, Locked: s.Locked,
	}
}
