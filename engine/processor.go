package engine

import (
	"github.com/batchfs/batchfs/decode"
	"github.com/batchfs/batchfs/pinned"
)

// processors are the rights to decode an image, one for each processor of the machine. Workers
// beyond that number overlap their waits for storage, but take no time slices from one another,
// and the memory of decoders does not grow with them.
type processors chan *processor

// A processor has a decoder, and accounts for its memory.
type processor struct {
	decoder *decode.Decoder
	options decode.Options
	account *pinned.Account
	ledger  *ledger
	held    pinned.Use // as the account has it
	charged int64      // the part that the ledger has
}

func newProcessors(n int, o decode.Options, a *pinned.Account, l *ledger) processors {
	all := make(processors, n)
	for range n {
		all <- &processor{decoder: decode.NewDecoder(o), options: o, account: a, ledger: l}
	}
	return all
}

// use waits for a processor and calls f with it. After a panic the decoder's state is unknown, and
// another one takes its place.
func (all processors) use(f func(p *processor) error) error {
	p, returned := <-all, false
	defer func() {
		if !returned {
			p.decoder = decode.NewDecoder(p.options)
		}
		p.settle()
		all <- p
	}()
	err := f(p)
	returned = true
	return err
}

// each calls f with the processors that nobody uses.
func (all processors) each(f func(d *decode.Decoder)) {
	for range cap(all) {
		select {
		case p := <-all:
			f(p.decoder)
			p.settle()
			all <- p
		default:
			return
		}
	}
}

// reserve charges what decoding an image for a batch takes at most. How much of that is kept is
// known when the processor is given back.
func (p *processor) reserve(h decode.Header, b *batch, m *memory) error {
	n := p.decoder.Needs(h)
	err := m.scratch(b, n)
	if err == nil {
		p.charged += n
	}
	return err
}

// settle brings the accounts in line with what the decoder holds between images.
func (p *processor) settle() {
	scratch := p.decoder.ScratchBytes()
	held := pinned.Use{Real: scratch, Reserved: scratch}
	p.account.Change(p.held, held)
	p.held = held
	p.ledger.correct(useScratch, scratch-p.charged)
	p.charged = scratch
}
