package engine

import (
	"math"
	"slices"
	"sync"
	"time"

	"github.com/batchfs/batchfs/cache"
	"github.com/batchfs/batchfs/pinned"
)

// Stats is the current state of the engine. Sizes are in bytes, times in seconds. The tags
// are the names in stats.json.
type Stats struct {
	Uptime          float64      `json:"uptime"`
	Images          int64        `json:"images"`
	ImagesPerSecond float64      `json:"images_per_second"`
	BytesPerSecond  float64      `json:"bytes_per_second"`
	Batches         BatchStats   `json:"batches"`
	Memory          MemoryStats  `json:"memory"`
	Storage         StorageStats `json:"storage"`
	Errors          int64        `json:"errors"`
	Plans           PlanStats    `json:"plans"`
	// Epochs are the most recently read ones. EpochsOmitted counts the earlier epochs,
	// whose figures are in the totals only.
	Epochs        []EpochStats `json:"epochs"`
	EpochsOmitted int64        `json:"epochs_omitted"`

	Buffers []pinned.BufferStats `json:"-"` // of each kind, as in memory.json
}

// BatchStats counts batches. Opened counts successful Opens; a stall is an Open that had to
// wait, whether it succeeded or not.
type BatchStats struct {
	Decoded      int64   `json:"decoded"`
	Opened       int64   `json:"opened"`
	Waiting      int64   `json:"waiting"`
	Stalled      int64   `json:"stalled"`
	StallSeconds float64 `json:"stall_seconds"`
	Ahead        int64   `json:"ahead"`   // prefetched and not opened
	Making       int64   `json:"making"`  // wanted or prefetched, and not complete
	Streams      int64   `json:"streams"` // readings being followed
}

// MemoryStats breaks down the use of the memory limit.
type MemoryStats struct {
	Limit   int64 `json:"limit"`
	Used    int64 `json:"used"`
	Peak    int64 `json:"peak"`
	Batches int64 `json:"batches"`
	Cache   int64 `json:"cache"`
	Index   int64 `json:"index"`
	Scratch int64 `json:"scratch"`

	Locked    int64  `json:"locked"`               // bytes of batch memory that are page-locked
	LockError string `json:"lock_error,omitempty"` // why the rest is not locked, if it was meant to be

	ReuseError string `json:"reuse_error,omitempty"` // why batch memory is freed, not reused, after each batch
}

// StorageStats counts reads of the dataset's files.
type StorageStats struct {
	Reads int64 `json:"reads"`
	Bytes int64 `json:"bytes"`
}

// EpochStats counts one epoch over all shards.
type EpochStats struct {
	Epoch         int          `json:"epoch"`
	Batches       int64        `json:"batches"`
	Hits          int64        `json:"hits"`
	Misses        int64        `json:"misses"`
	HitsPerBatch  Distribution `json:"hits_per_batch"`
	BytesPerBatch Distribution `json:"storage_bytes_per_batch"`
	StorageBytes  int64        `json:"storage_bytes"`
	Kept          int64        `json:"kept"`
	KeptBytes     int64        `json:"kept_bytes"`
	NotKept       int64        `json:"not_kept"`
	Unplanned     int64        `json:"unplanned"` // samples read before the plan said whether to keep them

	hits, bytes tally // of full batches
}

// Distribution describes a count over full batches.
type Distribution struct {
	Min    int64   `json:"min"`
	Max    int64   `json:"max"`
	Mean   float64 `json:"mean"`
	StdDev float64 `json:"stddev"`
}

// A tally accumulates counts for a Distribution with Welford's recurrence, because a sum of
// squared bytes would overflow an integer.
type tally struct {
	n, min, max   int64
	mean, squares float64 // squares: sum of squared differences from the mean
}

func (t *tally) add(v int64) {
	if t.n == 0 {
		t.min, t.max = v, v
	}
	t.n++
	t.min, t.max = min(t.min, v), max(t.max, v)
	d := float64(v) - t.mean
	t.mean += d / float64(t.n)
	t.squares += d * (float64(v) - t.mean)
}

func (t *tally) distribution() Distribution {
	return Distribution{Min: t.min, Max: t.max, Mean: t.mean, StdDev: math.Sqrt(t.squares / float64(t.n))}
}

// rateSeconds is the period over which rates are computed.
const rateSeconds = 10

// maxEpochStats bounds the epochs with figures of their own. A training run may have a
// million epochs.
const maxEpochStats = 100

// A meter counts the engine's work.
type meter struct {
	start time.Time

	mu      sync.Mutex
	images  int64
	batches BatchStats
	storage StorageStats
	epochs  []EpochStats // the most recent ones, in the order in which reading began
	omitted int64        // number of earlier epochs
	recent  [rateSeconds]tick
}

// A tick is what was made in one second of the meter's life.
type tick struct{ second, images, bytes int64 }

