package integration

import (
	"archive/tar"
	"archive/zip"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/parquet-go/parquet-go"
	"golang.org/x/sys/unix"

	"github.com/batchfs/batchfs/internal/dataset"
	"github.com/batchfs/batchfs/internal/fakestore"
	"github.com/batchfs/batchfs/internal/sample"
	"github.com/batchfs/batchfs/layout"
)

// objectStore serves a directory as an object store, and returns the flags for it.
func objectStore(t testing.TB, dir string) (*fakestore.Server, []string) {
	s := &fakestore.Server{Dir: dir}
	server := httptest.NewServer(s)
	t.Cleanup(server.Close)
	return s, []string{"--endpoint", server.URL, "--anonymous"}
}

// allBatches returns checksums of every batch's pixels, labels and targets, if they are listed, in
// the first two epochs, by path.
func allBatches(t testing.TB, m *mounted, shards int) map[string]string {
	t.Helper()
	sums := map[string]string{}
	for shard := range shards {
		for epoch := range 2 {
			entries, err := os.ReadDir(m.epochDir(shard, epoch))
			check(t, err)
			for _, e := range entries {
				switch filepath.Ext(e.Name()) {
				case ".nhwc", ".npy", ".jsonl":
				default:
					continue
				}
				data := mustRead(t, filepath.Join(m.epochDir(shard, epoch), e.Name()))
				sums[fmt.Sprintf("%d/%d/%s", shard, epoch, e.Name())] = fmt.Sprintf("%x", sha256.Sum256(data))
			}
		}
	}
	return sums
}

// sameFrom mounts a dataset that may be in a store, and compares all batches with others.
func sameFrom(t *testing.T, want map[string]string, shards int, place string, flags ...string) *mounted {
	t.Helper()
	m := mountBatchfs(t, place, flags...)
	m.sockets = slices.Contains(flags, "--endpoint")
	got := allBatches(t, m, shards)
	for path, sum := range want {
		if got[path] != sum {
			t.Errorf("%s: %s is not the same", place, path)
		}
	}
	if len(got) != len(want) || len(want) == 0 {
		t.Errorf("%s: %d files, of %d\n%s", place, len(got), len(want), m.logged())
	}
	return m
}

// A packer writes a dataset's files into one file.
type packer func(t *testing.T, ds *dataset.Dataset, out io.Writer)

func contentOf(t *testing.T, ds *dataset.Dataset, i int) []byte {
	return mustRead(t, filepath.Join(ds.Root, ds.Path(i)))
}

// asTar packs in reverse order, as the order of a tar of class directories must not matter.
func asTar(t *testing.T, ds *dataset.Dataset, out io.Writer) {
	w := tar.NewWriter(out)
	for i := ds.Len() - 1; i >= 0; i-- {
		data := contentOf(t, ds, i)
		check(t, w.WriteHeader(&tar.Header{Name: ds.Path(i), Size: int64(len(data)), Mode: 0o644}))
		_, err := w.Write(data)
		check(t, err)
	}
	check(t, w.Close())
}

func asZip(method uint16) packer {
	return func(t *testing.T, ds *dataset.Dataset, out io.Writer) {
		w := zip.NewWriter(out)
		for i := range ds.Len() {
			f, err := w.CreateHeader(&zip.FileHeader{Name: ds.Path(i), Method: method})
			check(t, err)
			_, err = f.Write(contentOf(t, ds, i))
			check(t, err)
		}
		check(t, w.Close())
	}
}

func asParquet(options ...parquet.WriterOption) packer {
	type picture struct {
		Bytes []byte `parquet:"bytes,plain"`
		Path  string `parquet:"path,plain"`
	}
	type row struct {
		Image picture `parquet:"image"`
		Label int64   `parquet:"label"`
	}
	return func(t *testing.T, ds *dataset.Dataset, out io.Writer) {
		w := parquet.NewGenericWriter[row](out, options...)
		for i := range ds.Len() {
			_, err := w.Write([]row{{picture{contentOf(t, ds, i), ds.Path(i)}, int64(ds.Label(i))}})
			check(t, err)
		}
		check(t, w.Close())
	}
}

