package engine

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/batchfs/batchfs/decode"
	"github.com/batchfs/batchfs/decode/resample"
	"github.com/batchfs/batchfs/layout"
)

// inPairs is for engines with one worker, so that it alone can have two slots.
func inPairs(o *Options) { o.Workers, o.Decoding.Kernel = 1, decode.Portable }

// pairingEngine starts an engine that decodes JPEGs in pairs. It calls fault before each read, and tells whether that
// is the read of a second sample.
func pairingEngine(t *testing.T, dir string, fault func(id int64, second bool) error, change ...func(*Options)) (e *Engine) {
	t.Helper()
	if !slices.Contains(decode.Kernels(), decode.Portable) {
		t.Skip("this build's decoder decodes no pairs")
	}
	return startFaulty(t, dir, func(id int64) error {
		return fault(id, e.locked(func() bool {
			return slices.ContainsFunc(e.schedule.making, func(b *batch) bool { return b.inFlight == 2 })
		}))
	}, append([]func(*Options){inPairs}, change...)...)
}

// outcome is what readers see of all batches.
func outcome(t *testing.T, e *Engine) (all []string) {
	for _, k := range allKeys(e) {
		f, err := e.Open(t.Context(), k, layout.NHWCForm)
		if err != nil {
			all = append(all, err.Error())
			continue
		}
		all = append(all, string(f.Bytes()))
		f.Close()
		if e.catalog.Options.OnError != Fail {
			all = append(all, fmt.Sprint(samplesOf(t, e, k)))
		}
	}
	return all
}

// TestPairsMakeTheSameBytes: of whole images and of crops, in their batches' own memory and through scratch memory,
// also where some files are damaged or gone, under every policy.
func TestPairsMakeTheSameBytes(t *testing.T) {
	const n = 14
	files := os.DirFS(jpegDir(t, n))
	name := func(dir string, i int) string { return filepath.Join(dir, fmt.Sprintf("%02d.jpg", i)) }
	for _, bad := range [][]int{nil, {0}, {1}, {0, 1}, {2, 5, 8, 9}} {
		for _, gone := range []bool{false, true} {
			for _, policy := range []OnError{Fail, Zero, Replace} {
				for _, mode := range []resample.Mode{resample.None, resample.RandomResizedCrop} {
					if gone && bad == nil {
						continue
					}
					dir := t.TempDir()
					if err := os.CopyFS(dir, files); err != nil {
						t.Fatal(err)
					}
					for _, i := range bad {
						damage(t, name(dir, i))
					}
					change := func(o *Options) {
						o.OnError, o.Transform.Mode, o.PrefetchDepth, o.Epochs = policy, mode, 0, 2
						o.Transform.CropArea, o.Transform.CropRatio = resample.DefaultCropArea, resample.DefaultCropRatio
						if mode != resample.None {
							large(o)
						}
					}
					remove := func() {
						for _, i := range bad {
							if gone {
								_ = os.Remove(name(dir, i))
							}
						}
					}
					var seconds atomic.Int32
					e := pairingEngine(t, dir, func(_ int64, second bool) error {
						if second {
							seconds.Add(1)
						}
						return nil
					}, change)
					turbo := start(t, dir, change, func(o *Options) { o.Workers, o.Decoding.Kernel = 1, decode.LibJPEG })
					remove()
					if got, want := outcome(t, e), outcome(t, turbo); !slices.Equal(got, want) {
						t.Errorf("%v are bad, gone %t, %s, %s: other bytes, samples or errors", bad, gone, policy, mode)
					}
					if seconds.Load() == 0 {
						t.Error("there were no pairs")
					}
				}
			}
		}
	}
}

// TestPanicInAPair costs one Open, whichever of the two samples causes it.
func TestPanicInAPair(t *testing.T) {
	for _, in := range []bool{false, true} {
		var panics atomic.Int32
		e := pairingEngine(t, jpegDir(t, 8), func(_ int64, second bool) error {
			if second == in && panics.Add(1) == 1 {
				panic("a bug")
			}
			return nil
		}, func(o *Options) { o.PrefetchDepth = 0 })
		if _, err := e.Open(t.Context(), Key{}, layout.NHWCForm); !errors.Is(err, ErrMachine) {
			t.Errorf("the open says %v", err)
		}
		read(t, e, Key{}, layout.NHWCForm)
	}
}

