package engine

import (
	"testing"
	"time"
)

// TestEpochStatsAreBounded: a run of many epochs has figures for the last ones and a count
// of the others.
func TestEpochStatsAreBounded(t *testing.T) {
	m := meter{start: time.Now()}
	const epochs = 10 * maxEpochStats
	for epoch := range epochs {
		m.read(epoch, 10, false, epoch%2 == 0)
		m.hit(epoch)
	}
	s := m.snapshot(time.Now())
	if len(s.Epochs) != maxEpochStats || s.EpochsOmitted != epochs-maxEpochStats || cap(m.epochs) > 2*maxEpochStats {
		t.Errorf("%d epochs of %d, %d omitted, room for %d", len(s.Epochs), epochs, s.EpochsOmitted, cap(m.epochs))
	}
	for i, e := range s.Epochs {
		if e.Epoch != epochs-maxEpochStats+i || e.Hits != 1 || e.Misses != 1 || e.StorageBytes != 10 {
			t.Errorf("%+v", e)
		}
	}
	if s.Epochs[0].LocalHits != 1 || s.Epochs[1].LocalHits != 0 {
		t.Errorf("%d and %d hits of the local cache", s.Epochs[0].LocalHits, s.Epochs[1].LocalHits)
	}
	if s.Storage.Reads != epochs {
		t.Errorf("%d reads in all", s.Storage.Reads)
	}
}
