package sample

import (
	"sync"
	"sync/atomic"

	"github.com/batchfs/batchfs/internal/dataset"
	"github.com/batchfs/batchfs/internal/pages"
)

// sharedPages are the compressed pages that the Readers of a Memory unpack for each other. They
// exist as long as the Readers do, unless the dataset already keeps pages.
type sharedPages struct {
	budget quota

	mu      sync.Mutex
	readers int
	ds      *dataset.Dataset
	pages   *pages.Cache
}

func (s *sharedPages) begin(ds *dataset.Dataset) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.readers++; s.readers > 1 || ds.KeepsPages() {
		return
	}
	p := ds.Pages()
	if p.Count == 0 {
		return
	}
	// Readers go through a dataset in its order. Without room for a cache, each page is unpacked
	// for each sample.
	if c, err := pages.New(pages.Options{Limit: s.budget.left.Load(), Pages: p.Count, Budget: &s.budget, Once: true}); err == nil {
		s.ds, s.pages = ds, c
		ds.KeepPages(c)
	}
}

func (s *sharedPages) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.readers--; s.readers > 0 || s.pages == nil {
		return
	}
	s.ds.DropPages(s.pages)
	s.pages.Close()
	s.pages = nil
}

// A quota is a budget of its own.
type quota struct{ left atomic.Int64 }

func (q *quota) Reserve(n int64) bool {
	if q.left.Add(-n) < 0 {
		q.left.Add(n)
		return false
	}
	return true
}

func (q *quota) Release(n int64) { q.left.Add(n) }
