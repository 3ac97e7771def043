package engine

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/batchfs/batchfs/internal/dataset"
	"github.com/batchfs/batchfs/internal/testkit"
	"github.com/batchfs/batchfs/layout"
)

// A closingLoader has the engine close right after its first read.
type closingLoader struct {
	loader
	begun *atomic.Bool
	close func()
}

func (l closingLoader) Load(ctx context.Context, epoch int, id int64, whole bool, grow func(n int) []byte) ([]byte, int64, dataset.Identity, error) {
	data, read, seen, err := l.loader.Load(ctx, epoch, id, whole, grow)
	if !l.begun.Swap(true) { // a sync.Once would have others wait for the end
		l.close()
	}
	return data, read, seen, err
}

// TestCloseDuringADrawersRead: the engine closes while a drawer reads a sample, for which there is
// no memory left to draw it.
func TestCloseDuringADrawersRead(t *testing.T) {
	ds := openDataset(t, testDir(t, 8))
	synctest.Test(t, func(t *testing.T) {
		o := testOptions()
		o.Anonymous, o.PrefetchDepth = true, 0
		e, err := build(ds, o)
		testkit.Must(t, err)
		e.flow.ownReads = ownReads{}
		closed := make(chan error)
		var begun atomic.Bool
		e.wrapLoaders(func(l loader) loader {
			return closingLoader{l, &begun, func() {
				e.memory.ledger.force(useRuntime, o.MemoryLimit)
				go func() { closed <- e.Close() }()
				synctest.Wait() // all else has ended
			}}
		})
		e.start()
		if _, err := e.Open(t.Context(), Key{}, layout.NHWCForm); err != ErrClosed {
			t.Error(err)
		}
		if err := <-closed; err != nil {
			t.Error(err)
		}
	})
}
