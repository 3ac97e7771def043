package engine

import (
	"math"
	"testing"

	"github.com/batchfs/batchfs/decode"
	"github.com/batchfs/batchfs/pinned"
)

// TestProcessorPanics: after a panic, a processor that was in use is there again, with another
// decoder, and no memory stays charged for the one that is gone.
func TestProcessorPanics(t *testing.T) {
	l := newLedger(math.MaxInt64)
	all := newProcessors(1, decode.Options{}, pinned.NewAccount("scratch"), l)
	var before *decode.Decoder
	func() {
		defer func() { _ = recover() }()
		_ = all.use(func(p *processor) error {
			before = p.decoders[0]
			p.charged += 10
			l.force(useScratch, 10)
			panic("a bug in a codec")
		})
	}()
	_ = all.use(func(p *processor) error {
		if p.decoders[0] == before {
			t.Error("the decoder that panicked is still in use")
		}
		return nil
	})
	if used, _ := l.usage(useScratch); used != 0 {
		t.Errorf("%d bytes are charged", used)
	}
	all.each((*decode.Decoder).Close)
}
