package dataset

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/batchfs/batchfs/internal/testkit"
)

// readsDirectly skips a test if the file system has no direct reads.
func readsDirectly(t *testing.T, file string) {
	t.Helper()
	var st unix.Statx_t
	if err := unix.Statx(unix.AT_FDCWD, file, 0, unix.STATX_DIOALIGN, &st); err != nil || st.Dio_offset_align == 0 || st.Dio_offset_align > directUnit {
		t.Skip("SKIPPED: the file system has no direct reads, or does not say so")
	}
}

// TestPageCacheStaysEmpty: neither indexing nor reading leaves files in the page cache, unless all
// of a file was there before. If the kernel does not tell what was there, nothing stays.
func TestPageCacheStaysEmpty(t *testing.T) {
	tells := unix.Cachestat(0, &unix.CachestatRange{}, &unix.Cachestat_t{}, 0) != unix.ENOSYS
	type way struct {
		name  string
		how   Storage
		tells bool
	}
	for _, w := range []way{
		{"direct", Storage{Direct: true}, tells},
		{"refused", Storage{Direct: true, system: failing("direct", unix.EOPNOTSUPP)}, false},
		{"limited", Storage{Direct: true, MaxBandwidth: 1 << 30}, tells},
		{"ordinary", Storage{}, false},
	} {
		t.Run(w.name, func(t *testing.T) {
			p := newPlace(t)
			testkit.OnDisk(t, p.root)
			p.how = w.how
			var manifest string
			sizes := []int{100, 4096, 20_000, 300_000, 1 << 20}
			for i, n := range sizes {
				name := fmt.Sprintf("%d.jpg", i)
				p.write(name, pattern(n))
				manifest += name + "," + strings.Repeat("x", 2000) + "\n"
			}
			p.write("m.csv", "path,remark\n"+manifest)
			count := func() (samples int, list int) {
				for i := range sizes {
					samples += testkit.PagesCached(t, p.path(fmt.Sprintf("%d.jpg", i)))
				}
				return samples, testkit.PagesCached(t, p.path("m.csv"))
			}
			if n, m := count(); n < 300 || m == 0 {
				t.Fatalf("%d pages of what was just written, %d of the manifest", n, m)
			}
			text, err := os.Open(p.path("m.csv"))
			testkit.Must(t, err)
			testkit.Must(t, errors.Join(text.Sync(), text.Close()))
			if !w.how.Direct {
				p.open("m.csv")
				if after, list := count(); after < 300 || list == 0 {
					t.Errorf("%d pages of the samples, %d of the manifest: nothing asked to drop them", after, list)
				}
				return
			}
			for i := range sizes {
				evict(t, p.path(fmt.Sprintf("%d.jpg", i)))
			}
			d := p.open("m.csv")
			after, list := count()
			if after > 0 || list > 0 {
				t.Errorf("after the scan: %d pages of the samples, %d of the manifest", after, list)
			}
			readAll := func() {
				for i, n := range sizes {
					got, err := d.Read(i, nil, wholePages)
					if err != nil || string(got) != pattern(n) {
						t.Errorf("%d of %d bytes, %v", len(got), n, err)
					}
				}
			}
			readAll()
			if n, _ := count(); n > 0 {
				t.Errorf("after an epoch: %d pages", n)
			}
			for i := range sizes { // another program reads them
				os.ReadFile(p.path(fmt.Sprintf("%d.jpg", i)))
			}
			if n, _ := count(); n < 300 {
				t.Errorf("%d pages of what was just read", n)
			}
			readAll()
			if n, _ := count(); w.tells && n < 300 || !w.tells && n > 0 {
				t.Errorf("after another epoch: %d pages", n)
			}
			for i := range sizes { // another program reads a part of each
				path := p.path(fmt.Sprintf("%d.jpg", i))
				evict(t, path)
				f, err := os.Open(path)
				testkit.Must(t, err)
				kernel{}.advise(int(f.Fd()), unix.FADV_RANDOM)
				f.ReadAt(make([]byte, 1), 0)
				f.Close()
			}
			readAll()
			if n := testkit.PagesCached(t, p.path("4.jpg")); n > 0 {
				t.Errorf("after an epoch of files that were there in part: %d pages", n)
			}
		})
	}
}

// evict drops a file from the page cache.
func evict(t *testing.T, path string) {
	t.Helper()
	f, err := os.Open(path)
	testkit.Must(t, err)
	defer f.Close()
	f.Sync()
	kernel{}.advise(int(f.Fd()), unix.FADV_DONTNEED)
}

// TestFreshlyWrittenFiles: a file that is not on disk yet is read correctly. If the kernel does not
// tell that it is in the page cache, the first direct read removes it.
func TestFreshlyWrittenFiles(t *testing.T) {
	p := newPlace(t)
	testkit.OnDisk(t, p.root)
	for _, how := range []Storage{{Direct: true, system: silent{}}, {Direct: true}} {
		p.how = how
		p.write("0.jpg", pattern(300_000))
		readsDirectly(t, p.path("0.jpg"))
		d := p.open("")
		got, err := d.Read(0, nil, wholePages)
		if err != nil || string(got) != pattern(300_000) {
			t.Errorf("%d bytes, %v", len(got), err)
		}
		if n := testkit.PagesCached(t, p.path("0.jpg")); how.system != nil && n > 0 {
			t.Errorf("%d pages", n)
		}
	}
}

// silent is a kernel that does not tell what is in the page cache.
type silent struct{ kernel }

func (silent) cached(int, int64, int64) bool { return false }

// undropping is the kernel without evictions from the page cache.
type undropping struct{ kernel }

func (undropping) advise(int, int) {}

// TestDirectReadsLeaveNothing: where the file system supports direct reads, the page cache
// stays empty without evictions.
func TestDirectReadsLeaveNothing(t *testing.T) {
	p := newPlace(t)
	testkit.OnDisk(t, p.root)
	p.write("0.jpg", pattern(300_000))
	readsDirectly(t, p.path("0.jpg"))
	for _, direct := range []bool{true, false} {
		evict(t, p.path("0.jpg"))
		p.how = Storage{Direct: direct, system: undropping{}}
		d := p.open("", func(o *Options) { o.CacheDir = "" })
		got, err := d.Read(0, nil, wholePages)
		if err != nil || string(got) != pattern(300_000) {
			t.Errorf("%d bytes, %v", len(got), err)
		}
		if n := testkit.PagesCached(t, p.path("0.jpg")); (n == 0) != direct {
			t.Errorf("direct %t: %d pages", direct, n)
		}
	}
}
