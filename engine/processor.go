package engine

import (
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/batchfs/batchfs/decode"
	"github.com/batchfs/batchfs/layout"
	"github.com/batchfs/batchfs/pinned"
)

// processors are the rights to decode an image, one for each processor of the machine. Workers
// beyond that number overlap their waits for storage, but take no time slices from one another,
// and the memory that decoding takes does not grow with them, nor does that leave the caches.
type processors struct {
	free chan *processor
	took func(began time.Time, samples int) // is told how long a processor was used

	ready atomic.Int32 // workers that wait for a processor

	mu      sync.Mutex
	waiting []*worker // each with one sample that may gain from being decoded together with another one
}

// A processor has two of everything that an image needs until it is in its slot, the second for the second image of
// a pair, and accounts for their memory.
type processor struct {
	decoders [2]*decode.Decoder
	pixels   [2]pinned.Host // decoded pixels, if they differ from what the slot holds, and the resizer's scratch
	writers  [2]*layout.Writer
	options  decode.Options
	account  *pinned.Account // of decoders
	ledger   *ledger
	held     pinned.Use // by decoders, as the account has it
	charged  int64      // the part of all memory that the ledger has
}

func (p *processor) equip() {
	p.decoders = [2]*decode.Decoder{decode.NewDecoder(p.options), decode.NewDecoder(p.options)}
}

func (all *batches) newProcessors(n int) *processors {
	list := &processors{free: make(chan *processor, n), took: all.share.processorTook}
	for range n {
		p := &processor{options: all.opts.Decoding, account: all.rest, ledger: all.memory.ledger}
		p.equip()
		for i := range p.writers {
			p.pixels[i] = pinned.NewHost(all.opts.Memory, all.rest)
			p.writers[i] = layout.NewWriter(all.converter, all.opts.Kernels.Writing)
		}
		list.free <- p
	}
	return list
}

// presize allocates what each image took in an earlier run.
func (p *processor) presize(bytes int64) error {
	err := p.pixels[0].Presize(int(bytes))
	if p.options.Pairs(decode.Header{Format: decode.JPEG}) {
		err = errors.Join(err, p.pixels[1].Presize(int(bytes)))
	}
	return err
}

// draw waits for a processor, and has it draw the samples of a worker and of its mate, if there are two. One that waits
// alone may be drawn by another worker, which gets a processor before, together with its own. What came of each is in
// sample.drawn.
func (all *processors) draw(hands []*worker) {
	p, alone := (*processor)(nil), len(hands) == 1 && hands[0].pairable()
	select {
	case p = <-all.free:
	default:
		if p = all.wait(hands[0], alone); p == nil {
			return
		}
	}
	if other := all.next(alone); other != nil {
		all.use(p, hands[0], other)
		other.drawnByOther <- struct{}{}
		return
	}
	all.use(p, hands...)
}

// wait waits for a processor; nil: another worker has drawn the sample.
func (all *processors) wait(w *worker, alone bool) *processor {
	all.ready.Add(1)
	defer all.ready.Add(-1)
	if alone {
		all.mu.Lock()
		all.waiting = append(all.waiting, w)
		all.mu.Unlock()
	}
	select {
	case p := <-all.free:
		if !alone || all.leave(w) {
			return p
		}
		all.free <- p
		<-w.drawnByOther
	case <-w.drawnByOther:
	}
	return nil
}

// leave reports whether a worker still waits, and ends that.
func (all *processors) leave(w *worker) bool {
	all.mu.Lock()
	defer all.mu.Unlock()
	n := len(all.waiting)
	all.waiting = without(all.waiting, w)
	return len(all.waiting) < n
}

// next takes the worker that has waited longest with one sample, if that can go with another one.
func (all *processors) next(alone bool) *worker {
	all.mu.Lock()
	defer all.mu.Unlock()
	if !alone || len(all.waiting) == 0 {
		return nil
	}
	w := all.waiting[0]
	all.waiting = slices.Delete(all.waiting, 0, 1)
	return w
}

// use has a processor draw the samples of one or two workers.
func (all *processors) use(p *processor, hands ...*worker) {
	began, drawn := time.Now(), 0
	if !p.try(hands...) && len(hands) > 1 { // one of them is at fault, and the other may be of another batch
		p.try(hands[0])
		p.try(hands[1])
	}
	for _, h := range hands {
		if h.sample.drawn == nil {
			drawn++
		}
	}
	all.free <- p
	if drawn > 0 {
		all.took(began, drawn)
	}
}

// try draws samples, and reports whether there was no panic, which is the error of all of them. After it the decoders' state
// is unknown, and others take their place.
func (p *processor) try(hands ...*worker) bool {
	var err error
	func() {
		defer catch(&err)
		p.draw(hands)
	}()
	if err != nil {
		p.equip()
		for _, h := range hands {
			h.sample.drawn = err
		}
	}
	p.settle()
	return err == nil
}

// each calls f with the processors that nobody uses.
func (all *processors) each(f func(p *processor)) {
	for range cap(all.free) {
		select {
		case p := <-all.free:
			f(p)
			p.settle()
			all.free <- p
		default:
			return
		}
	}
}

// trim frees what is kept for the next image.
func (p *processor) trim() {
	for i := range p.decoders {
		p.decoders[i].Trim()
		p.pixels[i].Free()
	}
}

func (p *processor) close() {
	p.trim()
	for i := range p.decoders {
		p.decoders[i].Close()
		p.writers[i].Close()
	}
}

// reserve charges what decoding a worker's image, the first or second of its pair, takes at most. How much of that is kept
// is known when the processor is given back.
func (p *processor) reserve(i int, w *worker) error {
	n := p.decoders[i].Needs(w.sample.head)
	err := w.room(n)
	if err == nil {
		p.charged += n
	}
	return err
}

// settle brings the accounts in line with what is held between images.
func (p *processor) settle() {
	scratch := p.decoders[0].ScratchBytes() + p.decoders[1].ScratchBytes()
	held := pinned.Use{Real: scratch, Reserved: scratch}
	p.account.Change(p.held, held)
	p.held = held
	scratch += p.pixels[0].Bytes() + p.pixels[1].Bytes()
	p.ledger.correct(useScratch, scratch-p.charged)
	p.charged = scratch
}
