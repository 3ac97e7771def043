package engine

import (
	"context"
	"fmt"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/batchfs/batchfs/decode/resample"
	"github.com/batchfs/batchfs/internal/dataset"
	"github.com/batchfs/batchfs/internal/testkit"
	"github.com/batchfs/batchfs/layout"
)

// TestAllocatingIsNotHanging: reads that the kernel has wait while it allocates a large buffer do
// not count as hanging, unless they go on for long after that.
func TestAllocatingIsNotHanging(t *testing.T) {
	e := start(t, testDir(t, 8), func(o *Options) { o.PrefetchDepth = 0 })
	synctest.Test(t, func(t *testing.T) {
		m := &memory{allocations: allocations{began: time.Now()}}
		a := &m.allocations
		h := &hungReads{batches: &batches{opts: e.opts, bad: e.bad, memory: m}, began: time.Now()}
		l := &load{batches: e.batches}
		h.loads = []*load{l}
		time.Sleep(time.Millisecond)
		l.fetchingSince.Store(int64(time.Since(h.began)))
		finds := func(want int) {
			t.Helper()
			if found := h.findNew(time.Now()); len(found) != want {
				t.Errorf("after %v, %d reads hang", time.Since(h.began), len(found))
			}
		}
		_, _ = allocate(a, func() (*dataset.Dataset, error) {
			time.Sleep(3 * time.Second)
			finds(0)
			return nil, nil
		})
		finds(0)
		time.Sleep(stallAfter / 2)
		finds(0)
		_, _ = allocate(a, func() (*dataset.Dataset, error) { return nil, nil }) // at once
		time.Sleep(stallAfter / 2)
		finds(1)
	})
}

// TestHangingReadKeepsNoTurn: while a read of a batch hangs, and holds the memory that another
// sample of that batch waits for, a batch of another shard is made. The first one is made once the
// read returns, however long that takes.
func TestHangingReadKeepsNoTurn(t *testing.T) {
	dir := t.TempDir()
	for i, side := range []int{1800, 1800, 50, 50} {
		writePPM(t, filepath.Join(dir, fmt.Sprintf("%d.ppm", i)), side, side, picture(i, side, side))
	}
	ds := openDataset(t, dir)
	synctest.Test(t, func(t *testing.T) {
		o := testOptions()
		o.Anonymous, o.PrefetchDepth, o.BatchSize, o.Shards = true, 0, 2, 2
		o.Transform = resample.Options{Mode: resample.Stretch, Height: 200, Width: 200}
		o.MemoryWait, o.MemoryLimit = 3*time.Second, runtimeBytes+24<<20
		e, err := build(ds, o)
		testkit.Must(t, err)
		answer := make(chan struct{})
		e.wrapLoaders(func(l loader) loader { return readLoader{l, answer} })
		e.start()
		time.Sleep(time.Millisecond) // the time of a read is not 0
		var reader sync.WaitGroup
		reader.Go(func() { read(t, e, Key{}, layout.NHWCForm) })
		began := time.Now()
		time.Sleep(2 * stallAfter)
		if s := e.Stats().Batches.StallSeconds; s < 1.99 || s > 2 {
			t.Errorf("the first one has waited for %v seconds", s)
		}
		read(t, e, Key{Shard: 1}, layout.NHWCForm)
		time.Sleep(30 * time.Second)
		close(answer)
		if reader.Wait(); time.Since(began) > time.Minute {
			t.Errorf("they took %v", time.Since(began))
		}
		if err := e.Close(); err != nil {
			t.Error(err)
		}
	})
}

// A readLoader's reads of the first sample hang once they have its bytes.
type readLoader struct {
	loader
	answer chan struct{}
}

func (l readLoader) Load(ctx context.Context, epoch int, id int64, whole bool, grow func(n int) []byte) ([]byte, int64, dataset.Identity, error) {
	data, read, seen, err := l.loader.Load(ctx, epoch, id, whole, grow)
	if id == 0 {
		<-l.answer
	}
	return data, read, seen, err
}

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
