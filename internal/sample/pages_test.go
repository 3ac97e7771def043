package sample

import (
	"context"
	"os"
	"sync"
	"testing"

	"github.com/batchfs/batchfs/decode"
	"github.com/batchfs/batchfs/internal/testkit"
)

// TestReadersSharePages: Readers of a dataset in compressed pages unpack each page for one another,
// and the last Reader frees all of them.
func TestReadersSharePages(t *testing.T) {
	block, err := os.ReadFile("../archive/testdata/jpeg.mds.zstd")
	testkit.Must(t, err)
	ds := open(t, map[string][]byte{"a.mds.zstd": block}, "a.mds.zstd")
	memory := NewMemory(0, 4)
	all := memory.pages.budget.left.Load()
	var readers []*Reader
	for range 4 {
		readers = append(readers, NewReader(ds, decode.Options{MaxPixels: 1 << 28}, memory))
	}
	var wait sync.WaitGroup
	for k, r := range readers {
		wait.Go(func() {
			for i := k; i < ds.Len(); i += len(readers) {
				if _, err := r.Fetch(context.Background(), i); err != nil {
					t.Error(err)
				}
				r.Done()
			}
		})
	}
	wait.Wait()
	if s := memory.pages.pages.Stats(); s.Loaded != 1 || s.Served != int64(ds.Len())-1 {
		t.Errorf("%d samples of a block: %+v", ds.Len(), s)
	}
	for _, r := range readers {
		r.Close()
	}
	if ds.KeepsPages() || memory.pages.budget.left.Load() != all {
		t.Errorf("%d bytes are charged at the end", all-memory.pages.budget.left.Load())
	}
}
