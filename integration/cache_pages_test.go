package integration

import (
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/batchfs/batchfs/internal/testkit"
	"github.com/batchfs/batchfs/layout"
)

// TestPageCacheStaysEmpty: neither indexing nor reading leaves any of the dataset in the page
// cache, with batchfs's own cache or without, unless files are read through the page cache. A file
// that is entirely in the page cache is read from there, and stays.
func TestPageCacheStaysEmpty(t *testing.T) {
	const n, side = 16, 60 // files that end within a page
	dir := tiles(t, n, side)
	testkit.OnDisk(t, dir)
	count := func() (sum int) {
		for id := range n {
			sum += testkit.PagesCached(t, filepath.Join(dir, tileName(id)))
		}
		return sum
	}
	written := count()
	if written < n {
		t.Fatalf("%d pages of %d files that were just written", written, n)
	}
	for id := range n {
		f, err := os.Open(filepath.Join(dir, tileName(id)))
		if err == nil {
			err = f.Sync() // dirty pages cannot leave the page cache
		}
		if err == nil {
			err = unix.Fadvise(int(f.Fd()), 0, 0, unix.FADV_DONTNEED)
			f.Close()
		}
		check(t, err)
	}
	execute(t, "index", dir).done(t)
	if left := count(); left > 0 {
		t.Errorf("%d pages when it was indexed", left)
	}
	for _, how := range [][]string{
		cacheFlags("constant", 0), cacheFlags("constant", 1<<20), cacheFlags("static", 100<<10),
		cacheFlags("constant", 0, "--max-read-bandwidth", "1GB"),
	} {
		m := tileMount(t, dir, how...)
		for epoch := range 2 {
			for batch := range n / tileBatch {
				m.expectTiles(t, epoch, batch, side, layout.NHWCForm)
			}
		}
		m.finish(t) // no reads are in progress after this
		if left := count(); left > 0 {
			t.Errorf("%d pages after reading with %v", left, how)
		}
	}
	m := tileMount(t, dir, cacheFlags("constant", 0, "--io", "buffered")...)
	for batch := range n / tileBatch {
		m.expectTiles(t, 0, batch, side, layout.NHWCForm)
	}
	if there := count(); there < written {
		t.Errorf("%d pages of %d after reading through the page cache", there, written)
	}
	m.finish(t)
	if unix.Cachestat(0, &unix.CachestatRange{}, &unix.Cachestat_t{}, 0) == unix.ENOSYS {
		return
	}
	m = tileMount(t, dir, cacheFlags("constant", 0)...)
	for batch := range n / tileBatch {
		m.expectTiles(t, 0, batch, side, layout.NHWCForm)
	}
	m.finish(t)
	if there := count(); there < written {
		t.Errorf("%d pages of %d after reading what was in the page cache", there, written)
	}
}
