package engine

import (
	"math"
	"slices"
	"sync"
	"time"

	"github.com/batchfs/batchfs/decode"
	"github.com/batchfs/batchfs/internal/pages"
	"github.com/batchfs/batchfs/internal/sample"
	"github.com/batchfs/batchfs/internal/store"
	"github.com/batchfs/batchfs/internal/tier"
	"github.com/batchfs/batchfs/pinned"
)

// Stats is the current state of the engine. Sizes are in bytes, times in seconds.
type Stats struct {
	Uptime          float64      `json:"uptime"`
	Images          int64        `json:"images"`
	ImagesPerSecond float64      `json:"images_per_second"`
	BytesPerSecond  float64      `json:"bytes_per_second"`
	Batches         BatchStats   `json:"batches"`
	Memory          MemoryStats  `json:"memory"`
	Storage         StorageStats `json:"storage"`
	JPEGs           JPEGStats    `json:"jpegs"`
	GPU             *GPUStats    `json:"gpu,omitempty"` // the GPU that batches can be put on; nil: none
	Errors          int64        `json:"errors"`
	Plans           PlanStats    `json:"plans"`
	Forms           FormStats    `json:"forms"`
	// Epochs are the most recently read ones. EpochsOmitted counts the earlier epochs.
	Epochs        []EpochStats `json:"epochs"`
	EpochsOmitted int64        `json:"epochs_omitted"`
	Shards        []ShardStats `json:"shards"` // shards that are being read

	Buffers []pinned.BufferStats `json:"-"` // of each kind, as in memory.json
	Hints   Hints                `json:"-"` // with which no buffer would have had to grow; 0: it was not used
}

// BatchStats counts batches. Opened counts successful Opens; a stall is an Open that had to
// wait, whether it succeeded or not. StallSeconds also has the time of those that still wait.
type BatchStats struct {
	Decoded      int64   `json:"decoded"`
	Opened       int64   `json:"opened"`
	Waiting      int64   `json:"waiting"`
	Stalled      int64   `json:"stalled"`
	StallSeconds float64 `json:"stall_seconds"`
	Ahead        int64   `json:"ahead"`   // prefetched and not opened
	Making       int64   `json:"making"`  // wanted or prefetched, and not complete
	Streams      int64   `json:"streams"` // streams of readers that are followed
}

// MemoryStats breaks down the use of the memory limit.
type MemoryStats struct {
	Limit   int64 `json:"limit"`
	Used    int64 `json:"used"`
	Peak    int64 `json:"peak"`
	Batches int64 `json:"batches"`
	Cache   int64 `json:"cache"`
	Pages   int64 `json:"pages"`
	Index   int64 `json:"index"`
	Scratch int64 `json:"scratch"`

	Locked    int64  `json:"locked"`               // bytes of batch memory that are page-locked
	LockError string `json:"lock_error,omitempty"` // why the rest is not locked, if it was meant to be

	ReuseError string `json:"reuse_error,omitempty"` // why batch memory is freed, not reused, after each batch
}

// StorageStats counts reads of the dataset's samples.
type StorageStats struct {
	Reads int64        `json:"reads"`
	Bytes int64        `json:"bytes"`
	Pages *pages.Stats `json:"pages,omitempty"`       // compressed pages; nil: there are none
	Store *store.Stats `json:"store,omitempty"`       // the object store that has the dataset; nil: none
	Local *tier.Stats  `json:"local_cache,omitempty"` // the local cache of the object store; nil: none
}

// JPEGStats counts the JPEGs that were decoded, by what decoded them, and by what became of their
// entry points.
type JPEGStats struct {
	decode.JPEGs
	GPU     int64              `json:"gpu"` // decoded by the GPU; not counted elsewhere
	Entries sample.EntryCounts `json:"entry_points"`
}

// EpochStats counts one epoch over all shards.
type EpochStats struct {
	Epoch         int          `json:"epoch"`
	Batches       int64        `json:"batches"`
	Hits          int64        `json:"hits"`
	Misses        int64        `json:"misses"`
	LocalHits     int64        `json:"local_hits"` // misses that the local cache served as planned
	HitsPerBatch  Distribution `json:"hits_per_batch"`
	LocalPerBatch Distribution `json:"local_hits_per_batch"`
	BytesPerBatch Distribution `json:"storage_bytes_per_batch"`
	StorageBytes  int64        `json:"storage_bytes"`
	Kept          int64        `json:"kept"`
	KeptBytes     int64        `json:"kept_bytes"`
	NotKept       int64        `json:"not_kept"`
	Unplanned     int64        `json:"unplanned"` // samples read before the plan said whether to keep them
}

