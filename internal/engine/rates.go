package engine

import (
	"sync"
	"time"
)

// rates are what an engine measures of itself while it works.
type rates struct {
	mu       sync.Mutex
	drawn    [works]clock
	packed   int64         // samples that were packed
	sizes    [2]int64      // bytes of the packed samples, encoded and packed
	busy     time.Duration // time that drawers worked
	starved  time.Duration // time that drawers waited for storage
	read     int64         // samples that came from storage meanwhile
	unpacked int64         // packed samples that were drawn, since the start
}

// A work is a kind of drawing.
type work uint8

const (
	decoding  work = iota // drawing an encoded sample
	unpacking             // drawing a packed sample
	packing               // drawing an encoded sample, and packing it
	works
)

func (f *fetched) work() work {
	switch {
	case f.packed:
		return unpacking
	case f.packs || f.toDisk:
		return packing
	}
	return decoding
}

// A clock counts what was done, and for how long.
type clock struct {
	n    int64
	time time.Duration
}

func (c *clock) add(n int, took time.Duration) {
	c.n += int64(n)
	c.time += took
}

func (c clock) mean() float64 { return c.time.Seconds() / float64(c.n) }

const (
	leastMeasured = 32  // samples, before a measurement is trusted
	guessedSize   = 1.2 // size of a packed sample, as a multiple of the encoded
	guessedTime   = 0.5 // time of drawing a packed sample, and of packing one, as a multiple of the time that drawing an encoded one takes

	// If drawers wait for storage less than this share of their time, storage could do more.
	littleWaiting = 0.05
)

// drew notes that samples were drawn. They are measured only if all took the same work.
func (r *rates) drew(hands []*load, took time.Duration) {
	of := hands[0].sample.work()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.busy += took
	if hands[len(hands)-1].sample.work() == of {
		r.drawn[of].add(len(hands), took)
	}
	if of == unpacking { // never in pairs
		r.unpacked++
	}
}

// drawnPacked counts the packed samples that were drawn.
func (r *rates) drawnPacked() int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.unpacked
}

// wasPacked notes the sizes of a sample that was packed.
func (r *rates) wasPacked(encoded, packed int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.packed++
	r.sizes[0] += int64(encoded)
	r.sizes[1] += int64(packed)
}

// waited notes that a drawer had nothing to do while samples were on their way from storage.
func (r *rates) waited(d time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.starved += d
}

// wasRead notes a sample that came from storage.
func (r *rates) wasRead() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.read++
}

// mostSlower is how much longer drawing may take because samples are packed.
const mostSlower = 0.25

// affords says whether one more sample may be packed: in time that drawers wait for storage anyway,
// or if drawing then takes at most mostSlower longer than with encoded samples. Encoded samples may
// have entry points, which packing does not use.
func (r *rates) affords() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	plain, packed := r.drawn[decoding], r.drawn[packing]
	if plain.n < leastMeasured {
		return packed.n <= plain.n
	}
	all := plain.n + packed.n + r.drawn[unpacking].n
	took := packed.time.Seconds() - float64(packed.n)*plain.mean()
	return took <= mostSlower*float64(all)*plain.mean()+r.starved.Seconds()
}

// larger is the size of a packed sample as a multiple of the encoded, measured or guessed.
func (r *rates) larger() float64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.packed < leastMeasured {
		return guessedSize
	}
	return float64(r.sizes[1]) / float64(r.sizes[0])
}

// measured is what a mount knows about its speed.
type measured struct {
	encoded, packed float64 // seconds that drawing a sample takes
	packing         float64 // additional seconds that packing it takes
	larger          float64 // the size of a packed sample, as a multiple of the encoded
	reading         float64 // seconds of the storage, per sample that is read; 0: none
	storage         float64 // the same, per sample that is drawn
	known           bool    // reading and encoded are not guessed
	guessed         bool    // some of the other values are guessed
}

// measure sums up the measurements, and may forget half of them. That many drawers did the work;
// free says that reads take no time.
func (r *rates) measure(drawers float64, free, forget bool) (m measured) {
	m.larger = r.larger()
	r.mu.Lock()
	defer r.mu.Unlock()
	if forget {
		defer r.forget()
	}
	if r.drawn[decoding].n < leastMeasured {
		return m
	}
	m.known, m.encoded = true, r.drawn[decoding].mean()
	m.guessed = min(r.packed, r.drawn[unpacking].n) < leastMeasured
	m.packed, m.packing = guessedTime*m.encoded, guessedTime*m.encoded
	if r.drawn[unpacking].n >= leastMeasured {
		m.packed = r.drawn[unpacking].mean()
	}
	if r.drawn[packing].n >= leastMeasured {
		m.packing = max(0, r.drawn[packing].mean()-m.encoded)
	}
	if r.read > 0 && !free {
		all := r.starved + r.busy
		m.reading = all.Seconds() / drawers / float64(r.read)
		if r.starved.Seconds() < littleWaiting*all.Seconds() {
			m.reading /= 2 // or less: this is measured again when more is packed
		}
		m.storage = m.reading * float64(r.read) / float64(r.drawn[decoding].n+r.drawn[unpacking].n+r.drawn[packing].n)
	}
	return m
}

// forget forgets half of what was measured, so that later measurements count for more. Work that is
// not done any more becomes unknown in the end, and is tried again. Only decoding stays known,
// since everything else depends on it.
func (r *rates) forget() {
	for i := range r.drawn {
		if c := &r.drawn[i]; i != int(decoding) || c.n >= 2*leastMeasured {
			c.n, c.time = c.n/2, c.time/2
		}
	}
	r.busy, r.starved, r.read = r.busy/2, r.starved/2, r.read/2
}
