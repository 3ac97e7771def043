package engine

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/batchfs/batchfs/dataset"
	"github.com/batchfs/batchfs/dataset/sample"
	"github.com/batchfs/batchfs/decode"
	"github.com/batchfs/batchfs/decode/pixels"
	"github.com/batchfs/batchfs/pinned"
)

// A load carries one sample from its file to its slot: it is handed a slot, reads the encoded
// sample into its input buffer, and waits with that until a drawer has made the pixels. Then it is
// spare, and carries another one.
type load struct {
	batches      *batches
	sample       fetched // what it carries
	pixelOptions pixels.Options
	loader       loader
	entries      *sample.Entries // nil: none are used
	input        pinned.Host     // the encoded sample
	gpu          *gpuWorker      // whose hand it is; nil: nobody's
	noParts      bool            // JPEGs are read as a whole, for the GPU
	charged      int64           // the part of the input that the ledger has
	drawn        chan struct{}   // gets a value when its pixels were made, if somebody waits for that
	waits        bool            // somebody does

	fetching      atomic.Int64 // the sample being read from storage
	fetchingSince atomic.Int64 // since when, counted from hung.began; 0: none

	growInput func(n int) []byte // grows input for item; made once, as nothing is allocated for a sample
	refused   error              // why it did not
	asks      amount             // what it was refused, and is to have before it reads again
	again     bool               // the sample was read before, and given up

	// Guarded by batches.mu; item is changed by whoever has the load.
	item    item  // where the sample belongs
	stalled bool  // its read hangs, and another load stands in for it
	room    int64 // left for drawing its sample, if that is a large one
}

// A loader reads samples from storage and judges them. *sample.Loader is one.
type loader interface {
	Load(ctx context.Context, epoch int, id int64, whole bool, grow func(n int) []byte) (data []byte, read int64, seen dataset.Identity, err error)
	Judge(id int64, data []byte) (head decode.Header, height, width int, err error)
}

func newLoad(all *batches) *load {
	o := pixels.Options{Options: all.opts.Decoding, FullJPEGs: all.opts.FullJPEGs, Kernel: all.opts.Kernels.Resizing}
	var entries *sample.Entries
	if all.opts.Entries != nil && all.opts.NVJPEG == "" {
		entries = sample.NewEntries(all.ds, all.opts.Entries, all.opts.VerifyReads)
	}
	l := &load{
		batches: all, pixelOptions: o, loader: all.newLoader(o, entries), entries: entries,
		input: pinned.NewHost(all.opts.Memory, all.inputs), drawn: make(chan struct{}, 1),
	}
	l.growInput = func(n int) (p []byte) {
		p, l.refused = l.grow(n)
		return p
	}
	return l
}

// giveBack frees the input buffer.
func (l *load) giveBack() {
	l.input.Free()
	l.chargeActual()
}

// grow makes the input buffer n bytes long, if the ledger admits that. The error is errNoRoom if it does not; the load is to
// give up what it has then, and to wait for what it asks for.
func (l *load) grow(n int) ([]byte, error) {
	m, will := l.batches.memory, l.input.Plan(n)
	if more := will - l.charged; more > 0 {
		if err := m.fits(l.item.b, int64(n)); err != nil {
			return nil, err
		}
		if !m.ledger.admitLoad(more, 0, false) {
			l.asks.input = will
			return nil, errNoRoom
		}
		l.charged = will
	}
	return m.grow(&l.input, n)
}

// chargeActual brings the accounts in line with what the load holds between samples: buffers
// shrink.
func (l *load) chargeActual() {
	held := l.input.Bytes()
	l.batches.memory.ledger.correct(useScratch, held-l.charged)
	l.charged = held
}

func (l *load) beginFetch(id int64) {
	l.fetching.Store(id)
	l.fetchingSince.Store(int64(time.Since(l.batches.hung.began)))
}

// endFetch notes that storage has answered.
func (l *load) endFetch() {
	l.fetchingSince.Store(0)
	if l.batches.hung.count.Load() > 0 {
		l.storageAnswered()
	}
}
