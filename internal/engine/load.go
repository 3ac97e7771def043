package engine

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/batchfs/batchfs/decode"
	"github.com/batchfs/batchfs/internal/dataset"
	"github.com/batchfs/batchfs/internal/pixels"
	"github.com/batchfs/batchfs/internal/sample"
	"github.com/batchfs/batchfs/pinned"
)

// A load carries one sample from its file to its slot. It is handed a slot, reads the encoded
// sample into its input buffer, and keeps it until a drawer has made the pixels. Then it is spare,
// and can carry another sample.
type load struct {
	batches      *batches
	sample       fetched // what it carries
	pixelOptions pixels.Options
	loader       loader
	entries      *sample.Entries // nil: none are used
	input        input

	fetching      atomic.Int64 // what is being read from storage; see fetchingOf
	fetchingSince atomic.Int64 // since when, counted from hungReads.began; 0: none

	// Guarded by batches.mu, except for the item's attempt, which is the holder's.
	item    item  // where the sample belongs
	stalled bool  // its read hangs, and another load stands in for it
	room    int64 // bytes left for drawing its sample, if that is a large one
}

// A loader reads samples from storage and judges them. *sample.Loader is one.
type loader interface {
	Load(ctx context.Context, epoch int, id int64, whole bool, grow func(n int) []byte) (data []byte, read int64, seen dataset.Identity, err error)
	PackedPart(epoch int, id int64) (first int64, part dataset.Part)
	Judge(id int64, data []byte) (head decode.Header, height, width int, err error)
}

func newLoad(all *batches) *load {
	o := pixels.Options{Options: all.opts.Decoding, FullJPEGs: all.opts.FullJPEGs}
	var entries *sample.Entries
	if all.caches.entries != nil {
		entries = sample.NewEntries(all.catalog.Dataset, all.caches.entries, all.opts.VerifyReads)
	}
	l := &load{batches: all, pixelOptions: o, loader: all.flow.newLoader(o, entries), entries: entries}
	l.input = input{
		memory: all.memory, buffer: pinned.NewHost(all.opts.Memory, all.memory.inputs),
		grow: func(n int) (p []byte) {
			if p, l.input.refused = l.input.growFor(l.item.batch, n); l.input.refused == errNoRoom {
				l.item.asks.input = l.input.asked
			}
			return p
		},
	}
	return l
}

// beginFetch notes that storage is asked.
func (l *load) beginFetch() {
	l.fetching.Store(fetchingOf(l.item.part, l.item.id))
	l.fetchingSince.Store(int64(time.Since(l.batches.flow.hungReads.began)))
}

// endFetch notes that storage has answered.
func (l *load) endFetch() {
	l.fetchingSince.Store(0)
	if l.batches.flow.hungReads.count.Load() > 0 {
		l.storageAnswered()
	}
}
