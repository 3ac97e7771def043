package engine

import (
	"bytes"
	"context"
	"errors"
	"sync/atomic"
	"testing"

	"github.com/batchfs/batchfs/decode"
	"github.com/batchfs/batchfs/internal/dataset"
	"github.com/batchfs/batchfs/internal/testkit"
	"github.com/batchfs/batchfs/layout"
)

// cutLoader loads the first half of each sample.
type cutLoader struct{ loader }

func (l cutLoader) Load(ctx context.Context, epoch int, id int64, whole bool, grow func(int) []byte) ([]byte, int64, dataset.Identity, error) {
	data, read, seen, err := l.loader.Load(ctx, epoch, id, whole, grow)
	return data[:len(data)/2], read, seen, err
}

// loaded is a load with the next sample of the most important batch.
func loaded(t *testing.T, e *Engine, wrap func(loader) loader) *load {
	t.Helper()
	e.batches.mu.Lock()
	b := e.batches.schedule.nextForGPU()
	if b == nil {
		t.Fatal("nothing to claim")
	}
	l := e.batches.flow.claimSlot(b)
	e.batches.mu.Unlock()
	if wrap != nil {
		real := l.loader
		defer func() { l.loader = real }()
		l.loader = wrap(l.loader)
	}
	testkit.Must(t, l.fetch())
	return l
}

func cut(l loader) loader { return cutLoader{l} }

// drawTogether has a drawer draw samples, and waits for the result.
func drawTogether(e *Engine, d *drawer, hands ...*load) {
	d.draw(hands)
	for _, l := range hands {
		l.ended(l.sample.drawErr)
	}
	e.batches.wait.Wait()
}

// TestSamplesThatGoTogether: when two samples are drawn together, of one batch or of two, each has
// its own bytes or its own error, also at a reduced scale.
func TestSamplesThatGoTogether(t *testing.T) {
	for _, change := range []func(*Options){func(*Options) {}, shrunk} {
		goTogether(t, change)
	}
}

func goTogether(t *testing.T, change func(*Options)) {
	whole := start(t, jpegDir(t, 8), inPairs, func(o *Options) { o.BatchSize = 8 }, change)
	for _, oneBatch := range []bool{true, false} {
		for bad := -1; bad < 2; bad++ {
			e, b := handEngine(t, change)
			batches, keys := [2]*batch{b, b}, [2]Key{}
			var hands [2]*load
			for i := range hands {
				if i > 0 && !oneBatch {
					e.batches.mu.Lock()
					b.todo = nil
					e.batches.mu.Unlock()
					keys[1] = Key{Epoch: 1}
					e.ask(keys[1])
					batches[1] = own(t, e)
				}
				wrap := cut
				if i != bad {
					wrap = nil
				}
				hands[i] = loaded(t, e, wrap)
			}
			if !hands[0].pairable() || !hands[1].pairable() {
				t.Error("they do not go together")
			}
			slots := [2]int{hands[0].item.slot, hands[1].item.slot}
			drawTogether(e, e.flow.drawers[0], hands[:]...)
			for i, b := range batches {
				slot := b.slotBytes(slots[i])
				want := read(t, whole, keys[i], layout.NHWCForm)[slots[i]*len(slot):][:len(slot)]
				switch {
				case i == bad && b.bad == nil:
					t.Errorf("one batch: %t: the bad sample %d is not found", oneBatch, i)
				case i != bad && !bytes.Equal(slot, want):
					t.Errorf("one batch: %t, %d is bad: other bytes in slot %d", oneBatch, bad, slots[i])
				case b.inFlight+b.writers != 0:
					t.Errorf("one batch: %t: %d in flight, %d writers", oneBatch, b.inFlight, b.writers)
				}
			}
		}
	}
}

// TestPanicWhileDrawing: a panic costs only the batch of the sample that causes it. The decoders
// are replaced, and no memory stays charged.
func TestPanicWhileDrawing(t *testing.T) {
	for panics := range 2 {
		e, first := handEngine(t)
		one := loaded(t, e, nil)
		e.batches.mu.Lock()
		rest := first.todo
		first.todo = nil
		e.batches.mu.Unlock()
		e.ask(Key{Epoch: 1})
		batches := [2]*batch{first, own(t, e)}
		two := loaded(t, e, nil)
		first.todo = rest
		d := e.flow.drawers[0]
		before := d.decoders
		batches[panics].pixels = nil
		drawTogether(e, d, one, two)
		for i, b := range batches {
			if failed := i == panics; failed && !errors.Is(b.err, ErrMachine) || !failed && (b.finished != 1 || b.inFlight+b.writers != 0) {
				t.Errorf("%d panics: batch %d: %d finished, %v", panics, i, b.finished, b.err)
			}
		}
		if d.decoders == before {
			t.Error("the decoders that panicked are still in use")
		}
	}
}

// TestUnwantedSamplesAreNotDecoded: a sample that waits for a drawer is not decoded once its batch
// is dropped, or the engine closes.
func TestUnwantedSamplesAreNotDecoded(t *testing.T) {
	for _, closes := range []bool{false, true} {
		e, b := handEngine(t)
		one, two := loaded(t, e, nil), loaded(t, e, nil)
		e.batches.mu.Lock()
		b.refs, b.waiting = 0, 0
		if closes {
			e.batches.closed = true
		} else {
			e.discard(b)
		}
		e.batches.mu.Unlock()
		drawTogether(e, e.flow.drawers[0], one, two)
		if s := e.Stats(); s.JPEGs.All() != 0 || b.writers != 0 || !closes && b.buf != nil {
			t.Errorf("closing: %t: %d samples were decoded, memory is kept: %t, %d writers", closes, s.JPEGs.All(), b.buf != nil, b.writers)
		}
		e.batches.mu.Lock()
		e.batches.closed = false // so that Close frees everything
		e.batches.mu.Unlock()
	}
}

// handEngine returns an engine without goroutines that decodes JPEGs in pairs, and a batch of 8 in
// the making.
func handEngine(t *testing.T, change ...func(*Options)) (*Engine, *batch) {
	t.Helper()
	alone := func(o *Options) { o.BatchSize, o.PrefetchDepth, o.Anonymous, o.IdleAfter = 8, 0, true, defaultIdle }
	e := built(t, jpegDir(t, 8), append([]func(*Options){inPairs, alone}, change...)...)
	if !e.opts.Decoding.Pairs(decode.Header{Format: decode.JPEG}) {
		t.Skip("this build's decoder decodes no pairs")
	}
	e.flow.onlyGPU = true // the test loads and draws
	e.ask(Key{})
	return e, own(t, e)
}

// TestAllLoadsRead: some storage answers only once all loads that there may be wait for it, far
// ahead of the batch that an Open wants. Such loads begin, and the memory limit holds.
func TestAllLoadsRead(t *testing.T) {
	const loads, batch = 8, 4
	dir := jpegDir(t, 2*loads)
	var waiting atomic.Int32
	all := make(chan struct{})
	e := startFaulty(t, dir, func(int64) error {
		if waiting.Add(1) == loads {
			close(all)
		}
		<-all
		return nil
	}, func(o *Options) {
		o.BatchSize, o.Epochs, o.Workers, o.Loads = batch, 1, 2, loads
		o.PrefetchDepth, o.BatchWorkers = loads/batch, loads/batch
	})
	read(t, e, Key{}, layout.NHWCForm)
	if s := e.Stats().Memory; s.Peak > s.Limit {
		t.Errorf("%d bytes of memory at most, of %d", s.Peak, s.Limit)
	}
}
