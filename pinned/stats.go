package pinned

// Stats describes a pool in bytes, with the names of DALI's memory statistics.
type Stats struct {
	Real        int64 // bytes of the buffers in use
	MaxReal     int64 // the largest single buffer requested so far
	Reserved    int64 // bytes held in total: in use, spare, or released and perhaps still seen by readers
	MaxReserved int64 // the maximum ever held
	Buffers     int   // number of buffers
	Locked      bool  // page-locking was requested and never refused: all memory in use is locked
	LockedBytes int64 // how much of what is held is page-locked
	LockError   error // why it was refused, a *LockError; nil if it was not refused or not requested
	ReuseError  error // why buffers are freed on release; nil if they are reused
}

// Stats returns the pool's current state. It makes no system calls.
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

// LockError is Stats().LockError at less cost.
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

// BufferStats describes the pool as an entry of memory.json: as pinned memory if page-locking
// was requested, whether or not it was granted.
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
