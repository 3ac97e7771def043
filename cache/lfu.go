package cache

// An lfu counts how often samples are requested, for the policy TinyLFU; in other caches it has
// no counters. Counters are halved from time to time, so that old requests lose their weight.
type lfu struct {
	counters []uint8 // by sample number modulo their number
	asked    int     // requests since the counters were last halved
}

const (
	// countersPerHeld bounds the counters by how many samples the cache can hold: a large
	// dataset must not fill a small cache with them.
	countersPerHeld = 8
	// halveAfter is how many requests for each counter halve all of them.
	halveAfter = 8
	// lfuChoices is how many held samples are compared to find one that gives way.
	lfuChoices = 5
	// lfuMargin is how many more requests a sample needs to take another one's place. In an
	// epoch that reads all samples once, those that it has read are not wanted more.
	lfuMargin = 2
)

func countersFor(p Policy, limit, samples int64) int64 {
	if p != TinyLFU {
		return 0
	}
	return min(samples, countersPerHeld*mostSamples(limit, samples))
}

func (l *lfu) counter(id uint32) *uint8 { return &l.counters[int(id)%len(l.counters)] }

// ask records a request for a sample.
func (l *lfu) ask(id uint32) {
	if len(l.counters) == 0 {
		return
	}
	if n := l.counter(id); *n < 255 {
		*n++
	}
	if l.asked++; l.asked >= halveAfter*len(l.counters) {
		l.asked = 0
		for i := range l.counters {
			l.counters[i] /= 2
		}
	}
}

// colder returns one of the next few held samples that is requested less often than the given
// one; 0 if there is none. The caller holds c.mu.
func (c *Cache) colder(id uint32) (victim uint32) {
	if c.table.held == 0 {
		return 0
	}
	q := &c.table.queues[0] // the only one: nothing waits for an epoch
	least := int(*c.lfu.counter(id)) - lfuMargin + 1
	for range lfuChoices {
		e := &c.table.entries[q.first]
		if n := int(*c.lfu.counter(e.id)); n < least {
			victim, least = q.first, n
		}
		q.first = e.next
	}
	return victim
}
