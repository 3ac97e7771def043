package engine

import (
	"github.com/batchfs/batchfs/decode"
	"github.com/batchfs/batchfs/pinned"
)

// processors are the rights to decode an image, one for each processor of the machine. Workers
// beyond that number overlap their waits for storage, but take no time slices from one another,
// and the memory of decoders does not grow with them.
type processors chan *processor

// A processor has two decoders, the second one for the second image of a pair, and accounts for their memory.
type processor struct {
	decoders [2]*decode.Decoder
	options  decode.Options
	account  *pinned.Account
	ledger   *ledger
	held     pinned.Use // as the account has it
	charged  int64      // the part that the ledger has
}

func (p *processor) equip() {
	p.decoders = [2]*decode.Decoder{decode.NewDecoder(p.options), decode.NewDecoder(p.options)}
}

func newProcessors(n int, o decode.Options, a *pinned.Account, l *ledger) processors {
	all := make(processors, n)
	for range n {
		p := &processor{options: o, account: a, ledger: l}
		p.equip()
		all <- p
	}
	return all
}

// use waits for a processor and calls f with it. After a panic the decoders' state is
// unknown, and others take their place.
func (all processors) use(f func(p *processor) error) error {
	p, returned := <-all, false
	defer func() {
		if !returned {
			p.equip()
		}
		p.settle()
		all <- p
	}()
	err := f(p)
	returned = true
	return err
}

// each calls f with the decoders that nobody uses.
func (all processors) each(f func(d *decode.Decoder)) {
	for range cap(all) {
		select {
		case p := <-all:
			f(p.decoders[0])
			f(p.decoders[1])
			p.settle()
			all <- p
		default:
			return
		}
	}
}

// reserve charges what decoding a worker's image by one of the decoders takes at most. How much of that is kept
// is known when the processor is given back.
func (p *processor) reserve(decoder int, w *worker) error {
	n := p.decoders[decoder].Needs(w.sample.head)
	err := w.room(n)
	if err == nil {
		p.charged += n
	}
	return err
}

// settle brings the accounts in line with what the decoders hold between images.
func (p *processor) settle() {
	scratch := p.decoders[0].ScratchBytes() + p.decoders[1].ScratchBytes()
	held := pinned.Use{Real: scratch, Reserved: scratch}
	p.account.Change(p.held, held)
	p.held = held
	p.ledger.correct(useScratch, scratch-p.charged)
	p.charged = scratch
}