// FormStats says in which form samples are kept in memory.
type FormStats struct {
	PackedShare float64 `json:"packed_share"` // of the samples that the latest plan keeps
	Reason      string  `json:"reason"`       // the reason for that share, in words
	Samples     int64   `json:"samples"`      // samples in memory that are packed now
	Grown       int64   `json:"extra_bytes"`  // bytes that these take beyond what their files would
	Drawn       int64   `json:"drawn"`        // packed samples that were decoded

	Disk *DiskFormStats `json:"local_cache,omitempty"` // the local cache, if it may keep packed samples beside files
}

// DiskFormStats says in which form samples are kept in the local cache. Counts are since the mount.
type DiskFormStats struct {
	Share float64 `json:"packed_share"` // share of the samples that there is room for beside all files
	Kept  int64   `json:"kept"`         // packed samples that were given to it
	Read  int64   `json:"read"`         // packed samples that came from it
}

// ShardStats says how far the latest reader of a shard has come.
type ShardStats struct {
	Shard int `json:"shard"`
	Epoch int `json:"epoch"`
	Batch int `json:"batch"` // the one that was opened last
}

// Distribution describes a count over full batches.
type Distribution struct {
	Min    int64   `json:"min"`
	Max    int64   `json:"max"`
	Mean   float64 `json:"mean"`
	StdDev float64 `json:"stddev"`

	n, squares float64 // how many values there are, and the sum of their squared differences from the mean
}

// add adds a count by Welford's recurrence, because a sum of squared bytes would overflow an
// integer.
func (d *Distribution) add(v int64) {
	if d.n == 0 {
		d.Min, d.Max = v, v
	}
	d.n++
	d.Min, d.Max = min(d.Min, v), max(d.Max, v)
	diff := float64(v) - d.Mean
	d.Mean += diff / d.n
	d.squares += diff * (float64(v) - d.Mean)
	d.StdDev = math.Sqrt(d.squares / d.n)
}

const (
	rateSeconds   = 10  // the period over which rates are computed
	maxEpochStats = 100 // most epochs that have their own figures
)

// A meter counts the engine's work.
type meter struct {
	start time.Time

	mu      sync.Mutex
	images  int64
	batches BatchStats
	storage StorageStats
	jpegs   JPEGStats
	epochs  []EpochStats // the most recent ones, in the order in which reading began
	omitted int64        // number of earlier epochs
	recent  [rateSeconds]tick
}

// A tick is the work of one second of the meter's life.
type tick struct{ second, images, bytes int64 }

// batch notes a completed batch.
func (m *meter) batch(b *batch, full bool) {
	images, bytes := int64(b.items), int64(len(b.buf.Bytes()))
	m.mu.Lock()
	defer m.mu.Unlock()
	m.batches.Decoded++
	if b.key.Part.HasImages() {
		m.images += images
		s := m.epoch(b.key.Epoch)
		s.Batches++
		if full {
			s.HitsPerBatch.add(b.hits.Load())
			s.LocalPerBatch.add(b.local.Load())
			s.BytesPerBatch.add(b.bytes.Load())
		}
	} else {
		images = 0
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

// read notes a read, maybe served by the local cache. A sample that is read again was missed once.
func (m *meter) read(epoch int, bytes int64, again, local bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.storage.Reads++
	m.storage.Bytes += bytes
	s := m.epoch(epoch)
	if !again {
		s.Misses++
	}
	if local {
		s.LocalHits++
	}
	s.StorageBytes += bytes
}

// readBeside notes a read of a file beside a sample's image.
func (m *meter) readBeside(bytes int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.storage.Reads++
	m.storage.Bytes += bytes
}

func (m *meter) decoded(jpegs JPEGStats) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.jpegs = JPEGStats{m.jpegs.Plus(jpegs.JPEGs), m.jpegs.GPU + jpegs.GPU, m.jpegs.Entries.Plus(jpegs.Entries)}
}

func (m *meter) epoch(epoch int) *EpochStats {
	for i := len(m.epochs) - 1; i >= 0; i-- { // an epoch being read is near the end
		if m.epochs[i].Epoch == epoch {
			return &m.epochs[i]
		}
	}
	if len(m.epochs) == maxEpochStats {
		m.epochs = slices.Delete(m.epochs, 0, 1)
		m.omitted++
	}
	m.epochs = append(m.epochs, EpochStats{Epoch: epoch})
	return &m.epochs[len(m.epochs)-1]
}

// uptime is for how many seconds there has been an engine.
func (m *meter) uptime() float64 { return time.Since(m.start).Seconds() }

func (m *meter) count(change func(*BatchStats)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	change(&m.batches)
}

// stalled reports whether an Open waits for a batch.
func (m *meter) stalled() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.batches.Waiting > 0
}

