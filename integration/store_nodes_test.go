package integration

import (
	"encoding/binary"
	"fmt"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/batchfs/batchfs/internal/fakestore"
	"github.com/batchfs/batchfs/layout"
)

// A gauged counts the objects, and their bytes, that a server has sent.
type gauged struct {
	http.Handler
	objects, bytes atomic.Int64
}

type gaugedWriter struct {
	http.ResponseWriter
	to *gauged
}

func (w *gaugedWriter) Write(p []byte) (int, error) {
	n, err := w.ResponseWriter.Write(p)
	w.to.bytes.Add(int64(n))
	return n, err
}

func (g *gauged) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if strings.HasSuffix(r.URL.Path, ".ppm") {
		g.objects.Add(1)
		w = &gaugedWriter{w, g}
	}
	g.Handler.ServeHTTP(w, r)
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

// TestNodesFetchWhatIsNotTheirs: eight daemons of one job, each with a disk of its own, read one
// store. Their batches are together those of one process, about as many samples change nodes as the
// document about many machines promises, and once a disk has a sample, it is not fetched again.
func TestNodesFetchWhatIsNotTheirs(t *testing.T) {
	skipWithoutFUSE(t)
	const side, nodes, each, steps, epochs = 4, 8, 32, 2, 3
	const n = nodes * each * steps
	dir := scratch(t)
	for id := range n {
		writeFile(t, filepath.Join(dir, "tiles", tileName(id)), tileFile(id, side))
	}
	size := int64(len(tileFile(0, side)))
	g := &gauged{Handler: &fakestore.Server{Dir: dir}}
	server := httptest.NewServer(g)
	defer server.Close()
	order := func(world int, more ...string) []string {
		return append(strings.Fields(fmt.Sprintf("--shuffle --seed 3 --partition elastic --global-batch %d --world-size %d --prefetch-queue-depth 0 --cache-size 0", nodes*each, world)), more...)
	}
	at := []string{"--endpoint", server.URL, "--anonymous"}
	if _, err := output(thisUser().reader(os.Getpid(), append([]string{suite.binary, "index", "s3://tiles"}, at...))); err != nil {
		t.Fatal(err) // a mount that indexes has everything on its disk afterwards
	}
	whole := mountBatchfs(t, filepath.Join(dir, "tiles"), order(1)...)
	var all [nodes]*mounted
	for v := range all {
		all[v] = mountBatchfs(t, "s3://tiles", order(nodes, append(at, "--placement", "local", "--rank", fmt.Sprint(v), "--local-cache", scratch(t))...)...)
		all[v].sockets = true
	}
	had, foreign := [nodes]map[int]bool{}, 0
	for v := range had {
		had[v] = map[int]bool{}
	}
	for epoch := range epochs {
		objects, bytes, hedges, fetches := g.objects.Load(), g.bytes.Load(), hedged(t, all[:]), int64(0)
		for step := range steps {
			var together []int
			for v, m := range all {
				ids := m.tilesIn(t, v, epoch, step, side)
				for _, id := range ids {
					if id*nodes/n != v {
						foreign++
					}
					if !had[v][id] {
						had[v][id] = true
						fetches++
					}
				}
				together = append(together, ids...)
			}
			want := whole.tilesIn(t, 0, epoch, step, side)
			slices.Sort(together)
			slices.Sort(want)
			if !slices.Equal(together, want) {
				t.Errorf("epoch %d: the nodes' batches of step %d are together not that of one process", epoch, step)
			}
		}
		for v, m := range all {
			eventually(t, "the disk has it", func() bool {
				local := m.stats(t).Storage.Local
				return local.NotKept > 0 || local.Kept >= int64(len(had[v]))
			})
			if local := m.stats(t).Storage.Local; local.NotKept > 0 || local.Damaged > 0 {
				t.Errorf("node %d: %+v", v, local)
			}
		}
		objects, bytes, hedges = g.objects.Load()-objects, g.bytes.Load()-bytes, hedged(t, all[:])-hedges
		if objects < fetches || objects > fetches+hedges || bytes < size*fetches || bytes > size*(fetches+hedges) {
			t.Errorf("epoch %d: the store sent %d objects, %d bytes; %d samples of %d bytes were new, and %d requests were sent twice", epoch, objects, bytes, fetches, size, hedges)
		}
		t.Logf("epoch %d: %d of %d samples fetched", epoch, fetches, n)
	}
	share, expected := float64(foreign)/(epochs*n), math.Sqrt((1-1.0/nodes)/(2*math.Pi*each))
	if t.Logf("%.2f %% of the samples were of other nodes, %.2f %% expected", 100*share, 100*expected); share < 0.7*expected || share > 1.3*expected {
		t.Errorf("a share of %.4f, not about %.4f", share, expected)
	}
}

// hedged is how many requests the mounts have sent twice.
func hedged(t testing.TB, all []*mounted) (n int64) {
	t.Helper()
	for _, m := range all {
		store := m.stats(t).Storage.Store
		n += store.Hedges + store.Retries
	}
	return n
}
