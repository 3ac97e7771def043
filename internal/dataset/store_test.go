package dataset

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/batchfs/batchfs/internal/fakestore"
	"github.com/batchfs/batchfs/internal/fault"
	"github.com/batchfs/batchfs/internal/testkit"
	"github.com/google/go-cmp/cmp"
)

// serve serves the dataset's directory as a bucket named data, and returns the flags for it.
func (p *place) serve() (*fakestore.Server, func(*Options)) {
	s := &fakestore.Server{Dir: p.path("..")}
	server := httptest.NewServer(s)
	p.t.Cleanup(server.Close)
	return s, func(o *Options) { o.Store.Endpoint, o.Store.Anonymous, o.Store.Wait = server.URL, true, -1 }
}

// varied writes images of several classes and formats, and returns their names.
func (p *place) several() []string {
	names := []string{"d/b-1/z.jpg", "d/b/2.png", "d/b/1.jpg", "d/a/sub/3.jpg", "d/a/9.jpg", "d/a/x.bmp", "d/c/1.jpg"}
	for k, n := range names {
		format := map[string]string{"jpg": "jpeg", "png": "png", "bmp": "bmp"}[n[len(n)-3:]]
		p.write(n, image(format, 10+k, 20+k, 1)+strings.Repeat(n, 1000*k))
	}
	p.write("d/a/readme.txt", "x")
	p.write("d/__MACOSX/x.jpg", "no sample, and no class")
	return names
}

// TestMetadataInAStore: looking for a folder's manifest takes one round trip. The store does not
// answer before it has all requests.
func TestMetadataInAStore(t *testing.T) {
	p := newPlace(t)
	p.images("d/a/1.jpg")
	s, how := p.serve()
	var missing sync.WaitGroup
	missing.Add(len(manifests))
	s.Before = func(_ http.ResponseWriter, r *http.Request) bool {
		if strings.Contains(r.URL.Path, "/metadata.") {
			missing.Done()
			missing.Wait()
		}
		return false
	}
	p.open("s3://data/d", how)
	s.Before = nil
	p.write("d/metadata.csv", "")
	p.write("d/metadata.parquet", "")
	_, err := p.tryOpen("s3://data/d", how)
	if !errors.Is(err, ErrManifests) || !strings.Contains(err.Error(), "s3://data/d/: ") || !strings.Contains(err.Error(), "metadata.csv and metadata.parquet") {
		t.Errorf("two of them: %v", err)
	}
}

// TestListOfALargeFolder: with an index, parts of a folder are listed concurrently. The result is
// the current list.
func TestListOfALargeFolder(t *testing.T) {
	p := newPlace(t)
	const many, parts = 960, 2
	for i := range many {
		p.write(fmt.Sprintf("d/%d/%d.x.jpg", i%3, i), image("jpeg", 10, 10, 1))
	}
	s, how := p.serve()
	s.PerPage = 1000
	d := p.open("s3://data/d", how)
	p.write("d/0/zz.jpg", image("jpeg", 10, 10, 1))
	before := s.Requests.Load()
	again := p.open("s3://data/d", how)
	if n := s.Requests.Load() - before; n > int64(len(manifests)+parts+1) {
		t.Errorf("%d requests", n)
	}
	if d.Len() != many || again.Len() != many+1 || again.Report.Scanned != 1 {
		t.Errorf("%d and %d samples, %d of which were looked at", d.Len(), again.Len(), again.Report.Scanned)
	}
	var missing sync.WaitGroup
	missing.Add(parts)
	s.Before = func(_ http.ResponseWriter, r *http.Request) bool {
		if r.URL.Query().Has("list-type") { // answer only when all requests are there
			missing.Done()
			missing.Wait()
		}
		return false
	}
	if third := p.open("s3://data/d", how); third.Digest != again.Digest {
		t.Error("another dataset")
	}
}

