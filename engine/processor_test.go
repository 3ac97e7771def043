package engine

import "testing"

// TestProcessorPanics: after a panic, a processor that was in use is there again, with another
// decoder, and no memory stays charged for the one that is gone.
func TestProcessorPanics(t *testing.T) {
	e := unstarted(t, 1)
	l, all := e.memory.ledger, e.newProcessors(1)
	p, w := <-all.free, newWorker(e.batches, nil) // which has no batch
	before := p.decoders[0]
	p.charged += 10
	l.force(useScratch, 10)
	all.use(p, w)
	if w.sample.drawn == nil {
		t.Error("the sample has no error")
	}
	if p = <-all.free; p.decoders[0] == before {
		t.Error("the decoder that panicked is still in use")
	}
	all.free <- p
	if used, _ := l.usage(useScratch); used != 0 {
		t.Errorf("%d bytes are charged", used)
	}
	all.each((*processor).close)
}
