package engine

import (
	"bytes"
	"context"
	"slices"
	"testing"
	"time"

	"github.com/batchfs/batchfs/dataset"
	"github.com/batchfs/batchfs/engine/affinity"
	"github.com/batchfs/batchfs/layout"
)

// TestCrewAdapts: there is one more worker for each sample that a processor has waited for, up to the limit, and one less
// for many that found too many others waiting, down to the least number.
func TestCrewAdapts(t *testing.T) {
	const limit, processors = 300, 2
	started := 0
	c := &crew{size: firstRemote, limit: limit, most: limit, start: func(affinity.Set) { started++ }}
	for range 2 * limit {
		c.adapt(processors, 0, true)
	}
	if c.size != limit || started != limit-firstRemote {
		t.Errorf("%d workers, %d of them started; at most %d", c.size, started, limit)
	}
	for range 10 * manyExcess {
		c.adapt(processors, processors*enoughReady, false)
	}
	if c.size != limit {
		t.Errorf("%d workers where just enough samples wait", c.size)
	}
	for range 10 * manyExcess {
		c.adapt(processors, processors*enoughReady+1, false)
	}
	if c.size != limit-10 {
		t.Errorf("%d workers after %d samples too many", c.size, 10*manyExcess)
	}
	for range limit * manyExcess {
		c.adapt(processors, limit, false)
	}
	if c.size != leastRemote {
		t.Errorf("%d workers in the end", c.size)
	}
}

// TestCrewAdaptsBesideReadsThatHang: with those that stand in for workers whose reads hang, there are never more than the most.
func TestCrewAdaptsBesideReadsThatHang(t *testing.T) {
	c := &crew{size: 20, limit: 40, most: 50}
	c.start = func(affinity.Set) { c.workers = append(c.workers, &worker{}) }
	for range c.size + 15 {
		c.start(nil)
	}
	c.stalled.Store(15)
	for range 2 * c.limit {
		c.adapt(2, 0, true)
	}
	if len(c.workers) != c.most || c.surplus() != 0 {
		t.Errorf("%d workers, at most %d; %d too many", len(c.workers), c.most, c.surplus())
	}
}

// cutLoader loads the first half of each sample.
type cutLoader struct{ loader }

func (l cutLoader) Load(ctx context.Context, epoch int, id int64, whole bool, grow func(int) []byte) ([]byte, int64, dataset.Identity, error) {
	data, read, seen, err := l.loader.Load(ctx, epoch, id, whole, grow)
	return data[:len(data)/2], read, seen, err
}

// TestWaitingSamplesGoTogether: samples that two workers wait with are drawn by one of them, and each has its own bytes or
// its own error.
func TestWaitingSamplesGoTogether(t *testing.T) {
	for _, bad := range []int{-1, 0, 1} {
		e, w, b := handWorker(t)
		want := read(t, start(t, jpegDir(t, 8), inPairs, func(o *Options) { o.BatchSize = 8 }), Key{}, layout.NHWCForm)
		workers := []*worker{w, newWorker(e.batches, nil)}
		w.hands = w.hands[:1]
		t.Cleanup(workers[1].free)
		if _, ok := e.claim(workers[1]); !ok {
			t.Fatal("nothing to claim")
		}
		var uses []int
		all := e.schedule.processors
		all.took = func(_ time.Time, samples int) { uses = append(uses, samples) }
		p := <-all.free
		done := make(chan struct{})
		for i, w := range workers {
			if i == bad {
				w.loader = cutLoader{w.loader}
			}
			go func() { w.make(); done <- struct{}{} }()
		}
		eventually(t, "both wait", func() bool {
			all.mu.Lock()
			defer all.mu.Unlock()
			return len(all.waiting) == 2
		})
		all.free <- p
		<-done
		<-done
		drawn := 2
		if bad >= 0 {
			drawn = 1
		}
		if !slices.Equal(uses, []int{drawn}) || b.finished != 2 || b.inFlight != 0 || (b.bad != nil) != (bad >= 0) {
			t.Errorf("sample %d is bad: drawn %v, %d finished, %d in flight, error %v", bad, uses, b.finished, b.inFlight, b.bad)
		}
		for i, w := range workers {
			slot := b.slotBytes(w.item.slot)
			if i != bad && !bytes.Equal(slot, want[w.item.slot*len(slot):][:len(slot)]) {
				t.Errorf("sample %d is bad: other bytes in slot %d", bad, w.item.slot)
			}
		}
		if n := all.ready.Load(); n != 0 || len(all.waiting) != 0 {
			t.Errorf("%d and %d wait", n, len(all.waiting))
		}
	}
}

// TestUnwantedSamplesAreNotDecoded: what waits for a processor is not decoded once its batch was dropped, or the engine closes.
func TestUnwantedSamplesAreNotDecoded(t *testing.T) {
	for _, closes := range []bool{false, true} {
		e, w, b := handWorker(t)
		workers := []*worker{w, newWorker(e.batches, nil), newWorker(e.batches, nil)}
		w.hands = w.hands[:1]
		for _, w := range workers[1:] {
			t.Cleanup(w.free)
			if _, ok := e.claim(w); !ok {
				t.Fatal("nothing to claim")
			}
		}
		all := e.schedule.processors
		drawn := 0
		all.took = func(_ time.Time, samples int) { drawn += samples }
		p := <-all.free
		done := make(chan struct{})
		for _, w := range workers {
			go func() { w.make(); done <- struct{}{} }()
		}
		eventually(t, "all wait", func() bool { return all.ready.Load() == 3 })
		e.batches.mu.Lock()
		b.refs, b.waiting = 0, 0
		if closes {
			e.batches.closed = true
		} else {
			e.discard(b)
		}
		e.batches.mu.Unlock()
		all.free <- p
		for range workers {
			<-done
		}
		if drawn != 0 || b.buf != nil || b.writers != 0 {
			t.Errorf("closing: %t: %d samples were decoded, memory is kept: %t, %d writers", closes, drawn, b.buf != nil, b.writers)
		}
		e.batches.mu.Lock()
		e.batches.closed = false // so that Close frees everything
		e.batches.mu.Unlock()
	}
}
