package engine

import (
	"bytes"
	"context"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/batchfs/batchfs/cache"
	"github.com/batchfs/batchfs/internal/hangfs"
	"github.com/batchfs/batchfs/internal/testkit"
	"github.com/batchfs/batchfs/layout"
)

// hangDisk has the disk of the local cache hang where the plan of an epoch asks for the room there.
func (d *farDataset) hangDisk(t *testing.T, e *Engine, epoch int) *hangfs.FS {
	t.Helper()
	e.caches.planner.settled()
	disk := hangfs.Mount(t, filepath.Join(d.cache, "plans"), nil)
	disk.Hang("list")
	e.caches.planner.planOf(epoch)
	<-disk.Hung
	return disk
}

// TestCloseWhileThePlansDiskHangs: Close does not wait for the disk of the local cache.
func TestCloseWhileThePlansDiskHangs(t *testing.T) {
	d := newFar(t)
	ds := d.open(t, 0.3)
	e := d.engine(t, ds, 0.2)
	disk := d.hangDisk(t, e, 3)
	closeLeaves(t, e)
	disk.Release()
	e.wait.Wait()
}

// TestMemoryWhileThePlansDiskHangs: a batch that was refused memory does not wait for the disk of
// the local cache.
func TestMemoryWhileThePlansDiskHangs(t *testing.T) {
	d := newFar(t)
	ds := d.open(t, 0.3)
	e := d.engine(t, ds, 0.2, func(o *Options) { o.MemoryWait = time.Hour })
	held := open(t, e, Key{}, layout.NHWCForm)
	disk := d.hangDisk(t, e, 3)
	exhaust(e)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	opened := make(chan error)
	go func() {
		f, err := e.Open(ctx, Key{Batch: 7}, layout.NHWCForm)
		if err == nil {
			f.Close()
		}
		opened <- err
	}()
	eventually(t, "it waits", func() bool {
		return e.locked(func() bool { b := e.table[Key{Batch: 7}]; return b != nil && b.refused() })
	})
	held.Close()
	if err := <-opened; err != nil {
		t.Error(err)
	}
	disk.Release()
}

// TestDamageInTheLocalCache: whatever becomes of the files in the local cache while batches of any
// epoch are made, with little memory, every batch has its bytes, and in the end nothing is charged.
func TestDamageInTheLocalCache(t *testing.T) {
	for what, c := range map[string]struct {
		memory, disk float64
		form         Form
	}{
		"planned": {0.2, 0.4, FormEncoded}, "planned, packed": {0.2, 0.3, FormPacked}, "packed": {0, 4, FormPacked}, "all": {0, 4, FormEncoded},
	} {
		t.Run(what, func(t *testing.T) {
			d := newFarJPEGs(t)
			change := func(o *Options) { o.CacheForm, o.Epochs, o.PrefetchDepth, o.Shuffle = c.form, 6, 1, true }
			plain := start(t, d.dir, caching(cache.None, 0), change, func(o *Options) { o.CacheForm = FormEncoded })
			keys, want := allKeys(plain), map[Key][]byte{}
			for _, k := range keys {
				want[k] = read(t, plain, k, layout.NHWCForm)
			}
			ds := d.open(t, c.disk)
			e := d.engine(t, ds, c.memory, change)
			d.epoch(t, e, 0) // with its plan
			var readers, damage sync.WaitGroup
			end := make(chan struct{})
			damage.Go(func() {
				for {
					select {
					case <-end:
						return
					default:
					}
					if files := d.files(t); len(files) > 0 {
						spoilExtent(files[rand.IntN(len(files))])
					}
					e.SetMemoryLimit(e.opts.MemoryLimit - rand.Int64N(2)*rand.Int64N(200<<20))
				}
			})
			for range 3 {
				readers.Go(func() {
					at := 0
					for range len(keys) {
						if at++; rand.IntN(16) == 0 {
							at = rand.IntN(len(keys))
						}
						k := keys[at%len(keys)]
						if got := read(t, e, k, layout.NHWCForm); !bytes.Equal(got, want[k]) {
							t.Errorf("%s has other bytes", k)
						}
					}
				})
			}
			readers.Wait()
			close(end)
			damage.Wait()
			if s := e.Stats(); s.Errors > 0 || s.Storage.Local.Kept == 0 {
				t.Errorf("%d errors, %+v", s.Errors, *s.Storage.Local)
			}
			testkit.Must(t, e.Close())
			for u := useBatches; u <= useCache; u++ {
				if n, _ := e.memory.ledger.usage(u); n != 0 {
					t.Errorf("%d bytes are charged for use %d in the end", n, u)
				}
			}
		})
	}
}

// spoilExtent damages a file of the local cache, which may be gone already, or has another thing
// take its place.
func spoilExtent(path string) {
	switch rand.IntN(5) {
	case 0:
		_ = os.Truncate(path, rand.Int64N(8<<10))
	case 1:
		_ = os.Remove(path)
	case 2:
		_ = os.Remove(path)
		_ = os.Mkdir(path, 0o700)
	case 3:
		_ = os.Remove(path)
		_ = unix.Mkfifo(path, 0o600)
	case 4:
		if f, err := os.OpenFile(path, os.O_WRONLY|unix.O_NONBLOCK, 0); err == nil {
			_, _ = f.WriteAt([]byte("spoilt"), rand.Int64N(8<<10))
			_ = f.Close()
		}
	}
}
