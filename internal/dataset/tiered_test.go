package dataset

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/batchfs/batchfs/internal/archive"
	"github.com/batchfs/batchfs/internal/option"
	"github.com/batchfs/batchfs/internal/testkit"
)

// TestLocalCache: bytes that were read once are read again without the store, by this mount and the
// next, in the indexed version.
func TestLocalCache(t *testing.T) {
	p := newPlace(t)
	names := p.several()
	p.pack("one.tar", "", names...)
	want := contentsOf(t, p.open("d"))
	reads, how := p.serveNoting()
	dir := t.TempDir()
	cached := func(o *Options) { o.Storage.LocalCache = LocalCache{Dir: dir, Size: 1 << 30} }
	for _, url := range []string{"s3://data/d", "s3://data/one.tar"} {
		d := p.open(url, how, cached)
		equal(t, want, contentsOf(t, d), "%s", url)
		d.remote.(*tiered).tier.Settle()
		testkit.Must(t, d.Close())
		again := p.open(url, how, cached)
		before := reads.count.Load()
		equal(t, want, contentsOf(t, again), "%s again", url)
		if n := reads.count.Load() - before; n != 0 {
			t.Errorf("%s: %d reads went to the store again; %+v", url, n, *again.LocalCache())
		}
		if again.MemoryBytes() <= p.open(url, how).MemoryBytes() {
			t.Error("the memory of the local cache is not counted")
		}
	}
	d := p.open("s3://data/d", how, cached)
	p.write(names[1], "another image")
	equal(t, want, contentsOf(t, d), "the object was replaced")
	files, err := filepath.Glob(filepath.Join(dir, "*", "*"))
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	for _, f := range files { // the cache must hold no credential and no name
		if strings.Contains(f, "data") {
			t.Error(f)
		}
	}
	for _, f := range files {
		testkit.Must(t, os.RemoveAll(f))
	}
	if _, _, err := d.Load(context.Background(), 0, nil, grow); err != nil {
		t.Errorf("without the local cache's files: %v", err)
	}
}

// TestLocalCacheOfPages: a compressed page is fetched once, whichever of its samples is read first,
// and is kept as it is in the store.
func TestLocalCacheOfPages(t *testing.T) {
	const images = 50
	p := newPlace(t)
	p.writePage(images, 0)
	reads, how := p.serveNoting()
	want := contentsOf(t, p.open("s3://data/pages.parquet", how)) // this also indexes it
	d := p.open("s3://data/pages.parquet", how, func(o *Options) { o.Storage.LocalCache = LocalCache{Dir: t.TempDir(), Size: 1 << 30} })
	first, last := d.table.members[0], d.table.members[images-1]
	if first.Coding != archive.Zstd || first.Offset != last.Offset {
		t.Fatalf("the samples are not in one compressed page: %+v, %+v", first, last)
	}
	reads.count.Store(0)
	if _, err := d.Read(30, nil, grow); err != nil {
		t.Fatal(err)
	}
	d.remote.(*tiered).tier.Settle()
	if n := reads.count.Load(); n != 2 {
		t.Errorf("%d reads of the store, not 2: of the page, and of the extent that it lies in", n)
	}
	equal(t, want, contentsOf(t, d), "(-store +local cache)")
	if n := reads.count.Load(); n != 2 {
		t.Errorf("the page went over the network again: %d reads", n)
	}
}

// TestLocalCacheOfChanged: once a changed object is indexed again, its new bytes replace the cached
// ones.
func TestLocalCacheOfChanged(t *testing.T) {
	p := newPlace(t)
	p.images("d/1.jpg", "d/2.jpg")
	_, how := p.serve()
	dir := t.TempDir()
	for _, height := range []int{0, 33, 44} {
		if height > 0 {
			p.write("d/1.jpg", image("jpeg", height, 20, 1))
		}
		want := contentsOf(t, p.open("d", func(o *Options) { o.Rescan = true }))
		d := p.open("s3://data/d", how, func(o *Options) {
			o.Rescan, o.Storage.LocalCache = true, LocalCache{Dir: dir, Size: 1 << 30}
		})
		equal(t, want, contentsOf(t, d), "")
		d.remote.(*tiered).tier.Settle()
		files, err := filepath.Glob(filepath.Join(dir, "*", "??", "*"))
		if err != nil || len(files) != 2 {
			t.Errorf("there are %d extents of 2 objects, %v", len(files), err)
		}
		before := d.LocalCache().Misses
		if contentsOf(t, d); d.LocalCache().Misses != before {
			t.Errorf("the new version is not there: %+v", *d.LocalCache())
		}
		d.Close()
	}
}

// TestLocalCacheWithoutVersions: the time of an object serves as its version. Without a time,
// nothing is kept, which the log says once.
func TestLocalCacheWithoutVersions(t *testing.T) {
	p := newPlace(t)
	names := p.several()
	p.pack("one.tar", "", names...)
	for _, timed := range []bool{true, false} {
		files := http.FileServer(http.Dir(p.path(".")))
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if !timed {
				w = timeless{w}
			}
			files.ServeHTTP(w, r)
		}))
		t.Cleanup(server.Close)
		var log strings.Builder
		d := p.open(server.URL+"/one.tar", func(o *Options) {
			o.Storage.LocalCache.Dir, o.Logger = t.TempDir(), slog.New(slog.NewTextHandler(&log, nil))
		})
		contentsOf(t, d)
		d.remote.(*tiered).tier.Settle()
		if kept := d.LocalCache().KeptBytes > 0; kept != timed || strings.Count(log.String(), "neither version nor time") == 0 != timed {
			t.Errorf("time %t: kept %t, log: %s", timed, kept, &log)
		}
	}
}

func TestLocalCacheRefused(t *testing.T) {
	p := newPlace(t)
	p.images("d/1.jpg")
	_, how := p.serve()
	file := filepath.Join(t.TempDir(), "file")
	testkit.Must(t, os.WriteFile(file, nil, 0o600))
	for _, c := range []struct {
		url   string
		cache LocalCache
		flag  bool
	}{
		{p.path("d"), LocalCache{Dir: t.TempDir()}, true},
		{"s3://data/d", LocalCache{Size: 100}, true},
		{"s3://data/d", LocalCache{Dir: t.TempDir(), Size: -1}, true},
		{"s3://data/d", LocalCache{Dir: file}, false},
	} {
		_, err := p.tryOpen(c.url, how, func(o *Options) { o.Storage.LocalCache = c.cache })
		if _, flag := errors.AsType[*option.Error](err); err == nil || flag != c.flag {
			t.Errorf("%s, %+v: %v", c.url, c.cache, err)
		}
	}
}
