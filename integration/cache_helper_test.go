package integration

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/batchfs/batchfs/cache"
	"github.com/batchfs/batchfs/internal/testkit"
	"github.com/batchfs/batchfs/layout"
	"golang.org/x/sys/unix"
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

// A storage is a dataset of tiles on a file system served by another process, which the test
// controls: see hangfs.Serve.
type storage struct {
	*partner
	dir string
}

const (
	storageSide  = 64 // a file is a little more than three pages
	storageTiles = 16
)

func newStorage(t testing.TB) storage {
	t.Helper()
	skipWithoutFUSE(t)
	root(t) // the part mounts without help
	s := storage{dir: filepath.Join(scratch(t), "faulty")}
	check(t, os.Mkdir(s.dir, 0o755))
	t.Cleanup(func() {
		if left, err := testkit.MountsBelow(s.dir); err != nil || len(left) > 0 {
			t.Errorf("the dataset is still in use: %v %v", left, err)
			_ = unix.Unmount(s.dir, unix.MNT_DETACH)
		}
	})
	s.partner = startPartner(t, thisUser().daemon([]string{suite.self, "part-faulty", tiles(t, storageTiles, storageSide), s.dir}))
	s.expect(t, "ready")
	return s
}

// order sends the storage a command.
func (s storage) order(t testing.TB, line string) {
	t.Helper()
	check(t, s.Order(line))
}

// fail makes all reads of a tile fail.
func (s storage) fail(t testing.TB, id int) {
	t.Helper()
	s.order(t, fmt.Sprintf("fail %s %d 100", tileName(id), unix.EIO))
}

// stall makes reads of tiles wait until the storage is healed, which a test must defer.
func (s storage) stall(t testing.TB, ids ...int) {
	t.Helper()
	for _, id := range ids {
		s.order(t, "stall "+tileName(id))
	}
}

// awaitStalled waits until n reads wait for the storage.
func (s storage) awaitStalled(t testing.TB, n int) {
	t.Helper()
	eventually(t, fmt.Sprintf("%d reads stall", n), func() bool {
		s.tell(t, "waiting")
		return s.line(t) == strconv.Itoa(n)
	})
}
