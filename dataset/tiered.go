package dataset

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"

	"github.com/batchfs/batchfs/internal/option"
	"github.com/batchfs/batchfs/store"
	"github.com/batchfs/batchfs/tier"
)

// LocalCache says which disk keeps what was read from a store. The zero value: none.
type LocalCache struct {
	Dir  string // is made if needed
	Size int64  // bytes that everything in Dir may take; 0: most of the disk's free space
}

// tiered is a store of which parts are kept on a local disk.
type tiered struct {
	store.Store
	tier        *tier.Tier
	log         *slog.Logger
	unversioned sync.Once
}

// openTier puts a local disk before the dataset's store.
func (p *opening) openTier() error {
	o := p.Storage.LocalCache
	switch {
	case o.Size < 0, o.Size > 0 && o.Dir == "":
		return &option.Error{Field: "local cache size", Rule: "0 or more bytes, of a local cache", Value: fmt.Sprint(o.Size)}
	case o.Dir == "":
		return nil
	case len(p.src.stores) == 0:
		return &option.Error{Field: "local cache", Rule: "left out: the dataset is not in an object store", Value: o.Dir}
	}
	t, err := tier.Open(o.Dir, tier.Options{Limit: o.Size, Dataset: p.src.identity(), Logger: p.Logger})
	if err != nil {
		return err
	}
	p.src.tier = t
	for _, s := range append(slices.Clone(p.src.entries), p.src) {
		if s.remote != nil {
			s.remote = &tiered{Store: s.remote, tier: t, log: p.Logger}
		}
	}
	p.storage.remote = p.src.remote
	return nil
}

// ReadAt is that of [store.Store]. What has neither version nor time is not kept, as nobody could tell
// whether it has changed.
func (s *tiered) ReadAt(ctx context.Context, o store.Object, p []byte, offset int64) (int, error) {
	if o.Version == "" && o.ModTime == 0 {
		s.unversioned.Do(func() {
			s.log.Warn("the local cache keeps nothing of objects whose server gives them neither version nor time", "object", s.URL(o.Name))
		})
		return s.Store.ReadAt(ctx, o, p, offset)
	}
	object := tier.Object{Name: s.URL(o.Name), Version: fmt.Sprint(o.Version, o.ModTime, o.Size), Size: o.Size}
	err := s.tier.Read(ctx, &object, p, offset, func(ctx context.Context, p []byte, offset int64) error {
		_, err := s.Store.ReadAt(ctx, o, p, offset)
		return err
	})
	if err != nil {
		return 0, err
	}
	return len(p), nil
}

// LocalCache returns what the local cache did; nil if there is none.
func (d *Dataset) LocalCache() *tier.Stats {
	if d.tier == nil {
		return nil
	}
	stats := d.tier.Stats()
	return &stats
}
