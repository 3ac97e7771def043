package engine

import (
	"sync"

	"github.com/batchfs/batchfs/internal/dataset"
)

// localCache has the dataset's local cache, if that keeps single samples, follow the plan. After a
// sample was read, from wherever it was, it is kept on the disk or not, as the plan says for the
// next epoch.
//
// As in the memory cache, a sample waits for one epoch: readers of the epochs around it leave it
// alone. After a start, it is unknown which samples are there; each is removed when an epoch reads
// it and the next one need not find it there.
//
// A nil localCache does nothing.
type localCache struct {
	samples *dataset.LocalSamples
	planner *planner

	mu    sync.Mutex
	waits []uint8 // by sample: the epoch that it waits for, modulo epochsKnown, plus 1; 0: unknown
}

// epochsKnown is how many epochs are told apart.
const epochsKnown = 255

// openLocalCache returns nil if the dataset's local cache keeps no samples, or there is no memory
// to plan that.
func openLocalCache(c Budget, k *planner, m *memory) *localCache {
	n := int64(c.Dataset.Len())
	if k == nil || !k.shares.local() {
		return nil
	}
	if !m.ledger.reserve(useIndex, n) {
		c.Options.Logger.Warn("the local cache keeps nothing: there is too little memory to plan that", "bytes", n)
		return nil
	}
	return &localCache{samples: c.Dataset.LocalSamples(), planner: k, waits: make([]uint8, n)}
}

// A diskPlan says where the plan wants a sample after a read. The zero value leaves the sample
// where it is.
type diskPlan struct{ disk, known bool }

// planned is what the plan says of a sample.
func (l *localCache) planned(epoch int, id int64) (a diskPlan) {
	if l != nil {
		a.disk, a.known = l.planner.OnDisk(epoch, id)
	}
	return a
}

// load reads a sample from the disk; false: it is not there.
func (l *localCache) load(id int64, w *load) ([]byte, dataset.Identity, bool) {
	if l == nil {
		return nil, unknownIdentity, false
	}
	return l.samples.Load(w.batches.ctx, int(id), w.input.grow)
}

// follow puts a sample where the plan wants it. data is the whole sample. there says whether it is
// on the disk.
func (l *localCache) follow(a diskPlan, epoch int, id int64, seen dataset.Identity, data []byte, there bool) {
	if !a.known {
		return
	}
	mine := l.mark(epoch, id, a.disk)
	if a.disk && !there {
		l.samples.Keep(int(id), seen, data)
	} else if !a.disk && there && mine {
		l.samples.Drop(int(id))
	}
}

// mark notes where a sample waits after an epoch has read it. It reports false if the sample waits
// for another epoch near this one.
func (l *localCache) mark(epoch int, id int64, disk bool) (mine bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	later := 0 // than this epoch
	if was := int(l.waits[id]); was > 0 {
		later = (was - 1 + epochsKnown - epoch%epochsKnown) % epochsKnown
	}
	mine = later != 1 && later != 2 && later != epochsKnown-1
	switch {
	case disk && later != 2:
		l.waits[id] = uint8((epoch+1)%epochsKnown + 1)
	case mine:
		l.waits[id] = 0
	}
	return mine
}

// has says whether a sample is known to be on the disk.
func (l *localCache) has(id int64) bool {
	if l == nil {
		return false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.waits[id] > 0
}
