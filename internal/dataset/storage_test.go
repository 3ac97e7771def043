package dataset

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"
)

// wholePages returns n bytes of memory that suits direct reads.
func wholePages(n int) []byte {
	b := make([]byte, n+directUnit)
	for !aligned(b) {
		b = b[1:]
	}
	return b[:n:n]
}

// pattern is an image of n bytes in which no two pages are equal.
func pattern(n int) string { return longest()[:n] }

var longest = sync.OnceValue(func() string {
	b := []byte(image("jpeg", 10, 20, 1))
	for i := int64(0); len(b) < 2<<20; i++ {
		b = append(strconv.AppendInt(b, i, 10), ',')
	}
	return string(b)
})

// TestDirectReadsAreAligned: direct reads, including those of headers, are aligned and return the
// file's bytes, for any file length.
func TestDirectReadsAreAligned(t *testing.T) {
	const unit = directUnit
	for _, piece := range []int{0, minPiece, 3 * minPiece} { // 0: no limit
		f := &faultySystem{}
		p := newPlace(t)
		p.how = Storage{Direct: true, system: f}
		sizes := []int{30, 511, 512, 513, 4095, 4096, 4097, 8192, 8193, 3*unit + 5}
		if piece == 0 {
			sizes = append(sizes, 1<<20+1)
		}
		for i, n := range sizes {
			p.write(fmt.Sprintf("%02d.jpg", i), pattern(n))
		}
		p.write("empty.jpg", "")
		for i, n := range []int{firstProbe, firstProbe + 1, 40_000, 1 << 20} {
			p.write(fmt.Sprintf("z%d.jpg", i), fmt.Sprintf("img jpeg 1 2 1 %d\n", n)+strings.Repeat("x", n))
		}
		d := p.open("")
		if d.Report.Unreadable > 1 || f.ordinary.Load() > 0 || f.drops.Load() != int64(d.Len()) {
			t.Errorf("%+v; %d ordinary reads, %d files dropped", d.Report, f.ordinary.Load(), f.drops.Load())
		}
		if piece > 0 {
			d.storages[0].limit = newLimiter(1 << 50)
			d.storages[0].limit.piece = piece
		}
		f.ordinary.Store(0)
		for i, n := range append(sizes, 0) {
			want := 0
			got, err := d.Read(i, nil, func(n int) []byte { want = n; return wholePages(n) })
			if err != nil || n > 0 && string(got) != pattern(n) || len(got) != n {
				t.Fatalf("%d of %d bytes, error %v", len(got), n, err)
			}
			if want%unit != 0 || want < n || want >= n+unit {
				t.Errorf("%d bytes asked for a file of %d", want, n)
			}
		}
		if text := f.crooked.Load(); text != nil {
			t.Errorf("pieces of %d: a direct read of %s", piece, *text)
		}
		if f.ordinary.Load() > 0 || f.directs.Load() < int64(len(sizes)) {
			t.Errorf("%d ordinary reads, %d direct ones", f.ordinary.Load(), f.directs.Load())
		}
		if n := f.drops.Load(); n < 2*int64(len(sizes)) {
			t.Errorf("dropped %d times", n)
		}
	}
}

// TestMemoryThatDoesNotSuit: reading into unaligned memory works.
func TestMemoryThatDoesNotSuit(t *testing.T) {
	const size = 10_000
	for name, c := range map[string]struct {
		buf    []byte
		grow   func(int) []byte
		direct bool
	}{
		"pages":             {nil, wholePages, true},
		"own pages":         {wholePages(12288), nil, true},
		"capacity counts":   {wholePages(12288)[:0], nil, true},
		"crooked":           {nil, func(n int) []byte { return wholePages(n + 1)[1:] }, false},
		"own, crooked":      {wholePages(20_000)[1:], nil, false},
		"no room at end":    {nil, func(int) []byte { return wholePages(size) }, false},
		"own, no room":      {wholePages(size), nil, false},
		"own, grow refuses": {wholePages(size), func(int) []byte { return nil }, false},
		"own, grow gives":   {wholePages(size), wholePages, true},
	} {
		f := &faultySystem{}
		p := newPlace(t)
		p.how = Storage{Direct: true, system: f}
		p.write("a.jpg", pattern(size))
		d := p.open("")
		f.directs.Store(0)
		f.ordinary.Store(0)
		got, err := d.Read(0, c.buf, c.grow)
		if err != nil || string(got) != pattern(size) {
			t.Errorf("%s: %d bytes, %v", name, len(got), err)
		}
		if f.crooked.Load() != nil || c.direct != (f.ordinary.Load() == 0) || c.direct != (f.directs.Load() > 0) {
			t.Errorf("%s: %d ordinary reads, %d direct", name, f.ordinary.Load(), f.directs.Load())
		}
	}
}

