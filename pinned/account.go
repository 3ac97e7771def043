package pinned

import "sync/atomic"

// A Kind is what sort of memory a buffer is made of.
type Kind string

const (
	// Pinned memory is page-locked, or was meant to be: it only grows.
	Pinned Kind = "pinned"
	// HostMemory is ordinary memory: it grows and shrinks.
	HostMemory Kind = "host"
)

// BufferStats describes the buffers of one kind, in the words and units (bytes) of
// DALI's memory statistics. It is an entry of memory.json.
type BufferStats struct {
	Name        string `json:"name"`
	Kind        Kind   `json:"kind"`
	Real        int64  `json:"real_memory_size"`         // in use now, over all buffers
	MaxReal     int64  `json:"max_real_memory_size"`     // the largest single one ever asked for: the hint to give next time
	Reserved    int64  `json:"reserved_memory_size"`     // held now, over all buffers
	MaxReserved int64  `json:"max_reserved_memory_size"` // the most that was ever held
	Locked      bool   `json:"locked"`                   // all of it is page-locked
}

// A Use is how many bytes of a buffer are used, and how many it holds.
type Use struct{ Real, Reserved int64 }

// An Account adds up what all buffers of one kind use. It is safe for concurrent
// use, and cheap enough for every sample. A nil *Account counts nothing.
type Account struct {
	name           string
	real, reserved atomic.Int64
	maxReal        atomic.Int64
	maxReserved    atomic.Int64
}

// NewAccount makes an account of ordinary memory.
func NewAccount(name string) *Account { return &Account{name: name} }

// Change notes that one buffer went from one use to another. A buffer begins and
// ends as Use{}. Hosts call it by themselves; others, such as codecs that
// allocate on their own, may share the account.
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

// raise makes m at least v.
func raise(m *atomic.Int64, v int64) {
	for old := m.Load(); v > old; old = m.Load() {
		if m.CompareAndSwap(old, v) {
			return
		}
	}
}

// Stats describes the buffers as they are now. While buffers change, the figures
// may be of slightly different moments.
func (a *Account) Stats() BufferStats {
	return BufferStats{
		Name: a.name, Kind: HostMemory,
		Real: a.real.Load(), MaxReal: a.maxReal.Load(),
		Reserved: a.reserved.Load(), MaxReserved: a.maxReserved.Load(),
	}
}
