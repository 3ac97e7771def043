package dataset

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"

	"github.com/batchfs/batchfs/internal/option"
	"github.com/batchfs/batchfs/internal/store"
	"github.com/batchfs/batchfs/internal/tier"
)

// LocalCache says which disk keeps the data read from a store. The zero value: none.
type LocalCache struct {
	Dir  string // created if needed
	Size int64  // bytes that everything in Dir may take; 0: most of the disk's free space
	// Samples lets Keep and Drop decide, sample by sample, what is kept of a dataset that does not
	// fit. Without it, the cache keeps whatever is read first.
	Samples bool
}

// A localCache keeps parts of a dataset's objects, or samples, on a local disk.
type localCache struct {
	tier    *tier.Tier
	samples bool
	spare   int64 // bytes that the dataset leaves free; negative if it does not fit
}

// tiered is a store with a local cache in front.
type tiered struct {
	store.Store
	*localCache
	log         *slog.Logger
	unversioned sync.Once
}

// openTier puts a local disk in front of the dataset's store.
func (p *opening) openTier() error {
	o := p.Storage.LocalCache
	switch {
	case o.Size < 0, o.Size > 0 && o.Dir == "":
		return &option.Error{Field: "local cache size", Rule: "0 or more bytes, of a local cache", Value: fmt.Sprint(o.Size)}
	case o.Dir == "":
		return nil
	case !p.src.inStores():
		return &option.Error{Field: "local cache", Rule: "left out: the dataset is not in an object store", Value: o.Dir}
	}
	t, err := tier.Open(o.Dir, tier.Options{Limit: o.Size, Dataset: p.src.identity(), Logger: p.Logger})
	if err != nil {
		return err
	}
	p.src.local = &localCache{tier: t}
	for _, s := range append(slices.Clone(p.src.entries), p.src) {
		if s.remote != nil {
			s.remote = &tiered{Store: s.remote, localCache: p.src.local, log: p.Logger}
		}
	}
	return nil
}

// object returns the tier's name for an object of the store. Objects with neither version nor time
// are not kept, since nothing could show that they changed.
func (s *tiered) object(o store.Object) (object tier.Object, ok bool) {
	if o.Version == "" && o.ModTime == 0 {
		s.unversioned.Do(func() {
			s.log.Warn("the local cache keeps nothing of objects whose server gives them neither version nor time", "object", s.URL(o.Name))
		})
		return object, false
	}
	return tier.Object{Name: s.URL(o.Name), Version: fmt.Sprint(o.Version, o.ModTime, o.Size), Size: o.Size}, true
}

// ReadAt is that of [store.Store].
func (s *tiered) ReadAt(ctx context.Context, o store.Object, p []byte, offset int64) (int, error) {
	object, ok := s.object(o)
	if s.samples || !ok {
		return s.Store.ReadAt(ctx, o, p, offset)
	}
	err := s.tier.Read(ctx, &object, p, offset, func(ctx context.Context, p []byte, offset int64) error {
		_, err := s.Store.ReadAt(ctx, o, p, offset)
		return err
	})
	if err != nil {
		return 0, err
	}
	return len(p), nil
}

// LocalCache returns statistics of the local cache; nil if there is none.
func (d *Dataset) LocalCache() *tier.Stats {
	if d.local == nil {
		return nil
	}
	stats := d.local.tier.Stats()
	return &stats
}