// TestRefusalIsLoggedOnce: where direct reads are refused, files are read normally, and the log
// says so once.
func TestRefusalIsLoggedOnce(t *testing.T) {
	for name, f := range map[string]*faultySystem{
		"it says so":    failing("direct", unix.EINVAL),
		"larger blocks": failing("direct read", unix.EINVAL),
		"not supported": failing("direct read", unix.EOPNOTSUPP),
	} {
		p := newPlace(t)
		for i := range 20 {
			p.write(fmt.Sprintf("%02d.jpg", i), pattern(9000+i))
		}
		var log bytes.Buffer
		p.how = Storage{Direct: true, system: f}
		d := p.open("", func(o *Options) { o.Logger = slog.New(slog.NewTextHandler(&log, nil)) })
		for i := range d.Len() {
			got, err := d.Read(i, nil, wholePages)
			if err != nil || string(got) != pattern(9000+i) {
				t.Errorf("%s: %d bytes, %v", name, len(got), err)
			}
		}
		if f.drops.Load() < 40 {
			t.Errorf("%s: dropped %d times", name, f.drops.Load())
		}
		if said := strings.Count(log.String(), "page cache"); (name == "it says so") != (said == 1) {
			t.Errorf("%s: said %d times:\n%s", name, said, log.String())
		}
	}
}

// TestFailingStorage: whatever fails while a file or a part of it is read, the caller gets the
// file's bytes, or an error that describes the failure and names the file.
func TestFailingStorage(t *testing.T) {
	t.Run("whole", func(t *testing.T) { testFailingStorage(t, 0) })
	t.Run("part", func(t *testing.T) { testFailingStorage(t, 70_000) })
}

// testFailingStorage reads the bytes after from, and the head.
func testFailingStorage(t *testing.T, from int) {
	const size = 100_000
	content := pattern(size)
	eio := func(after int64) func(*place) func(int, []byte, int64) (int, error) {
		return func(*place) func(int, []byte, int64) (int, error) {
			return func(fd int, p []byte, offset int64) (int, error) {
				if offset >= after {
					return 0, unix.EIO
				}
				return kernel{}.pread(fd, p[:min(len(p), 8192)], offset)
			}
		}
	}
	halves := func(most int) func(*place) func(int, []byte, int64) (int, error) {
		return func(*place) func(int, []byte, int64) (int, error) {
			return func(fd int, p []byte, offset int64) (int, error) {
				return kernel{}.pread(fd, p[:min(len(p), most)], offset)
			}
		}
	}
	during := func(change func(p *place)) func(*place) func(int, []byte, int64) (int, error) {
		return func(pl *place) func(int, []byte, int64) (int, error) {
			once := sync.OnceFunc(func() { change(pl) })
			return func(fd int, p []byte, offset int64) (int, error) {
				if offset > 0 {
					once()
				}
				return kernel{}.pread(fd, p[:min(len(p), 8192)], offset)
			}
		}
	}
	for name, c := range map[string]struct {
		read func(*place) func(int, []byte, int64) (int, error)
		fail func(call string) error
		want error
	}{
		"error at once":        {read: eio(0), want: unix.EIO},
		"error in the middle":  {read: eio(40_000), want: unix.EIO},
		"error at the end":     {read: eio(90_000), want: unix.EIO},
		"short reads":          {read: halves(8192)},
		"crooked short reads":  {read: halves(777)},
		"one byte at a time":   {read: halves(1)},
		"ends early":           {read: func(*place) func(int, []byte, int64) (int, error) { return ends(50_000) }, want: ErrChanged},
		"ends at once":         {read: func(*place) func(int, []byte, int64) (int, error) { return ends(0) }, want: ErrChanged},
		"shrinks":              {read: during(func(p *place) { os.Truncate(p.path("a.jpg"), 9000) }), want: ErrChanged},
		"shrinks to nothing":   {read: during(func(p *place) { os.Truncate(p.path("a.jpg"), 0) }), want: ErrChanged},
		"grows":                {read: during(func(p *place) { p.append("a.jpg", "more") }), want: ErrChanged},
		"is written to":        {read: during(func(p *place) { p.overwrite("a.jpg", 90_000, "other pixels") }), want: ErrChanged},
		"is removed":           {read: during(func(p *place) { os.Remove(p.path("a.jpg")) })},
		"is replaced":          {read: during(func(p *place) { p.write("b.jpg", "other"); os.Rename(p.path("b.jpg"), p.path("a.jpg")) })},
		"stat fails":           {fail: staleAfterRead(), want: unix.ESTALE},
		"open fails":           {fail: failing("open", unix.EMFILE).fail, want: unix.EMFILE},
		"open says it is gone": {fail: failing("open", unix.ENOENT).fail, want: ErrMissing},
		"open: no permission":  {fail: failing("open", unix.EACCES).fail, want: os.ErrPermission},
	} {
		for _, how := range []Storage{{}, {Direct: true}, {Direct: true, MaxBandwidth: 1 << 30}} {
			t.Run(fmt.Sprintf("%s/%t/%d", name, how.Direct, how.MaxBandwidth), func(t *testing.T) {
				f := &faultySystem{}
				p := newPlace(t)
				p.write("a.jpg", content)
				p.settle()
				how.system = f
				p.how = how
				d := p.open("")
				f.fail = c.fail
				if c.read != nil {
					f.read = c.read(p)
				}
				got, _, id, err := d.LoadPart(context.Background(), 0, 0, nil, wholePages, func([]byte, int64) (int64, int64, bool) { return int64(from), size, from > 0 }, 0)
				if !errors.Is(err, c.want) || (err == nil) != (c.want == nil) {
					t.Fatalf("error %v, want %v", err, c.want)
				}
				if err != nil {
					var file *FileError
					if got != nil || !errors.As(err, &file) || file.Path != "a.jpg" {
						t.Errorf("%d bytes; %v does not name the file", len(got), err)
					}
					return
				}
				if len(got) != size || string(got[from:]) != content[from:] || string(got[:HeadBytes]) != content[:HeadBytes] || id != d.Stat(0) {
					t.Errorf("%d bytes under %+v, indexed %+v", len(got), id, d.Stat(0))
				}
			})
		}
	}
}