// TestSameBatchesFromAnywhere: the same samples in the same order make the same batches, whether
// they are files, members of an archive, or in an object store.
func TestSameBatchesFromAnywhere(t *testing.T) {
	images := mixedImages(t)
	ds, err := dataset.Open(context.Background(), images, dataset.Options{Prober: sample.Probe})
	check(t, err)
	defer ds.Close()
	dir := scratch(t)
	bucket := filepath.Join(dir, "bucket")
	check(t, os.Mkdir(bucket, 0o755))
	check(t, os.CopyFS(filepath.Join(bucket, "images"), os.DirFS(images)))
	for name, pack := range map[string]packer{
		"x.tar": asTar, "stored.zip": asZip(zip.Store), "deflated.zip": asZip(zip.Deflate),
		"plain.parquet": asParquet(), "snappy.parquet": asParquet(parquet.Compression(&parquet.Snappy)),
	} {
		f, err := os.Create(filepath.Join(bucket, name))
		check(t, err)
		pack(t, ds, f)
		check(t, f.Close())
	}
	_, remote := objectStore(t, dir)
	flags := []string{"--shards", "2", "--batch-size", "7", "--shuffle", "--seed", "5", "--resize", "random-resized-crop", "--size", "48x48", "--list", "nhwc,labels.npy,ids.npy"}
	want := allBatches(t, mountBatchfs(t, images, flags...), 2)
	for _, from := range []string{
		bucket + "/stored.zip", bucket + "/snappy.parquet", "s3://bucket/x.tar", "s3://bucket/deflated.zip", "s3://bucket/plain.parquet", "s3://bucket/images",
	} {
		t.Run(filepath.Base(from), func(t *testing.T) {
			m := sameFrom(t, want, 2, from, slices.Concat(flags, remote)...)
			for id, has := range policies(t, m.pid()) {
				if has != unix.SCHED_BATCH {
					t.Errorf("thread %d has the scheduling policy %d, not %d", id, has, unix.SCHED_BATCH)
				}
			}
		})
	}
}

// policies are the scheduling policies of a process's threads, by their ids.
func policies(t *testing.T, pid int) map[int]uint32 {
	t.Helper()
	threads, err := os.ReadDir(fmt.Sprintf("/proc/%d/task", pid))
	check(t, err)
	all := map[int]uint32{}
	for _, thread := range threads {
		id, err := strconv.Atoi(thread.Name())
		check(t, err)
		attr, err := unix.SchedGetAttr(id, 0)
		if errors.Is(err, unix.ESRCH) { // it has ended
			continue
		}
		check(t, err)
		all[id] = attr.Policy
	}
	return all
}

// A faultyStore has tiles, in s3://tiles, and fails as a test says.
type faultyStore struct {
	fakestore.Server
	tiles         string
	flags         []string
	fault         atomic.Value  // a status, reset, hang, sometimes or quota; "": none
	held, release chan struct{} // of requests that hang

	mu               sync.Mutex
	second           int64
	inSecond         int // requests in this second
	allowed, refused int // under a quota
}

const (
	storeSide  = 8
	storeQuota = 300 // requests a second
)

func newFaultyStore(t *testing.T, tiles int) *faultyStore {
	skipWithoutFUSE(t)
	dir := scratch(t)
	s := &faultyStore{tiles: filepath.Join(dir, "tiles"), held: make(chan struct{}, 1000), release: make(chan struct{})}
	for id := range tiles {
		writeFile(t, filepath.Join(s.tiles, tileName(id)), tileFile(id, storeSide))
	}
	s.Dir, s.PerPage, s.Before = dir, 1000, s.before
	s.fault.Store("")
	server := httptest.NewServer(&s.Server)
	t.Cleanup(server.Close)
	s.flags = []string{"--endpoint", server.URL, "--anonymous", "--cache-size", "0"}
	return s
}

// mount mounts the tiles.
func (s *faultyStore) mount(t *testing.T, flags ...string) *mounted {
	m := tileMount(t, "s3://tiles", slices.Concat(s.flags, flags)...)
	m.sockets = true
	return m
}

// before answers a request, or lets the store answer it.
func (s *faultyStore) before(w http.ResponseWriter, r *http.Request) bool {
	kind := s.fault.Load().(string)
	if kind == "sometimes" { // two of three
		kind = []string{"", "503", "reset"}[s.Requests.Load()%3]
	}
	if kind == "quota" {
		if s.allows(time.Now().Unix()) {
			return false
		}
		kind = "503"
	}
	switch kind {
	case "":
		return false
	case "reset":
		if conn, _, err := w.(http.Hijacker).Hijack(); err == nil {
			_ = conn.Close()
		}
	case "hang":
		s.held <- struct{}{}
		select {
		case <-s.release:
		case <-r.Context().Done():
		}
		return false
	default:
		status, _ := strconv.Atoi(kind)
		w.WriteHeader(status)
	}
	return true
}

func (s *faultyStore) allows(now int64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if now != s.second {
		s.second, s.inSecond = now, 0
	}
	if s.inSecond++; s.inSecond <= storeQuota {
		s.allowed++
		return true
	}
	s.refused++
	return false
}

