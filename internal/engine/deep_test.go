package engine

import (
	"sync/atomic"
	"testing"

	"github.com/batchfs/batchfs/layout"
)

// TestAllLoadsRead: some storage answers only once all loads that there may be wait for it, far
// ahead of the batch that an Open wants. Such loads begin, and the memory limit holds.
func TestAllLoadsRead(t *testing.T) {
	const loads, batch = 8, 4
	dir := jpegDir(t, 2*loads)
	var waiting atomic.Int32
	all := make(chan struct{})
	e := startFaulty(t, dir, func(int64) error {
		if waiting.Add(1) == loads {
			close(all)
		}
		<-all
		return nil
	}, func(o *Options) {
		o.BatchSize, o.Epochs, o.Workers, o.Loads = batch, 1, 2, loads
		o.PrefetchDepth, o.BatchWorkers = loads/batch, loads/batch
	})
	read(t, e, Key{}, layout.NHWCForm)
	if s := e.Stats().Memory; s.Peak > s.Limit {
		t.Errorf("%d bytes of memory at most, of %d", s.Peak, s.Limit)
	}
}
