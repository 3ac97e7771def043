package cache

import "slices"

// Stats describes the current state of the cache, in bytes unless noted.
type Stats struct {
	Limit       int64
	Reserved    int64 // charged, including all overhead
	MaxReserved int64
	Real        int64 // only the samples
	MaxReal     int64 // the largest sample ever held
	Samples     int64 // number of samples held
	Packed      int64 // number of samples replaced by another form
	Grown       int64 // bytes that those take beyond their files; negative if less
	Epochs      []EpochStats
}

// EpochStats counts one epoch, over all its readers.
type EpochStats struct {
	Epoch     int
	Hits      int64 // samples served
	Misses    int64 // samples offered to Put or counted by Missed
	Kept      int64 // samples read in this epoch that were kept for a later one
	KeptBytes int64 // total size of those
	NotKept   int64 // samples that the policy would have kept if there had been room
	Unplanned int64 // samples not kept because the plan did not know yet
}

// maxEpochs is how many epochs are counted. The epoch whose first read is oldest is forgotten
// first.
const maxEpochs = 128

// meter holds the cache's counters, guarded by the cache's lock.
type meter struct {
	largest int64
	reading int          // the most recently read epoch
	epochs  []EpochStats // in the order they were first read
}

func (m *meter) epoch(epoch int) *EpochStats {
	for i := len(m.epochs) - 1; i >= 0; i-- { // current epochs are near the end
		if m.epochs[i].Epoch == epoch {
			return &m.epochs[i]
		}
	}
	if len(m.epochs) == maxEpochs {
		m.epochs = slices.Delete(m.epochs, 0, 1)
	}
	m.epochs = append(m.epochs, EpochStats{Epoch: epoch})
	return &m.epochs[len(m.epochs)-1]
}

// read notes that an epoch reads a sample, and returns the epoch's counts.
func (m *meter) read(epoch int, known bool) *EpochStats {
	m.reading = epoch
	count := m.epoch(epoch)
	if !known {
		count.Unplanned++
	}
	return count
}

func (m *meter) kept(count *EpochStats, bytes int64) {
	count.Kept++
	count.KeptBytes += bytes
	m.largest = max(m.largest, bytes)
}

// Stats describes the current state of the cache.
func (c *Cache) Stats() Stats {
	if c == nil {
		return Stats{}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return Stats{
		Limit: c.ledger.limit, Reserved: c.ledger.charged, MaxReserved: c.ledger.peak,
		Real: c.held, MaxReal: c.meter.largest, Samples: int64(c.table.held), Packed: c.packed, Grown: c.grown,
		Epochs: slices.Clone(c.meter.epochs),
	}
}