// TestStoreFaults: a store that fails delays or fails the opens that need it, is tried again, and
// leaves no trace. An object that was replaced is a bad sample.
func TestStoreFaults(t *testing.T) {
	const batches = 8
	s := newFaultyStore(t, batches*tileBatch)
	m := s.mount(t, "--prefetch-queue-depth", "0")
	expect := func(m *mounted, when string, epoch int, batches ...int) {
		t.Helper()
		for _, batch := range batches {
			if err := readTiles(m, epoch, batch, storeSide, layout.NHWCForm); err != nil {
				t.Errorf("%s: %v", when, err)
			}
		}
	}
	for _, kind := range []string{"", "sometimes"} {
		s.fault.Store(kind)
		expect(m, "fault "+kind, 0, upTo(batches)...)
	}
	s.fault.Store("")
	brief := s.mount(t, "--prefetch-queue-depth", "0", "--storage-wait", "200ms")
	s.fault.Store("reset")
	expectOpen(t, brief.path(0, 2, 0, layout.NHWCForm), unix.EIO)
	s.fault.Store("")
	expect(brief, "after a long outage", 2, 0)
	expect(m, "after an outage", 2, 0)
	s.fault.Store("403")
	denied := m.path(0, 5, 0, layout.NHWCForm)
	expectOpen(t, denied, unix.EIO)
	if why := m.run(t, suite.binary, "why", denied); !strings.Contains(why, "access denied: 403, without credentials") || !strings.Contains(why, "renew the credentials") {
		t.Errorf("access denied: %s", why)
	}
	s.fault.Store("")
	expect(m, "once access is granted", 5, 0)
	if lines := m.badLines(t); len(lines) > 0 {
		t.Errorf("the outage was blamed on %+v", lines)
	}
	if counted := m.stats(t).Storage.Store; counted.Retries == 0 || counted.Requests > s.Requests.Load() {
		t.Errorf("%d requests were answered, and stats.json says %+v", s.Requests.Load(), counted)
	}
	s.fault.Store("hang")
	cmd := m.command("cat", m.path(0, 3, 1, layout.NHWCForm))
	check(t, cmd.Start())
	<-s.held
	check(t, cmd.Process.Kill())
	interrupted := make(chan error, 1)
	go func() { interrupted <- cmd.Wait() }()
	select {
	case <-interrupted:
	case <-time.After(patience):
		t.Error("an open that waits for the store cannot be interrupted")
	}
	s.fault.Store("")
	close(s.release)

	writeFile(t, filepath.Join(s.tiles, tileName(5)), tileFile(6, storeSide))
	expectOpen(t, m.path(0, 4, 5/tileBatch, layout.NHWCForm), unix.EIO)
	expect(m, "beside a changed object", 4, 0)
	if lines := m.badLines(t); len(lines) != 1 || lines[0].ID != 5 || !strings.Contains(lines[0].Reason, "changed") {
		t.Errorf("a changed object: %+v", lines)
	}
}

// TestStoreOutages: opens wait for a store that is away, however it fails, and a store that limits
// requests per second gets no more than it allows. Nobody gets an error, and the bytes are right.
func TestStoreOutages(t *testing.T) {
	s := newFaultyStore(t, 40*tileBatch)
	s.fault.Store("quota") // from the first request of the first mount on
	m := s.mount(t, "--prefetch-queue-depth", "4")
	epoch := func(epoch int) {
		var readers sync.WaitGroup
		for part := range 4 {
			readers.Go(func() {
				for batch := part; batch < 10; batch += 4 {
					if err := readTiles(m, epoch, batch, storeSide, layout.NHWCForm); err != nil {
						t.Errorf("with %s: %v", s.fault.Load(), err)
					}
				}
			})
		}
		readers.Wait()
	}
	epoch(0)
	s.mu.Lock()
	if s.refused > s.allowed/5 {
		t.Errorf("%d requests were refused, %d were not", s.refused, s.allowed)
	}
	s.mu.Unlock()
	for n, kind := range []string{"503", "reset"} {
		told := strings.Count(m.logged(), "the store does not answer")
		s.fault.Store(kind)
		done := make(chan struct{})
		go func() { defer close(done); epoch(1 + n) }()
		eventually(t, "the log says that the store is away with "+kind, func() bool {
			return strings.Count(m.logged(), "the store does not answer") > told
		})
		if m.stats(t).Storage.Store.Waiting == 0 {
			t.Errorf("with %s, stats.json shows no waiting read", kind)
		}
		s.fault.Store("")
		<-done
	}
	if n := strings.Count(m.logged(), "the store answers again"); n != 2 {
		t.Errorf("the log says %d times that the store answers again", n)
	}
	if lines := m.badLines(t); len(lines) > 0 {
		t.Errorf("outages were blamed on %+v", lines)
	}
}