// TestKeys: keys that cannot be paths do not become folders, and thus classes. An image with such a
// key is an error, not silently left out.
func TestKeys(t *testing.T) {
	p := newPlace(t)
	p.images("d/a/1.jpg")
	s, how := p.serve()
	odd := ""
	s.Before = func(w http.ResponseWriter, r *http.Request) bool {
		if !r.URL.Query().Has("prefix") {
			return false
		}
		fmt.Fprint(w, "<ListBucketResult>")
		for _, key := range slices.Sorted(slices.Values([]string{odd, "d/", "d/a/1.jpg", "d/b/"})) {
			fmt.Fprintf(w, "<Contents><Key>%s</Key><LastModified>2026-01-01T00:00:00Z</LastModified></Contents>", key)
		}
		fmt.Fprint(w, "</ListBucketResult>")
		return true
	}
	for _, odd = range []string{"d//", "d//readme.txt", "d/../c/x"} {
		d, err := p.tryOpen("s3://data/d", how)
		if err != nil || !slices.Equal(d.Classes, []string{"a", "b"}) {
			t.Errorf("%s: %v", odd, err)
		}
	}
	for _, odd = range []string{"d//1.jpg", "d/a//1.jpg", "d/a/../1.jpg"} {
		p.refused(nil, odd, "s3://data/d", how)
	}
}

// TestWithoutVersions: for web servers without versions, the time when a file was written serves.
func TestWithoutVersions(t *testing.T) {
	p := newPlace(t)
	names := p.several()
	p.pack("one.tar", "", names...)
	server := httptest.NewServer(http.FileServer(http.Dir(p.path("."))))
	t.Cleanup(server.Close)
	d := p.open(server.URL + "/one.tar")
	equal(t, contentsOf(t, p.open("d")), contentsOf(t, d), "")
	later := time.Now().Add(time.Hour)
	testkit.Must(t, os.Chtimes(p.path("one.tar"), later, later))
	if _, _, _, err := d.LoadPart(context.Background(), 0, 0, nil, grow, nil, 0); !errors.Is(err, ErrChanged) {
		t.Errorf("written anew: %v", err)
	}
}

// TestWithoutVersionsOrTimes: an archive is searched each time if nothing shows whether it changed.
func TestWithoutVersionsOrTimes(t *testing.T) {
	p := newPlace(t)
	files := http.FileServer(http.Dir(p.path(".")))
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { files.ServeHTTP(timeless{w}, r) }))
	t.Cleanup(server.Close)
	p.images("d/a/1.jpg", "d/b/2.jpg")
	p.pack("x.tar", "", "d/a/1.jpg")
	p.open(server.URL + "/x.tar")
	p.write("d/b/2.jpg", image("jpeg", 30, 40, 1))
	p.pack("x.tar", "", "d/b/2.jpg") // of the same size
	d := p.open(server.URL + "/x.tar")
	if height, width := d.Size(0, false); d.Path(0) != "b/2.jpg" || height != 30 || width != 40 {
		t.Errorf("the index has %s, %dx%d", d.Path(0), height, width)
	}
}

// timeless answers without the time when the object was written.
type timeless struct{ http.ResponseWriter }

func (w timeless) WriteHeader(status int) {
	w.Header().Del("Last-Modified")
	w.ResponseWriter.WriteHeader(status)
}

// TestStoreFails: a problem of an object is the sample's fault; one of the store is not.
func TestStoreFails(t *testing.T) {
	p := newPlace(t)
	p.images("d/a/1.jpg", "d/a/2.jpg", "d/b/3.jpg")
	s, how := p.serve()
	var status atomic.Int64
	s.Before = func(w http.ResponseWriter, r *http.Request) bool {
		n := int(status.Load())
		if n > 0 {
			w.WriteHeader(n)
		}
		return n > 0
	}
	d := p.open("s3://data/d", how)
	load := func(i int) (Identity, error) {
		_, id, err := d.Load(context.Background(), i, nil, grow)
		return id, err
	}
	p.write("d/a/1.jpg", image("jpeg", 10, 21, 1))
	if id, err := load(0); !errors.Is(err, ErrChanged) || fault.Of(err) != fault.File || id.Known() {
		t.Errorf("changed: %+v, %v", id, err)
	}
	testkit.Must(t, os.Remove(p.path("d/a/2.jpg")))
	if id, err := load(1); !errors.Is(err, ErrMissing) || fault.Of(err) != fault.File || id.Known() {
		t.Errorf("missing: %+v, %v", id, err)
	}
	for _, n := range []int{500, 503, 403} {
		status.Store(int64(n))
		if _, err := load(2); err == nil || fault.Of(err) == fault.File || (n >= 500) != errors.Is(err, ErrAway) {
			t.Errorf("%d: %v", n, err)
		}
		if _, err := p.tryOpen("s3://data/d", how); err == nil {
			t.Errorf("%d: opened", n)
		}
	}
	status.Store(0)
	if _, err := load(2); err != nil {
		t.Errorf("the store is back: %v", err)
	}
	p.probes()
	if d := p.open("s3://data/d", how); d.Len() != 2 || p.probes() != 1 {
		t.Errorf("listed again: %d samples", d.Len())
	}
}

