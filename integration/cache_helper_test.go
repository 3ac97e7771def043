package integration

import (
	"io/fs"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/batchfs/batchfs/cache"
	"github.com/batchfs/batchfs/layout"
)

// cachePolicies are all policies.
var cachePolicies = []string{"constant", "static", "tinylfu", "none"}

// cacheFlags returns a cache's flags, followed by more flags. Every policy but none takes a
// size.
func cacheFlags(policy string, size int64, more ...string) []string {
	flags := []string{"--cache-policy", policy}
	if policy != "none" {
		flags = append(flags, "--cache-size", strconv.FormatInt(size, 10))
	}
	return append(flags, more...)
}

// roomFor is the size of a cache with room for the given bytes of samples, as the cache
// counts them.
func roomFor(t testing.TB, policy string, room, samples int64) int64 {
	t.Helper()
	p := cache.None
	for p.String() != policy {
		p++
	}
	size := room
	for range 10 { // overhead beside the samples grows with the size, in steps, and slowly
		if missing := room - cache.Room(p, size, samples); missing != 0 && p != cache.None {
			size += missing
		}
	}
	return size
}

type epochDoc struct {
	Epoch, Batches, Hits, Misses int64
	HitsPerBatch                 struct {
		Min, Max     int64
		Mean, StdDev float64
	} `json:"hits_per_batch"`
	LocalHits     int64                    `json:"local_hits"`
	LocalPerBatch struct{ Min, Max int64 } `json:"local_hits_per_batch"`
	Kept          int64                    `json:"kept"`
	NotKept       int64                    `json:"not_kept"`
}

// epoch returns the counters of an epoch; zeros before it began.
func (d statistics) epoch(epoch int) epochDoc {
	for _, e := range d.Epochs {
		if e.Epoch == int64(epoch) {
			return e
		}
	}
	return epochDoc{Epoch: int64(epoch)}
}

func (d statistics) hits() (sum int64) {
	for _, e := range d.Epochs {
		sum += e.Hits
	}
	return sum
}

// within checks that the cache does not exceed its limit, everything included.
func (d statistics) within(t testing.TB, limit int64) {
	t.Helper()
	if d.Memory.Cache > limit {
		t.Errorf("the cache takes %d bytes of %d", d.Memory.Cache, limit)
	}
}

// awaitPlans waits for the plans of the epochs begun so far and of those after them. Plans
// are made in the background; epochs of a few samples can be over before.
func (m *mounted) awaitPlans(t testing.TB) {
	t.Helper()
	eventually(t, "what the cache keeps is planned", func() bool { return m.stats(t).Plans.Wanted == 0 })
}

// lockStep returns an epoch's batches in the order in which synchronized training processes
// read them: batch i of every shard before batch i+1 of any. Each step is one slice. By
// then the cache's plan for the epoch exists, unless the reader jumps to it.
func (m *mounted) lockStep(t testing.TB, shards, epoch int) (steps [][]string) {
	t.Helper()
	m.awaitPlans(t)
	for batch := range m.batches(t, 0, epoch) {
		var step []string
		for s := range shards {
			step = append(step, m.path(s, epoch, batch, layout.NHWCForm))
		}
		steps = append(steps, step)
	}
	return steps
}

// datasetBytes is the total size of a dataset's files.
func datasetBytes(t testing.TB, dir string) (sum int64) {
	t.Helper()
	err := filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		info, err := d.Info()
		if err == nil {
			sum += info.Size()
		}
		return err
	})
	check(t, err)
	return sum
}