// staleAfterRead fails when a file is examined after it was read.
func staleAfterRead() func(call string) error {
	read := false
	return func(call string) error {
		read = call != "open" && (read || call != "stat")
		if read && call == "stat" {
			return unix.ESTALE
		}
		return nil
	}
}

// ends reads files as if they had only n bytes.
func ends(n int64) func(int, []byte, int64) (int, error) {
	return func(fd int, p []byte, offset int64) (int, error) {
		if offset >= n {
			return 0, nil
		}
		return kernel{}.pread(fd, p[:min(int64(len(p)), n-offset)], offset)
	}
}

// TestScanOfFailingStorage: a file that the storage fails to deliver is not a bad file, and is
// tried again next time.
func TestScanOfFailingStorage(t *testing.T) {
	f := &faultySystem{}
	f.read = func(fd int, p []byte, offset int64) (int, error) {
		id, _ := kernel{}.stat(fd)
		if id.Size == 5000 {
			return 0, unix.EIO
		}
		return kernel{}.pread(fd, p, offset)
	}
	p := newPlace(t)
	p.write("a.jpg", pattern(4000))
	p.write("b.jpg", pattern(5000))
	p.write("c.jpg", pattern(6000))
	p.settle()
	p.how = Storage{Direct: true, system: f}
	d := p.open("")
	if d.Problem(0) != "" || d.Problem(1) != "" || d.Problem(2) != "" || d.Unread(1) != "input/output error" || d.Stat(1).Known() {
		t.Errorf("problems %q, %q, %q, unread %q", d.Problem(0), d.Problem(1), d.Problem(2), d.Unread(1))
	}
	f.read = nil
	if d := p.open(""); d.Problem(1) != "" || d.Unread(1) != "" || d.Report.Scanned != 1 {
		t.Errorf("tried again: %q, %+v", d.Problem(1), d.Report)
	}
}

func TestStorageOptions(t *testing.T) {
	p := newPlace(t)
	p.images("a.jpg")
	_, err := p.tryOpen("", func(o *Options) { o.Storage.MaxBandwidth = -5 })
	if err == nil || !strings.Contains(err.Error(), "max read bandwidth") || !strings.Contains(err.Error(), "-5") {
		t.Errorf("error %v", err)
	}
}

// append and overwrite change a file in place.
func (p *place) append(name, text string) {
	f, err := os.OpenFile(p.path(name), os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		p.t.Error(err)
		return
	}
	defer f.Close()
	f.WriteString(text)
}

func (p *place) overwrite(name string, at int64, text string) {
	f, err := os.OpenFile(p.path(name), os.O_WRONLY, 0)
	if err != nil {
		p.t.Error(err)
		return
	}
	defer f.Close()
	f.WriteAt([]byte(text), at)
}

// TestLimitedReads: reading a dataset takes as long as the bandwidth demands for all bytes, headers
// included, however many readers there are. A waiting read can be stopped.
func TestLimitedReads(t *testing.T) {
	for _, direct := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			const files, size, rate = 40, 50_000, 200_000
			p := newPlace(t)
			for i := range files {
				p.write(fmt.Sprintf("%02d.jpg", i), pattern(size))
			}
			p.how = Storage{Direct: direct, MaxBandwidth: rate}
			expect := func(what string, start time.Time, bytes int64) {
				want := time.Duration(bytes) * time.Second / rate
				if d := time.Since(start); d < want*95/100 || d > want*105/100 {
					t.Errorf("direct %t: %s took %v, not %v", direct, what, d, want)
				}
			}
			start := time.Now()
			d := p.open("")
			expect("the scan", start, files*firstProbe)

			start = time.Now()
			var group sync.WaitGroup
			for w := range 4 {
				group.Go(func() {
					buf := wholePages(1 << 16)
					for i := w; i < files; i += 4 {
						if _, err := d.Read(i, buf, nil); err != nil {
							t.Error(err)
						}
					}
				})
			}
			group.Wait()
			expect("an epoch", start, files*size)

			ctx, stop := context.WithCancel(context.Background())
			group.Go(func() {
				if _, _, err := d.Load(ctx, 0, nil, grow); !errors.Is(err, ErrStopped) {
					t.Errorf("a read that was called off: %v", err)
				}
			})
			synctest.Wait()
			stop()
			group.Wait()
		})
	}
}
