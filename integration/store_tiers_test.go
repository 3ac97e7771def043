package integration

import (
	"encoding/binary"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/batchfs/batchfs/cache"
	"github.com/batchfs/batchfs/internal/fakestore"
	"github.com/batchfs/batchfs/internal/tier"
	"github.com/batchfs/batchfs/layout"
)

// sent is a store that notes which objects it has sent.
type sent struct {
	http.Handler
	mu      sync.Mutex
	objects map[string]bool
}

func (s *sent) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Header.Get("Range") != "" {
		s.mu.Lock()
		s.objects[r.URL.Path] = true
		s.mu.Unlock()
	}
	s.Handler.ServeHTTP(w, r)
}

// take returns how many objects were sent since the last take. One that is sent twice counts once.
func (s *sent) take() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	defer clear(s.objects)
	return len(s.objects)
}

// tilesIn returns the numbers of the tiles in a batch.
func (m *mounted) tilesIn(t testing.TB, shard, epoch, batch, side int) (ids []int) {
	t.Helper()
	pixels := mustRead(t, m.path(shard, epoch, batch, layout.NHWCForm))
	const inverse = 244002641 // of 2654435761, modulo 1<<32
	for tile := range slices.Chunk(pixels, side*side*3) {
		ids = append(ids, int(binary.BigEndian.Uint32(tile)*inverse))
	}
	return ids
}

// TestMemoryAndDiskTogether: a dataset that fits neither into memory nor onto the disk, but into
// both together, comes from the store once. After kill -9, only what was in memory does so again.
func TestMemoryAndDiskTogether(t *testing.T) {
	skipWithoutFUSE(t)
	const side, n, batch = 16, 640, 32
	dir, local := scratch(t), scratch(t)
	for id := range n {
		writeFile(t, filepath.Join(dir, "tiles", tileName(id)), tileFile(id, side))
	}
	size := int64(len(tileFile(0, side)))
	s := &sent{Handler: &fakestore.Server{Dir: dir}, objects: map[string]bool{}}
	server := httptest.NewServer(s)
	defer server.Close()
	at := []string{"--endpoint", server.URL, "--anonymous"}
	if _, err := output(thisUser().reader(os.Getpid(), append([]string{suite.binary, "index", "s3://tiles"}, at...))); err != nil {
		t.Fatal(err)
	}
	order := strings.Fields(fmt.Sprintf("--shuffle --seed 3 --batch-size %d --prefetch-queue-depth 0", batch))
	whole := mountBatchfs(t, filepath.Join(dir, "tiles"), order...)
	flags := slices.Concat(order, at, cacheFlags("constant", roomFor(t, "constant", n*35/100*cache.Cost(size), n)),
		[]string{"--local-cache", local, "--local-cache-size", fmt.Sprint(n * 80 / 100 * tier.Cost(size))})
	m := mountBatchfs(t, "s3://tiles", flags...)
	m.sockets = true
	s.take()

	read := func(epoch, from, to int) (objects int, d statistics) {
		t.Helper()
		for i := from; i < to; i++ {
			if got, want := m.tilesIn(t, 0, epoch, i, side), whole.tilesIn(t, 0, epoch, i, side); !slices.Equal(got, want) {
				t.Fatalf("epoch %d, batch %d: %v, want %v", epoch, i, got, want)
			}
		}
		return s.take(), m.stats(t)
	}
	// onDisk waits until all that an epoch leaves to the disk is there.
	onDisk := func() {
		t.Helper()
		eventually(t, "the disk has the rest", func() bool {
			d := m.stats(t)
			return d.Storage.Local.Used >= (n-d.Epochs[len(d.Epochs)-1].Kept)*tier.Cost(size)
		})
	}
	level := func(d statistics) {
		t.Helper()
		e := d.Epochs[len(d.Epochs)-1]
		if e.Hits+e.LocalHits != n || e.Hits < n/4 || e.HitsPerBatch.Max > e.HitsPerBatch.Min+1 || e.LocalPerBatch.Max > e.LocalPerBatch.Min+1 {
			t.Errorf("%+v", e)
		}
		if l := d.Storage.Local; l.Damaged+l.NotKept > 0 || l.Used > l.Limit {
			t.Errorf("%+v", l)
		}
	}

	m.awaitPlans(t)
	if objects, _ := read(0, 0, n/batch); objects != n {
		t.Errorf("the store sent %d objects of %d", objects, n)
	}
	onDisk()
	m.awaitPlans(t)
	objects, d := read(1, 0, n/batch)
	if level(d); objects > 0 {
		t.Errorf("the store sent %d objects again", objects)
	}
	onDisk()
	m.awaitPlans(t)
	inMemory := d.Epochs[1].Kept
	read(2, 0, n/batch/2)
	m.kill(t)

	m = m.remount(t, flags...)
	m.sockets = true
	again, _ := read(2, n/batch/2, n/batch/2+1) // its plan is not there yet
	m.awaitPlans(t)
	objects, _ = read(2, n/batch/2, n/batch)
	if again += objects; int64(again) > inMemory {
		t.Errorf("the store sent %d objects again, of %d that were in memory", again, inMemory)
	}
	m.awaitPlans(t)
	read(3, 0, n/batch)
	onDisk()
	m.awaitPlans(t)
	if objects, d := read(4, 0, n/batch); objects > 0 {
		t.Errorf("two epochs after a restart, the store sent %d objects", objects)
	} else {
		level(d)
	}
}
