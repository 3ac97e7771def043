package dataset

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/parquet-go/parquet-go"

	"github.com/batchfs/batchfs/internal/facts"
	"github.com/batchfs/batchfs/internal/testkit"
)

// archives writes n tars of samples with labels, n tars of folders, and n Parquet files.
func (p *place) archives(n int) {
	for k := range n {
		p.web(k, 2+k%4, "name2", fmt.Sprintf("name%d", k%3))
		var files []string
		for i := range 3 {
			name := fmt.Sprintf("d/class%d/%d-%d.jpg", (i+k)%4, k, i)
			p.write(name, image("jpeg", 10+k, 20+i, 1))
			files = append(files, name)
		}
		p.write(fmt.Sprintf("d/only%d/readme.txt", k), "x") // a class without images
		p.pack(fmt.Sprintf("tree-%02d.tar", k), "", append(files, fmt.Sprintf("d/only%d/readme.txt", k))...)
		rows := make([]rowImage, 3)
		for i := range rows {
			rows[i] = rowImage{[]byte(image("png", 5+k, 6+i, 1)), int64(k)}
		}
		p.writePages(fmt.Sprintf("rows-%02d.parquet", k), &parquet.Uncompressed, rows)
	}
	p.settle()
}

// web writes a WebDataset.
func (p *place) web(k, samples int, classes ...string) {
	var files []string
	for i := range samples {
		for field, text := range map[string]string{"jpg": image("jpeg", 3+i, 4+k, 6), "cls": classes[i%len(classes)], "txt": "x"} {
			files = append(files, fmt.Sprintf("w%02d/%d.%s", k, i, field))
			p.write(files[len(files)-1], text)
		}
	}
	slices.Sort(files)
	p.pack(fmt.Sprintf("web-%02d.tar", k), "", files...)
}

// reads counts reads of objects in a store. With answer set, it lets those of n objects pass, and
// calls answer for the others; true means that answer has answered.
type reads struct {
	mu           sync.Mutex
	n            int
	answer       func(w http.ResponseWriter) bool
	all          []string
	count, bytes atomic.Int64
}

func (r *reads) before(w http.ResponseWriter, q *http.Request) bool {
	var from, to int64
	_, err := fmt.Sscanf(q.Header.Get("Range"), "bytes=%d-%d", &from, &to)
	if q.Method != http.MethodGet || err != nil || to == 0 { // a request for the version only
		return false
	}
	r.count.Add(1)
	r.bytes.Add(to + 1 - from)
	name := filepath.Base(q.URL.Path)
	r.mu.Lock()
	again := slices.Contains(r.all, name) // a slow request is sent twice
	if !again {
		r.n--
	}
	over, answer := !again && r.n < 0 && r.answer != nil, r.answer
	if !over {
		r.all = append(r.all, name)
	}
	r.mu.Unlock()
	return over && answer(w)
}

// serveNoting is serve with reads counted.
func (p *place) serveNoting() (*reads, func(*Options)) {
	r := &reads{}
	s, how := p.serve()
	s.Before = r.before
	return r, how
}

// until lets reads of n more objects pass, and then calls answer for each.
func (r *reads) until(n int, answer func(w http.ResponseWriter) bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.n, r.answer, r.all = n, answer, nil
}

// names returns the archives read since the last call, without duplicates.
func (r *reads) names() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	all := slices.Compact(slices.Sorted(slices.Values(r.all)))
	r.all = nil
	return all
}

// eventually waits until a condition holds.
func eventually(t testing.TB, what string, holds func() bool) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); !holds(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Errorf("never: %s", what)
			return
		}
	}
}

// TestSearchGoesOn: wherever an outage or the caller interrupts the search of archives, the next
// run searches only archives without saved results. The index is byte for byte that of a single
// run.
func TestSearchGoesOn(t *testing.T) {
	usual := longSearch
	defer func() { longSearch = usual }()
	const archives = 12
	p := newPlace(t)
	p.archives(archives)
	r, how := p.serveNoting()
	for _, c := range []struct {
		url   string
		after int // requests
		ctrlC bool
		part  Share
		of    int // archives
	}{
		{"s3://data/web-*.tar", 5, false, Share{}, archives},
		{"s3://data/web-*.tar", 11, true, Share{}, archives},
		{"s3://data/web-*.tar", 0, false, Share{}, archives},
		{"s3://data/tree-*.tar", 1, true, Share{}, archives},
		{"s3://data/tree-*.tar", 7, false, Share{}, archives},
		{"s3://data/web-*.tar", 3, false, Share{1, 2}, archives / 2},
	} {
		t.Run(fmt.Sprintf("%s after %d", c.url, c.after), func(t *testing.T) {
			share := func(o *Options) { o.Part, o.Rescan = c.part, true }
			longSearch = usual // nothing is saved
			want := p.open(c.url, how, share, at(t.TempDir()))
			longSearch = 1
			dir := t.TempDir()
			r.names()
			first := p.interrupt(r, c.url, c.after, c.ctrlC, how, share, at(dir))
			d := p.open(c.url, how, share, at(dir))
			second := r.names()
			if len(first) != c.after || len(second) != c.of-c.after || slices.ContainsFunc(second, func(name string) bool { return slices.Contains(first, name) }) {
				t.Errorf("read %q, and then %q", first, second)
			}
			if r := d.Report; r.Scanned+r.Reused != d.Len() || (r.Reused > 0) != (c.after > 0) {
				t.Errorf("%d headers were read, %d were known, of %d", r.Scanned, r.Reused, d.Len())
			}
			sameIndex(t, want, d)
			if left := journals(dir); len(left) > 0 {
				t.Errorf("left behind: %q", left)
			}
		})
	}
}