// TestVersionOfWhatWasMissing: an object unknown to the index is always read in the version that
// was read first, even if other readers see another one. Failed reads take no memory.
func TestVersionOfWhatWasMissing(t *testing.T) {
	p := newPlace(t)
	p.images("d/1.jpg")
	p.write("m.csv", "path\nd/1.jpg\nd/2.jpg\n")
	_, how := p.serve()
	d := p.open("s3://data/m.csv", how)
	const i = 1
	opened := func(height int) file {
		t.Helper()
		p.write("d/2.jpg", image("jpeg", height, 20, 1))
		f, err := d.storages[0].openRow(context.Background(), d.table, i)
		if err != nil || f.object.Version == "" {
			t.Fatal(f.object, err)
		}
		return f
	}
	first := opened(10)
	before := d.MemoryBytes()
	var last file
	for k := range 100 {
		last = opened(20 + k%2)
	}
	if n := d.MemoryBytes() - before; n > 0 {
		t.Errorf("%d bytes more after reads that failed", n)
	}
	testkit.Must(t, (&reading{reader: d.reader, i: i, storage: d.storages[0], file: first}).checkUnchanged())
	if err := (&reading{reader: d.reader, i: i, storage: d.storages[0], file: last}).checkUnchanged(); !errors.Is(err, ErrChanged) {
		t.Errorf("two versions were read: %v", err)
	}
	if f := d.objectOf(d.table, i); f.id != first.id || f.object.Version != first.object.Version {
		t.Errorf("version %s is read with the identity of %s", f.object.Version, first.object.Version)
	}
}

// TestHeadersAreReadTogether: headers that are near one another in an object take one request.
func TestHeadersAreReadTogether(t *testing.T) {
	p := newPlace(t)
	var names []string
	for i := range 200 {
		names = append(names, fmt.Sprintf("d/%03d.jpg", i))
		p.write(names[i], image("jpeg", 10, 20, 1)+strings.Repeat("x", 20_000))
	}
	p.pack("x.tar", "", names...)
	s, how := p.serve()
	d := p.open("s3://data/x.tar", how)
	if n := s.Requests.Load(); d.Len() != 200 || n != 2 {
		t.Errorf("%d requests for %d samples", n, d.Len())
	}
	if r := d.Report; r.Scanned != 200 || r.Reused != 0 {
		t.Errorf("%d headers were read, %d were known", r.Scanned, r.Reused)
	}
	if problems := d.Report.Unreadable; problems > 0 {
		t.Errorf("%d samples are bad: %s", problems, d.Problem(0))
	}
}

// TestRepositoryOfParquet: other files beside the Parquet files of a repository do not matter, but
// the user must say which part of the dataset is meant.
func TestRepositoryOfParquet(t *testing.T) {
	type row struct {
		Image struct {
			Bytes []byte `parquet:"bytes,plain"`
			Path  string `parquet:"path,plain"`
		} `parquet:"image"`
		Label int64 `parquet:"label"`
	}
	p := newPlace(t)
	p.write("d/README.md", "x")
	p.write("d/.gitattributes", "x")
	for k, name := range []string{"train-00000-of-00002", "train-00001-of-00002", "test-00000-of-00001"} {
		rows := make([]row, 2)
		for i := range rows {
			rows[i].Image.Bytes, rows[i].Image.Path, rows[i].Label = []byte(image("jpeg", 10+k, 20+i, 1)), fmt.Sprintf("%d.jpg", i), int64(k)
		}
		p.mkdir("d/data")
		writeParquet(t, p.path("d/data/"+name+".parquet"), rows)
	}
	_, how := p.serve()
	_, err := p.tryOpen("s3://data/d", how)
	if e, ok := errors.AsType[*AmbiguousError](err); !ok || e.Meant != "data/train-*.parquet" || !slices.Equal(e.Parts, []string{"test", "train"}) {
		t.Errorf("%v", err)
	}
	d := p.open("s3://data/d/data/train-*.parquet", how)
	if got := labels(d); !slices.Equal(got, []int{0, 0, 1, 1}) {
		t.Errorf("labels %v", got)
	}
	if h, w := d.Size(3, false); h != 11 || w != 21 || d.Path(3) != "train-00001-of-00002.parquet/1.jpg" {
		t.Errorf("sample 3: %dx%d, %s", h, w, d.Path(3))
	}
	if again := p.open("s3://data/d/data/train-*.parquet", how); !cmp.Equal(describe(d), describe(again)) || again.Report.Scanned > 0 {
		t.Error(cmp.Diff(describe(d), describe(again)))
	}
}

