package engine

import (
	"sync/atomic"
	"testing"

	"github.com/batchfs/batchfs/layout"
)

// TestAllWorkersRead: storage that answers only once every worker waits for it, far ahead of the batch that an Open wants, is
// not waited for in vain; and the memory limit holds.
func TestAllWorkersRead(t *testing.T) {
	const workers, batch = 48, 4
	dir := jpegDir(t, 2*workers)
	var waiting atomic.Int32
	all := make(chan struct{})
	e := startFaulty(t, dir, func(int64) error {
		if waiting.Add(1) == workers {
			close(all)
		}
		<-all
		return nil
	}, func(o *Options) {
		o.BatchSize, o.Epochs, o.Workers = batch, 1, workers
		o.PrefetchDepth, o.BatchWorkers = workers/batch, workers/batch
	})
	read(t, e, Key{}, layout.NHWCForm)
	if s := e.Stats().Memory; s.Peak > s.Limit {
		t.Errorf("%d bytes of memory at most, of %d", s.Peak, s.Limit)
	}
}
