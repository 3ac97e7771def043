package dataset

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"sync"

	"github.com/batchfs/batchfs/internal/store"
)

// sharedStores are stores that several datasets use together, such as that of images and that of
// their masks. They are opened once, so that they know of one another's requests: how many may be
// in flight, how many a store accepts, and whether it is away. Only one of the datasets says what
// requests there were, and what memory they take.
type sharedStores struct {
	mu     sync.Mutex
	opened map[string]store.Store // by the beginning of their URL
}

// ShareStores makes all datasets that are opened with copies of these Options use the same stores.
// Workers and Store are set before that.
func (o *Options) ShareStores() {
	o.stores = nil
	o.shareStores()
}

// shareStores does so unless it was done already.
func (o *Options) shareStores() {
	if o.stores == nil {
		o.Store.Logger, o.Store.MaxRequests = cmp.Or(o.Store.Logger, o.Logger), max(o.Store.MaxRequests, o.Workers, asked)
		o.stores = &sharedStores{opened: map[string]store.Store{}}
	}
}

// OpenStore calls store.Open once for each store. Whatever is opened with these Options shares it.
func (o *Options) OpenStore(ctx context.Context, url string) (remote store.Store, name string, err error) {
	o.shareStores()
	place, name := store.Split(url)
	o.stores.mu.Lock()
	defer o.stores.mu.Unlock()
	if remote = o.stores.opened[place]; remote != nil {
		return remote, name, nil
	}
	if remote, name, err = store.Open(ctx, url, o.Store); err == nil {
		o.stores.opened[place] = remote
	}
	return remote, name, err
}

// CloseStores closes idle connections to the stores that were opened. They can still be used.
func (o *Options) CloseStores() error { return o.stores.close() }

// all returns the stores. Without stores there are none.
func (s *sharedStores) all() []store.Store {
	if s == nil {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Collect(maps.Values(s.opened))
}

func (s *sharedStores) close() (err error) {
	for _, remote := range s.all() {
		err = errors.Join(err, remote.Close())
	}
	return err
}