// TestWholeBucket: a bucket is a folder, too, and may have a manifest.
func TestWholeBucket(t *testing.T) {
	p := newPlace(t)
	p.images("b/1.jpg", "a/2.jpg")
	_, how := p.serve()
	if d := p.open("s3://data", how); !slices.Equal(paths(d), []string{"a/2.jpg", "b/1.jpg"}) || d.Name != "s3://data/" {
		t.Errorf("%s: %q", d.Name, paths(d))
	}
	p.write("metadata.csv", "file_name,label\nb/1.jpg,7\n")
	for _, url := range []string{"s3://data", "s3://data/"} {
		if d := p.open(url, how); !slices.Equal(labels(d), []int{7}) {
			t.Errorf("%s: labels %v", url, labels(d))
		}
	}
	if d := p.open("s3://data/", how, func(o *Options) { o.IgnoreMetadata = true }); d.Len() != 2 {
		t.Errorf("without its metadata: %q", paths(d))
	}
	for url, want := range map[string]error{"s3://data/c": ErrNotExist, "s3://data/x.tar": ErrNotExist, "s3://data/x.csv": ErrNotExist, "s3://data/x-{0..3}.tar": ErrNotExist, "s3://data/*.zip": ErrNotExist} {
		p.refused(want, "", url, how)
	}
}

// TestIndexOfDALI: of a tar of large images in a store, only the parts named by DALI's index beside
// it are read. A damaged index, or one of another tar, changes only how much is read, and one log
// line names it.
func TestIndexOfDALI(t *testing.T) {
	const samples, size = 20, 400_000
	p := newPlace(t)
	var files []string
	idx, old, place := fmt.Sprintf("v1.2 %d\n", samples), fmt.Sprintf("v1.2 %d\n", samples), 512
	for i := range samples {
		files = append(files, fmt.Sprintf("w/%02d.jpg", i), fmt.Sprintf("w/%02d.cls", i))
		image := image("jpeg", 10+i, 20, 1)
		p.write(files[2*i], image+strings.Repeat("x", size-len(image)))
		p.write(files[2*i+1], fmt.Sprint(i))
		idx += fmt.Sprintf("jpg %d %d %s ", place, size, files[2*i])
		old += fmt.Sprintf("jpg %d %d %s\n", place+size/2, size/2, files[2*i])
		place += (size+511)/512*512 + 512
		idx += fmt.Sprintf("cls %d %d %s\n", place, len(fmt.Sprint(i)), files[2*i+1])
		place += 1024
	}
	p.pack("x.tar", "", files...)
	reads, how := p.serveNoting()
	const all = samples * size
	var want string
	for _, c := range []struct {
		name, idx string
		less      bool
		log       string
	}{
		{"none", "", false, ""},
		{"true", idx, true, ""},
		{"old", old, false, "that of another tar"},
		{"cut", idx[:len(idx)-20], false, "a line ends within a file"},
		{"another file", "x", false, "its version"},
	} {
		if c.idx != "" {
			p.write("x.idx", c.idx)
		}
		var log bytes.Buffer
		reads.bytes.Store(0)
		d := p.open("s3://data/x.tar", how, at(t.TempDir()), func(o *Options) {
			o.Memory, o.Logger = 12<<20, slog.New(slog.NewTextHandler(&log, nil))
		})
		if got := strings.Join(describe(d), "\n"); want == "" {
			want = got
		} else if got != want {
			t.Errorf("%s: another dataset:\n%s", c.name, got)
		}
		if n := reads.bytes.Load(); (n < all/10) != c.less || n > 2*all {
			t.Errorf("%s: %d bytes were asked for, of %d", c.name, n, all)
		}
		if lines := strings.Count(log.String(), "DALI"); !strings.Contains(log.String(), c.log) || (lines == 1) != (c.log != "") {
			t.Errorf("%s: the log is %s", c.name, log.String())
		}
		if r := d.Report; r.Scanned != samples {
			t.Errorf("%s: %d headers were read", c.name, r.Scanned)
		}
	}
}
