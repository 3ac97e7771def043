package dataset

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

// onDisk skips a test if the page cache cannot be distinguished from the storage.
func onDisk(t *testing.T, dir string) {
	t.Helper()
	var fs unix.Statfs_t
	if err := unix.Statfs(dir, &fs); err != nil {
		t.Fatal(err)
	}
	switch fs.Type {
	case unix.TMPFS_MAGIC, unix.RAMFS_MAGIC, unix.FUSE_SUPER_MAGIC: // FUSE may show the pages of files below
		t.Skipf("SKIPPED: %s is on no disk file system (type %#x)", dir, fs.Type)
	}
}

// readsDirectly skips a test if the file system has no direct reads.
func readsDirectly(t *testing.T, file string) {
	t.Helper()
	var st unix.Statx_t
	if err := unix.Statx(unix.AT_FDCWD, file, 0, unix.STATX_DIOALIGN, &st); err != nil || st.Dio_offset_align == 0 || st.Dio_offset_align > directUnit {
		t.Skip("SKIPPED: the file system has no direct reads, or does not say so")
	}
}

// cached counts a file's pages in the page cache.
func cached(t *testing.T, path string) int {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	info, _ := f.Stat()
	if info.Size() == 0 {
		return 0
	}
	m, err := unix.Mmap(int(f.Fd()), 0, int(info.Size()), unix.PROT_READ, unix.MAP_SHARED)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Munmap(m)
	there := make([]byte, (len(m)+os.Getpagesize()-1)/os.Getpagesize())
	if _, _, errno := unix.Syscall(unix.SYS_MINCORE, uintptr(unsafe.Pointer(&m[0])), uintptr(len(m)), uintptr(unsafe.Pointer(&there[0]))); errno != 0 {
		t.Fatal(errno)
	}
	n := 0
	for _, p := range there {
		n += int(p & 1)
	}
	return n
}

// TestPageCacheStaysEmpty: after the dataset is indexed, and again after it is read, none of it
// is in the page cache, not even files that were cached before or were just written.
func TestPageCacheStaysEmpty(t *testing.T) {
	type way struct {
		name string
		how  Storage
	}
	for _, w := range []way{
		{"direct", Storage{Direct: true}},
		{"refused", Storage{Direct: true, system: &fault{mode: unix.EOPNOTSUPP}}},
		{"limited", Storage{Direct: true, MaxBandwidth: 1 << 30}},
		{"ordinary", Storage{}},
	} {
		t.Run(w.name, func(t *testing.T) {
			p := newPlace(t)
			onDisk(t, p.root)
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
					samples += cached(t, p.path(fmt.Sprintf("%d.jpg", i)))
				}
				return samples, cached(t, p.path("m.csv"))
			}
			flush := func() {
				for _, name := range []string{"0.jpg", "1.jpg", "2.jpg", "3.jpg", "4.jpg", "m.csv"} {
					f, err := os.Open(p.path(name))
					if err != nil {
						t.Fatal(err)
					}
					f.Sync()
					f.Close()
				}
			}
			if n, m := count(); n < 300 || m == 0 {
				t.Fatalf("%d pages of what was just written, %d of the manifest", n, m)
			}
			flush()
			d := p.open("m.csv")
			after, list := count()
			if !w.how.Direct {
				if after < 300 || list == 0 {
					t.Errorf("%d pages of the samples, %d of the manifest: nothing asked to drop them", after, list)
				}
				return
			}
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
			if n, _ := count(); n > 0 {
				t.Errorf("after another epoch: %d pages", n)
			}
		})
	}
}

// TestFreshlyWrittenFiles: a file that is not on disk yet is read correctly, and leaves the
// page cache with its first direct read.
func TestFreshlyWrittenFiles(t *testing.T) {
	p := newPlace(t)
	onDisk(t, p.root)
	p.how = Storage{Direct: true}
	p.write("0.jpg", pattern(300_000))
	readsDirectly(t, p.path("0.jpg"))
	d := p.open("")
	got, err := d.Read(0, nil, wholePages)
	if err != nil || string(got) != pattern(300_000) {
		t.Errorf("%d bytes, %v", len(got), err)
	}
	if n := cached(t, p.path("0.jpg")); n > 0 {
		t.Errorf("%d pages", n)
	}
}

// undropping is the kernel without evictions from the page cache.
type undropping struct{ kernel }

func (undropping) advise(int, int) {}

// TestDirectReadsLeaveNothing: where the file system supports direct reads, the page cache
// stays empty without evictions.
func TestDirectReadsLeaveNothing(t *testing.T) {
	p := newPlace(t)
	onDisk(t, p.root)
	p.write("0.jpg", pattern(300_000))
	readsDirectly(t, p.path("0.jpg"))
	f, err := os.Open(p.path("0.jpg"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	f.Sync()
	for _, direct := range []bool{true, false} {
		kernel{}.advise(int(f.Fd()), unix.FADV_DONTNEED)
		p.how = Storage{Direct: direct, system: undropping{}}
		d := p.open("", func(o *Options) { o.CacheDir = "" })
		got, err := d.Read(0, nil, wholePages)
		if err != nil || string(got) != pattern(300_000) {
			t.Errorf("%d bytes, %v", len(got), err)
		}
		if n := cached(t, p.path("0.jpg")); (n == 0) != direct {
			t.Errorf("direct %t: %d pages", direct, n)
		}
	}
}