func (m *meter) snapshot(now time.Time) Stats {
	m.mu.Lock()
	defer m.mu.Unlock()
	up := now.Sub(m.start).Seconds() // m.batches.StallSeconds lacks that of each Open that still waits
	s := Stats{Uptime: up, Images: m.images, Batches: m.batches, Storage: m.storage, JPEGs: m.jpegs, Epochs: append([]EpochStats{}, m.epochs...), EpochsOmitted: m.omitted}
	s.Batches.StallSeconds += up * float64(s.Batches.Waiting)
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
	batches, inputs, scratch := e.memory.pool.Stats().BufferStats, e.memory.inputs.Stats(), e.memory.rest.Stats()
	s.Buffers = []pinned.BufferStats{batches, inputs, scratch}
	slots := int64(e.opts.BatchSize)
	s.Hints = Hints{Batch: (batches.MaxReal + slots - 1) / slots, Input: inputs.MaxReal, Scratch: scratch.MaxReal}
	if d := e.opts.Device; d != nil {
		c := d.Stats()
		s.GPU = e.device.use.stats(d.UUID(), c)
		s.Buffers = append(s.Buffers, pinned.BufferStats{Name: "batch", Kind: pinned.DeviceMemory, Real: c.Real, MaxReal: c.MaxReal,
			Reserved: c.Reserved, MaxReserved: c.MaxReserved, Locked: true})
	}
	s.Plans, s.Forms = e.caches.planner.stats(), e.caches.forms.stats()
	s.Forms.Disk = e.caches.disk.stats()
	s.Storage.Store, s.Storage.Local = e.catalog.Dataset.Requests(), e.catalog.Dataset.LocalCache()
	if e.caches.pages != nil {
		p := e.caches.pages.Stats()
		s.Storage.Pages = &p
	}
	if e.caches.cache != nil {
		c := e.caches.cache.Stats()
		s.Forms.Samples, s.Forms.Grown = c.Packed, c.Grown
		for _, c := range c.Epochs {
			if i := slices.IndexFunc(s.Epochs, func(e EpochStats) bool { return e.Epoch == c.Epoch }); i >= 0 {
				e := &s.Epochs[i]
				e.Kept, e.KeptBytes, e.NotKept, e.Unplanned = c.Kept, c.KeptBytes, c.NotKept, c.Unplanned
			}
		}
		s.Buffers = append(s.Buffers, pinned.BufferStats{
			Name: "cache", Kind: pinned.HostMemory, Real: c.Real, MaxReal: c.MaxReal, Reserved: c.Reserved, MaxReserved: c.MaxReserved,
		})
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	s.Batches.Making = e.schedule.count()
	s.Batches.Streams, s.Batches.Ahead = e.streams.Count()
	s.Shards = []ShardStats{}
	for _, k := range e.streams.Places() {
		s.Shards = append(s.Shards, ShardStats{k.Shard, k.Epoch, k.Batch})
	}
	return s
}

func (m *memory) stats() MemoryStats {
	l, p := m.ledger, m.pool.Stats()
	l.mu.Lock()
	defer l.mu.Unlock()
	s := MemoryStats{
		Limit: l.limit, Used: l.sum, Peak: l.peak, Batches: l.used[useBatches],
		Cache: l.used[useCache], Pages: l.used[usePages], Index: l.used[useIndex], Scratch: l.used[useScratch], Locked: p.LockedBytes,
	}
	if p.LockError != nil {
		s.LockError = p.LockError.Error()
	}
	if p.ReuseError != nil {
		s.ReuseError = p.ReuseError.Error()
	}
	return s
}
