package pinned

import "sync"

// A Kind is the kind of memory behind a buffer.
type Kind string

const (
	// Pinned memory is page-locked, or was meant to be: it only grows.
	Pinned Kind = "pinned"
	// HostMemory is ordinary memory: it grows and shrinks.
	HostMemory Kind = "host"
	// DeviceMemory is memory of a GPU: it only grows.
	DeviceMemory Kind = "device"
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

// change records that one buffer went from one use to another.
func (s *BufferStats) change(from, to Use) {
	if to.Real != from.Real {
		s.Real += to.Real - from.Real
		s.MaxReal = max(s.MaxReal, to.Real)
	}
	s.Reserved += to.Reserved - from.Reserved
	s.MaxReserved = max(s.MaxReserved, s.Reserved)
}

// An Account sums up the use of all buffers of one kind. It is safe for concurrent use, and
// cheap enough to call for every sample. A nil *Account counts nothing.
type Account struct {
	mu    sync.Mutex
	stats BufferStats
}

// NewAccount returns an account of ordinary memory.
func NewAccount(name string) *Account {
	return &Account{stats: BufferStats{Name: name, Kind: HostMemory}}
}

// Change records that one buffer went from one use to another. A buffer begins and ends as
// Use{}. Hosts call it themselves; other owners of memory, such as codecs with their own
// allocations, may share the account.
func (a *Account) Change(from, to Use) {
	if a == nil || from == to {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.stats.change(from, to)
}

// Stats returns the current totals.
func (a *Account) Stats() BufferStats {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.stats
}
