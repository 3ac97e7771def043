package store

import (
	"math/bits"
	"sync"
	"sync/atomic"
	"time"
)

// Stats are counts since a store was opened.
type Stats struct {
	Requests  int64       `json:"requests"`  // sent, with retries and hedges
	Bytes     int64       `json:"bytes"`     // of objects, received
	Retries   int64       `json:"retries"`   // requests sent again after a failure
	Hedges    int64       `json:"hedges"`    // second requests, sent because the first one was slow
	Throttled int64       `json:"throttled"` // answers that ask for fewer requests: 429 and 503
	Errors    int64       `json:"errors"`    // calls that finally failed, except for objects that do not exist
	Waiting   int         `json:"waiting"`   // calls that wait now during an outage
	Away      float64     `json:"away"`      // seconds of outages
	Limit     float64     `json:"limit"`     // requests per second that it accepts, if known; 0: it has refused none for a minute
	FirstByte Percentiles `json:"first_byte"`
}

// Add makes the counts the sums for two stores, and the percentiles those of the slower one. Away
// becomes the longer one, and Limit the lower one.
func (s *Stats) Add(t Stats) {
	s.Requests, s.Bytes, s.Retries = s.Requests+t.Requests, s.Bytes+t.Bytes, s.Retries+t.Retries
	s.Hedges, s.Throttled, s.Errors = s.Hedges+t.Hedges, s.Throttled+t.Throttled, s.Errors+t.Errors
	s.Waiting, s.Away = s.Waiting+t.Waiting, max(s.Away, t.Away)
	if s.Limit == 0 || t.Limit > 0 && t.Limit < s.Limit {
		s.Limit = t.Limit
	}
	if t.FirstByte.P50 > s.FirstByte.P50 {
		s.FirstByte = t.FirstByte
	}
}

// Percentiles are of the time from a request to the first byte of its answer, in seconds, over the
// last requests (up to 8,192), to within 7 %. All are 0 before the first answer.
type Percentiles struct {
	P50 float64 `json:"p50"`
	P90 float64 `json:"p90"`
	P99 float64 `json:"p99"`
}

// counters are those of Stats.
type counters struct {
	requests, bytes, retries, hedges, throttled, errors atomic.Int64
}

// latencies is a histogram of recent times to the first byte: eight buckets for each power of two
// of nanoseconds. When it is full, all counts are halved, so that old ones fade.
type latencies struct {
	slow atomic.Int64 // p95, in ns; 0 while there are too few

	mu      sync.Mutex
	total   int
	buckets [8 * 40]uint16
}

const (
	fullHistogram = 8192
	fewLatencies  = 128 // with fewer, percentiles are mostly chance
)

func (l *latencies) add(d time.Duration) {
	n := max(uint64(d), 8)
	shift := bits.Len64(n) - 4
	bucket := min(shift*8+int(n>>shift)-8, len(l.buckets)-1)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.buckets[bucket]++
	l.total++
	if l.total == fullHistogram {
		l.total = 0
		for i := range l.buckets {
			l.buckets[i] /= 2
			l.total += int(l.buckets[i])
		}
	}
	if l.total >= fewLatencies && l.total%64 == 0 {
		l.slow.Store(int64(l.percentile(95)))
	}
}

// percentile returns the middle of the bucket with the p-th percentile. The caller holds the lock.
func (l *latencies) percentile(p int) time.Duration {
	left := (l.total*p + 99) / 100
	for i, n := range l.buckets {
		if left -= int(n); left <= 0 && n > 0 {
			return time.Duration(2*(i%8+8)+1) << (i / 8) / 2
		}
	}
	return 0
}

// Stats implements [Store].
func (c *client) Stats() Stats {
	s := Stats{
		Requests: c.count.requests.Load(), Bytes: c.count.bytes.Load(), Retries: c.count.retries.Load(),
		Hedges: c.count.hedges.Load(), Throttled: c.count.throttled.Load(), Errors: c.count.errors.Load(), Limit: c.pace.limit(),
	}
	now := c.outage.now()
	s.Waiting, s.Away = now.waiting, now.away.Seconds()
	c.latencies.mu.Lock()
	defer c.latencies.mu.Unlock()
	for p, to := range map[int]*float64{50: &s.FirstByte.P50, 90: &s.FirstByte.P90, 99: &s.FirstByte.P99} {
		*to = c.latencies.percentile(p).Seconds()
	}
	return s
}
