package pinned

import "sync/atomic"

// A Kind is the kind of memory behind a buffer.
type Kind string

const (
	// Pinned memory is page-locked, or was meant to be: it only grows.
	Pinned Kind = "pinned"
	// HostMemory is ordinary memory: it grows and shrinks.
	HostMemory Kind = "host"
)

// BufferStats describes the buffers of one kind, with the names and units (bytes) of DALI's
// memory statistics. It is an entry of memory.json.
type BufferStats struct {
	Name        string `json:"name"`
	Kind        Kind   `json:"kind"`
	Real        int64  `json:"real_memory_size"`         // in use now, over all buffers
	MaxReal     int64  `json:"max_real_memory_size"`     // the largest single request: the hint for the next run
	Reserved    int64  `json:"reserved_memory_size"`     // held now, over all buffers
	MaxReserved int64  `json:"max_reserved_memory_size"` // the maximum ever held
	Locked      bool   `json:"locked"`                   // all of it is page-locked
}

// A Use is the number of bytes of a buffer that are used, and the number that it holds.
type Use struct{ Real, Reserved int64 }

// An Account sums up the use of all buffers of one kind. It is safe for concurrent use, and
// cheap enough to call for every sample. A nil *Account counts nothing.
type Account struct {
	name           string
	real, reserved atomic.Int64
	maxReal        atomic.Int64
	maxReserved    atomic.Int64
}

// NewAccount returns an account of ordinary memory.
func NewAccount(name string) *Account { return &Account{name: name} }

// Change records that one buffer went from one use to another. A buffer begins and ends as
// Use{}. Hosts call it themselves; other owners of memory, such as codecs with their own
// allocations, may share the account.
func (a *Account) Change(from, to Use) {
	if a == nil {
		return
	}
	if to.Real != from.Real {
		a.real.Add(to.Real - from.Real)
		raise(&a.maxReal, to.Real)
	}
	if to.Reserved != from.Reserved {
		raise(&a.maxReserved, a.reserved.Add(to.Reserved-from.Reserved))
	}
}

// raise sets m to at least v.
func raise(m *atomic.Int64, v int64) {
	for old := m.Load(); v > old; old = m.Load() {
		if m.CompareAndSwap(old, v) {
			return
		}
	}
}

// Stats returns the current totals. While buffers change, the figures may be from slightly
// different moments.
func (a *Account) Stats() BufferStats {
	return BufferStats{
		Name: a.name, Kind: HostMemory,
		Real: a.real.Load(), MaxReal: a.maxReal.Load(),
		Reserved: a.reserved.Load(), MaxReserved: a.maxReserved.Load(),
	}
}