// batch notes a completed batch. Figures per batch cover full batches only.
func (m *meter) batch(b *batch, full bool) {
	images, bytes := int64(b.items), int64(len(b.buf.Bytes()))
	m.mu.Lock()
	defer m.mu.Unlock()
	m.images += images
	m.batches.Decoded++
	s := m.epoch(b.key.Epoch)
	s.Batches++
	if full {
		s.hits.add(b.hits.Load())
		s.bytes.add(b.bytes.Load())
		s.HitsPerBatch, s.BytesPerBatch = s.hits.distribution(), s.bytes.distribution()
	}
	now := int64(time.Since(m.start).Seconds())
	t := &m.recent[now%rateSeconds]
	if t.second != now {
		*t = tick{second: now}
	}
	t.images += images
	t.bytes += bytes
}

func (m *meter) hit(epoch int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.epoch(epoch).Hits++
}

func (m *meter) read(epoch int, bytes int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.storage.Reads++
	m.storage.Bytes += bytes
	s := m.epoch(epoch)
	s.Misses++
	s.StorageBytes += bytes
}

func (m *meter) epoch(epoch int) *EpochStats {
	for i := len(m.epochs) - 1; i >= 0; i-- { // an epoch being read is near the end
		if m.epochs[i].Epoch == epoch {
			return &m.epochs[i]
		}
	}
	if len(m.epochs) == maxEpochStats {
		m.epochs = append(m.epochs[:0], m.epochs[1:]...)
		m.omitted++
	}
	m.epochs = append(m.epochs, EpochStats{Epoch: epoch})
	return &m.epochs[len(m.epochs)-1]
}

// opened notes an Open, how long it waited, and whether it got its batch.
func (m *meter) opened(waited time.Duration, got bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if got {
		m.batches.Opened++
	}
	if waited > 0 {
		m.batches.Stalled++
		m.batches.StallSeconds += waited.Seconds()
	}
}

func (m *meter) waiting(n int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.batches.Waiting += n
}

// stalled reports whether an Open is waiting for a batch.
func (m *meter) stalled() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.batches.Waiting > 0
}

// snapshot copies the counts and computes the rates, over the last rateSeconds or the
// meter's life, whichever is shorter.
func (m *meter) snapshot(now time.Time) Stats {
	m.mu.Lock()
	defer m.mu.Unlock()
	up := now.Sub(m.start).Seconds()
	s := Stats{Uptime: up, Images: m.images, Batches: m.batches, Storage: m.storage, Epochs: append([]EpochStats{}, m.epochs...), EpochsOmitted: m.omitted}
	var images, bytes int64
	for _, t := range m.recent {
		if age := int64(up) - t.second; age < rateSeconds {
			images += t.images
			bytes += t.bytes
		}
	}
	if span := min(up, rateSeconds); span > 0 {
		s.ImagesPerSecond, s.BytesPerSecond = float64(images)/span, float64(bytes)/span
	}
	return s
}

// Stats describes the current state of the engine.
func (e *Engine) Stats() Stats {
	s := e.meter.snapshot(time.Now())
	s.Errors = e.bad.total()
	s.Memory = e.memory.stats()
	s.Buffers = []pinned.BufferStats{e.memory.pool.Stats().BufferStats, e.batches.inputs.Stats(), e.batches.rest.Stats()}
	s.Plans = e.keeper.stats()
	if e.cache != nil {
		c := e.cache.Stats()
		s.addCache(c.Epochs)
		s.Buffers = append(s.Buffers, pinned.BufferStats{
			Name: "cache", Kind: pinned.HostMemory, Real: c.Real, MaxReal: c.MaxReal, Reserved: c.Reserved, MaxReserved: c.MaxReserved,
		})
	}
	e.batches.mu.Lock()
	defer e.batches.mu.Unlock()
	s.Batches.Making = e.batches.schedule.count()
	s.Batches.Streams, s.Batches.Ahead = e.batches.streams.count()
	return s
}

// stats breaks down the memory in use.
func (m *memory) stats() MemoryStats {
	l, p := m.ledger, m.pool.Stats()
	text := func(err error) string {
		if err == nil {
			return ""
		}
		return err.Error()
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return MemoryStats{
		Limit: l.limit, Used: l.sum, Peak: l.peak, Batches: l.used[useBatches],
		Cache: l.used[useCache], Index: l.used[useIndex], Scratch: l.used[useScratch],
		Locked: p.LockedBytes, LockError: text(p.LockError), ReuseError: text(p.ReuseError),
	}
}

// addCache adds the cache's figures for each epoch.
func (s *Stats) addCache(epochs []cache.EpochStats) {
	for _, c := range epochs {
		if i := slices.IndexFunc(s.Epochs, func(e EpochStats) bool { return e.Epoch == c.Epoch }); i >= 0 {
			e := &s.Epochs[i]
			e.Kept, e.KeptBytes, e.NotKept, e.Unplanned = c.Kept, c.KeptBytes, c.NotKept, c.Unplanned
		}
	}
}