func sameIndex(t *testing.T, want, got *Dataset) {
	t.Helper()
	a, errA := os.ReadFile(want.IndexPath)
	b, errB := os.ReadFile(got.IndexPath)
	if errA != nil || errB != nil || string(a) != string(b) {
		t.Errorf("another index: %v, %v", errA, errB)
	}
}

// journals returns the journals of interrupted openings.
func journals(dir string) []string {
	files, _ := filepath.Glob(dir + "/*" + factsExtension + journalMark + "*")
	return files
}

// journaled counts the archives in journals.
func journaled(t testing.TB, dir string) (n int) {
	t.Helper()
	for _, path := range journals(dir) {
		f, err := os.Open(path)
		testkit.Must(t, err)
		_ = facts.Read(f, 1<<30, func(kind byte, _ []byte, _ int64) error { // up to the present end of the file
			if kind == objectRecord {
				n++
			}
			return nil
		})
		f.Close()
	}
	return n
}

// interrupt opens a dataset of archives until some were searched, and returns those. Then the store
// is away, or if enough is set, the caller gives up.
func (p *place) interrupt(r *reads, url string, after int, enough bool, change ...func(*Options)) []string {
	p.t.Helper()
	o := p.options()
	for _, f := range change {
		f(&o)
	}
	ctx, cancel := context.WithCancel(p.t.Context())
	defer cancel()
	r.until(after, func(w http.ResponseWriter) bool {
		eventually(p.t, "everything that was found is saved", func() bool { return journaled(p.t, o.IndexAt) == after })
		if enough {
			cancel()
		}
		w.WriteHeader(http.StatusInternalServerError)
		return true
	})
	defer r.until(0, nil)
	want := ErrAway
	if enough {
		want = context.Canceled
	}
	if _, err := Open(ctx, url, o); !errors.Is(err, want) {
		p.t.Fatalf("interrupted: %v", err)
	}
	return r.names()
}

// TestHeadersGoOn: a header that was saved before an interruption is not read again unless its file
// has changed. This holds for files of this machine and in a store, and for archives whose headers
// are read after the search.
func TestHeadersGoOn(t *testing.T) {
	defer func(n int) { savedRows = n }(savedRows)
	savedRows = 20
	p := newPlace(t)
	var names []string
	for i := range 100 {
		names = append(names, fmt.Sprintf("d/c%d/%03d.jpg", i/34, i))
	}
	const header = 5000 // bytes; more than a search of a tar on this machine has in memory
	for _, name := range names {
		p.write(name, fmt.Sprintf("img jpeg 10 20 1 %d\n%*s", header, header, ""))
	}
	p.mkdir("s")
	p.pack("s/0.tar", "", names[:30]...)
	p.pack("s/1.tar", "", names[30:]...)
	p.settle()
	_, how := p.serve()
	for _, name := range []string{"d", "s/*.tar", "s3://data/d"} {
		want := p.open(name, how, at(t.TempDir()))
		dir := t.TempDir()
		interrupt := func(after int64) {
			var left atomic.Int64
			left.Store(after)
			t.Helper()
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			o := p.options()
			how(&o)
			o.Workers, o.IndexAt = 1, dir
			o.Prober = func(data, tail []byte, size int64) (Header, error) {
				if len(data) >= header && left.Add(-1) < 0 {
					cancel()
				}
				return p.c.probe(data, tail, size)
			}
			if _, err := open(ctx, p.find(name), o); !errors.Is(err, context.Canceled) {
				t.Fatalf("%s: interrupted: %v", name, err)
			}
		}
		interrupt(50)
		interrupt(30) // 40 are known, and 20 of these are saved
		if name == "d" {
			p.write("d/c0/000.jpg", image("png", 7, 8, 1))
			want = p.open(name, how, at(t.TempDir()))
		}
		d := p.open(name, how, at(dir))
		known := map[string]int{"d": 59, "s/*.tar": 60, "s3://data/d": 60}[name]
		// A store is asked for several at a time, so more may come than one worker wanted.
		if r := d.Report; r.Reused < known || r.Reused > known && name != "s3://data/d" || r.Scanned != 100-r.Reused {
			t.Errorf("%s: %d headers were read, %d were known", name, r.Scanned, r.Reused)
		}
		sameIndex(t, want, d)
		if left := journals(dir); len(left) > 0 {
			t.Errorf("%s: left behind: %q", name, left)
		}
	}
}