// TestSecondReadHangs: another worker stands in, other batches go on, and in the end the batch is made.
func TestSecondReadHangs(t *testing.T) {
	gate := make(chan struct{})
	e := pairingEngine(t, jpegDir(t, 12), func(id int64, second bool) error {
		if second && id < 4 {
			<-gate
		}
		return nil
	}, func(o *Options) { o.PrefetchDepth = 0 })
	want := read(t, start(t, jpegDir(t, 12)), Key{}, layout.NHWCForm)
	got := make(chan []byte, 1)
	go func() { got <- read(t, e, Key{}, layout.NHWCForm) }()
	eventually(t, "the read hangs", func() bool { return e.batches.crew.stalled.Load() == 1 })
	read(t, e, Key{Batch: 1}, layout.NHWCForm)
	close(gate)
	if !bytes.Equal(<-got, want) {
		t.Error("other bytes")
	}
	eventually(t, "the worker without a mate has ended", func() bool {
		return e.locked(func() bool { w := e.batches.crew.workers; return len(w) == 1 && len(w[0].hands) == 2 })
	})
}

// handWorker returns an engine without goroutines, a worker that has claimed a slot of a batch of 8 JPEGs, and that batch.
func handWorker(t *testing.T, change ...func(*Options)) (*Engine, *worker, *batch) {
	t.Helper()
	o := testOptions()
	inPairs(&o)
	o.BatchSize, o.PrefetchDepth, o.Anonymous, o.IdleAfter = 8, 0, true, defaultIdle
	for _, f := range change {
		f(&o)
	}
	if !o.Decoding.Pairs(decode.Header{Format: decode.JPEG}) || !slices.Contains(decode.Kernels(), decode.Portable) {
		t.Skip("this build's decoder decodes no pairs")
	}
	e, err := build(openDataset(t, jpegDir(t, 8)), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { e.Close() })
	e.batches.schedule.processors = e.newProcessors(1)
	w := newWorker(e.batches, nil)
	w.addMate()
	t.Cleanup(w.free)
	e.ask(Key{})
	b := own(t, e)
	if _, ok := e.claim(w); !ok {
		t.Fatal("nothing to claim")
	}
	return e, w, b
}

// TestSamplesOfTwoWorkers: those that wait for a processor are decoded together, also if they are of different batches. A panic
// costs the batch of the sample that causes it, and not the other one.
func TestSamplesOfTwoWorkers(t *testing.T) {
	for panics := range 3 {
		e, first, b := handWorker(t)
		first.hands = first.hands[:1]
		e.ask(Key{Epoch: 1})
		other, all, second := own(t, e), e.schedule.processors, newWorker(e.batches, nil)
		t.Cleanup(second.free)
		var drawn []int
		all.took = func(_ time.Time, samples int) { drawn = append(drawn, samples) }
		e.batches.mu.Lock()
		second.take(other)
		e.batches.mu.Unlock()
		batches := []*batch{b, other}
		if panics > 0 {
			batches[panics-1].pixels = nil
		}
		p := <-all.free
		var wait sync.WaitGroup
		for i, w := range []*worker{first, second} {
			wait.Go(w.make)
			eventually(t, "it waits", func() bool {
				all.mu.Lock()
				defer all.mu.Unlock()
				return len(all.waiting) == i+1
			})
		}
		all.free <- p
		wait.Wait()
		if want := 2 - min(panics, 1); !slices.Equal(drawn, []int{want}) {
			t.Errorf("%d: samples were drawn in turns of %v", panics, drawn)
		}
		for i, b := range batches {
			switch failed := i == panics-1; {
			case failed && !errors.Is(b.err, ErrMachine), !failed && (b.finished != 1 || b.inFlight != 0 || b.writers != 0):
				t.Errorf("%d: batch %d: %d finished, %v", panics, i, b.finished, b.err)
			case !failed && bytes.Count(b.slotBytes(int(b.order[0])), []byte{0}) == len(b.slotBytes(0)):
				t.Errorf("%d: batch %d has no pixels", panics, i)
			}
		}
	}
}

