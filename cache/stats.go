package cache

// Stats is the cache as it is now, in bytes where nothing else is said.
type Stats struct {
	Limit       int64
	Reserved    int64 // charged, everything included
	MaxReserved int64
	Real        int64 // the samples alone
	MaxReal     int64 // the largest sample that was held
	Samples     int64 // how many are held
	Epochs      []EpochStats
}

// EpochStats counts one epoch, over all who read it.
type EpochStats struct {
	Epoch     int
	Hits      int64 // samples served
	Misses    int64 // samples that Put was offered
	Kept      int64 // samples read in this epoch that stayed for a later one
	KeptBytes int64 // of them
	NotKept   int64 // samples that the policy would have kept, had there been room
	Unplanned int64 // samples read before the plan knew whether to keep them: none was kept
}

// maxEpochs bounds the epochs that are counted; the one that was first read longest ago
// is forgotten first.
const maxEpochs = 128

// meter is what the cache counts; the cache's lock guards it.
type meter struct {
	peak    int64
	largest int64
	epochs  []EpochStats // in the order in which they were first read
}

func (m *meter) epoch(epoch int) *EpochStats {
	for i := len(m.epochs) - 1; i >= 0; i-- { // what is being read is near the end
		if m.epochs[i].Epoch == epoch {
			return &m.epochs[i]
		}
	}
	if len(m.epochs) == maxEpochs {
		m.epochs = m.epochs[:copy(m.epochs, m.epochs[1:])]
	}
	m.epochs = append(m.epochs, EpochStats{Epoch: epoch})
	return &m.epochs[len(m.epochs)-1]
}

// asked counts what a plan did not know.
func (m *meter) asked(epoch int, known bool) {
	if !known {
		m.epoch(epoch).Unplanned++
	}
}

func (m *meter) kept(epoch int, bytes int64) {
	s := m.epoch(epoch)
	s.Kept++
	s.KeptBytes += bytes
	m.largest = max(m.largest, bytes)
}

// Stats describes the cache as it is now.
func (c *Cache) Stats() Stats {
	if c == nil {
		return Stats{}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return Stats{
		Limit: c.limit, Reserved: c.charged, MaxReserved: c.meter.peak,
		Real: c.held, MaxReal: c.meter.largest, Samples: int64(c.table.held),
		Epochs: append([]EpochStats(nil), c.meter.epochs...),
	}
}