// TestSearchGoesOnWithWhatIsTrue: the next run does not use damaged results of an interrupted
// search, nor results for an archive that has changed.
func TestSearchGoesOnWithWhatIsTrue(t *testing.T) {
	defer func(n int64) { longSearch = n }(longSearch)
	longSearch = 1
	p := newPlace(t)
	p.archives(6)
	r, how := p.serveNoting()
	dir := t.TempDir()
	p.interrupt(r, "s3://data/web-*.tar", 4, false, how, at(dir))
	file := journals(dir)[0]
	text, err := os.ReadFile(file)
	testkit.Must(t, err)
	text[len(text)-1] ^= 1
	testkit.Must(t, os.WriteFile(file, text, 0o600))
	d := p.open("s3://data/web-*.tar", how, at(dir))
	if n := len(r.names()); n != 3 {
		t.Errorf("%d archives were read, of which something usable was saved of all but 3", n)
	}
	sameIndex(t, p.open("s3://data/web-*.tar", how, at(t.TempDir())), d)

	r.names()
	dir = t.TempDir()
	done := p.interrupt(r, "s3://data/web-*.tar", 5, false, how, at(dir))
	changed := done[2]
	var k int
	if _, err := fmt.Sscanf(changed, "web-%d.tar", &k); err != nil {
		t.Fatal(err)
	}
	p.web(k, 3, "another")
	d = p.open("s3://data/web-*.tar", how, at(dir))
	if got := r.names(); len(got) != 2 || !slices.Contains(got, changed) { // and the archive that had not been searched
		t.Errorf("read after %s had changed: %q", changed, got)
	}
	sameIndex(t, p.open("s3://data/web-*.tar", how, at(t.TempDir())), d)
}

// TestOneArchiveChanges: of archives with an order, only new ones are searched, and the classes of
// the others are kept. If nothing has changed, no archive is searched.
func TestOneArchiveChanges(t *testing.T) {
	p := newPlace(t)
	p.archives(6)
	p.web(1, 3, "gone")
	r, how := p.serveNoting()
	rescan := func(o *Options) { o.Rescan = true }
	for _, url := range []string{"s3://data/web-*.tar", "s3://data/tree-*.tar", "s3://data/rows-*.parquet", "s3://data/web-03.tar"} {
		want := p.open(url, how)
		r.names()
		got := p.open(url, how, rescan)
		if again := r.names(); len(again) > 0 || got.Digest != want.Digest || got.Report.Reused != got.Len() {
			t.Errorf("%s: read again: %q", url, again)
		}
	}
	// changed opens the dataset, and checks that only the archives in want are read.
	changed := func(url string, want ...string) *Dataset {
		t.Helper()
		r.names()
		d := p.open(url, how, rescan)
		equal(t, want, r.names(), "read")
		sameIndex(t, p.open(url, how, at(t.TempDir())), d)
		return d
	}
	p.web(1, 4, "new")
	p.web(7, 2, "name0", "name1")
	testkit.Must(t, os.Remove(p.path("web-05.tar")))
	d := changed("s3://data/web-*.tar", "web-01.tar", "web-07.tar")
	equal(t, []string{"name0", "name1", "name2", "new"}, d.Classes, "classes")

	p.write("d/class9/new.jpg", image("jpeg", 4, 5, 1))
	p.pack("tree-02.tar", "", "d/class9/new.jpg")
	changed("s3://data/tree-*.tar", "tree-02.tar")

	p.write("d/class0/3-0.jpg", image("jpeg", 4, 5, 1))
	p.write("d/beside.jpg", image("jpeg", 6, 7, 1)) // no sample, as there are classes
	p.pack("tree-03.tar", "", "d/beside.jpg", "d/class0/3-0.jpg")
	p.open("s3://data/tree-*.tar", how)
	p.pack("tree-02.tar", "", "d/only2/readme.txt")
	changed("s3://data/tree-*.tar", "tree-02.tar", "tree-03.tar")

	p.writePages("rows-02.parquet", &parquet.Uncompressed, []rowImage{{[]byte(image("png", 7, 8, 1)), 3}})
	changed("s3://data/rows-*.parquet", "rows-02.parquet")
}