// TestNoMemoryForASecondSample, wherever it is asked for: the first is decoded alone, nothing gives way, and the slot is
// handed out again.
func TestNoMemoryForASecondSample(t *testing.T) {
	for _, decoder := range []bool{false, true} {
		e, w, b := handWorker(t)
		w.make() // the buffers for both
		w.chargeActual()
		if b.finished != 2 || len(b.todo) != 6 {
			t.Fatalf("%d finished, %d to do", b.finished, len(b.todo))
		}
		mate, ledger := w.hands[1], e.memory.ledger
		if !decoder {
			mate.giveBack()
		}
		p := <-e.schedule.processors.free // the first image's decoder needs so much
		p.decoders[1].Trim()
		p.settle()
		needs := p.decoders[0].Needs(mate.sample.head)
		e.schedule.processors.free <- p
		if _, ok := e.claim(w); !ok {
			t.Fatal("nothing to claim")
		}
		ledger.mu.Lock()
		limit := ledger.limit
		ledger.limit = ledger.sum + needs
		ledger.mu.Unlock()
		if grow := mate.growInput; !decoder {
			mate.growInput = func(n int) []byte {
				defer ledger.setLimit(ledger.sum + needs)
				ledger.setLimit(ledger.sum)
				return grow(n)
			}
		}
		w.make()
		if b.state != making || b.refused || b.finished != 3 || b.inFlight != 0 || len(b.todo) != 5 || w.lone != b {
			t.Errorf("%d, refused %t, %d finished, %d in flight, %d to do", b.state, b.refused, b.finished, b.inFlight, len(b.todo))
		}
		if n := mate.input.Bytes(); n > 0 {
			t.Errorf("its %d bytes were not given back", n)
		}
		ledger.setLimit(limit)
		for range 5 {
			if _, ok := e.claim(w); !ok {
				t.Fatal("nothing to claim")
			}
			w.make()
		}
		if b.state != complete {
			t.Errorf("%d finished", b.finished)
		}
	}
}

// TestFirstSampleGoesFirst: nothing gives way for the first sample of a pair as long as it only lacks what the second one takes.
func TestFirstSampleGoesFirst(t *testing.T) {
	e, w, b := handWorker(t, tiny)
	e.ask(Key{Epoch: 1}).refs = 0
	foreseen := own(t, e)
	w.make() // the buffers for both
	mate := w.hands[1]
	p := <-e.schedule.processors.free
	p.pixels[1].Free()
	p.decoders[0].Trim()
	p.settle()
	needs := p.decoders[0].Needs(mate.sample.head)
	e.schedule.processors.free <- p
	w.chargeActual()
	leave(e, max(needs, p.pixels[1].Plan(mate.sample.job.Memory)))
	if _, ok := e.claim(w); !ok {
		t.Fatal("nothing to claim")
	}
	w.make()
	if b.finished != 3 || w.lone != b || foreseen.buf == nil {
		t.Errorf("%d finished, alone %t, a prefetched batch gave way %t", b.finished, w.lone == b, foreseen.buf == nil)
	}
}

// TestPairOfADroppedBatch: what is in flight is discarded, and its memory is free afterwards.
func TestPairOfADroppedBatch(t *testing.T) {
	e, w, b := handWorker(t)
	mate := w.hands[1]
	mate.loader = faultyLoader{mate.loader, func(int64) error {
		e.batches.mu.Lock()
		defer e.batches.mu.Unlock()
		b.refs, b.waiting = 0, 0
		e.discard(b)
		return nil
	}}
	w.make()
	if mate.item.b != b || b.state != failed || b.buf != nil || b.finished+b.inFlight+b.writers != 0 {
		t.Errorf("state %d, %d finished, %d in flight, %d writers", b.state, b.finished, b.inFlight, b.writers)
	}
}

// TestPairsLeaveSlotsToOthers: nobody takes a second slot where other workers would lack one, or while storage hangs.
func TestPairsLeaveSlotsToOthers(t *testing.T) {
	e, w, b := handWorker(t)
	e.batches.crew.size = 4
	e.batches.schedule.processors = &processors{free: make(chan *processor, 3)}
	for left, want := range []bool{false, false, false, true} {
		e.batches.mu.Lock()
		b.todo = b.order[8-left:]
		e.batches.mu.Unlock()
		if got := e.claimBeside(w); got != want {
			t.Errorf("with %d slots left for 3 processors: %t", left, got)
		}
	}
	b.todo = b.order[1:]
	e.batches.crew.stalled.Store(1)
	if e.claimBeside(w) {
		t.Error("a second slot is claimed while a read hangs")
	}
	e.batches.crew.stalled.Store(0)
	e.batches.schedule.processors = e.newProcessors(1)
}
