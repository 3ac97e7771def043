package engine

import (
	"context"
	"errors"
	"path/filepath"
	"testing"
	"time"

	"github.com/batchfs/batchfs/internal/hangfs"
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
	closed := make(chan error, 1)
	go func() { closed <- e.Close() }()
	select {
	case err := <-closed:
		if !errors.Is(err, ErrLeftBehind) {
			t.Errorf("Close says %v", err)
		}
	case <-time.After(patience):
		t.Error("Close does not return")
	}
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
