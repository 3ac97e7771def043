package dataset

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func grow(n int) []byte { return make([]byte, n) }

// eachWay runs a test with every way of reading files.
func eachWay(t *testing.T, test func(t *testing.T, how Storage)) {
	for _, way := range []struct {
		name string
		how  Storage
	}{
		{"ordinary", Storage{}},
		{"direct", Storage{Direct: true}},
		{"direct refused", Storage{Direct: true, system: failing("direct", unix.EOPNOTSUPP)}},
		{"direct refused late", Storage{Direct: true, system: failing("direct read", unix.EINVAL)}},
		{"limited", Storage{Direct: true, MaxBandwidth: 1 << 30}},
	} {
		t.Run(way.name, func(t *testing.T) { test(t, way.how) })
	}
}

func TestRead(t *testing.T) { eachWay(t, testRead) }

func testRead(t *testing.T, how Storage) {
	p := newPlace(t)
	p.how = how
	content := image("jpeg", 10, 20, 1) + strings.Repeat("x", 100_000)
	p.write("a.jpg", content)
	p.write("b.jpg", "")
	p.link("a.jpg", "c.jpg")
	d := p.open("")
	grown := 0
	counted := func(n int) []byte {
		if grown++; !how.Direct && n != len(content) {
			t.Errorf("%d bytes of memory for a file of %d", n, len(content))
		}
		return make([]byte, n, n+50)
	}
	for _, c := range []struct {
		name   string
		sample int
		buf    []byte
		grow   func(int) []byte
		grown  int
		want   string
	}{
		{"no buffer", 0, nil, counted, 1, content},
		{"too small", 0, make([]byte, 10), counted, 1, content},
		{"capacity counts", 0, make([]byte, 0, len(content)+directUnit), counted, 0, content},
		{"too large", 0, make([]byte, 2*len(content)), counted, 0, content},
		{"empty file", 1, nil, counted, 0, ""},
		{"through a link", 2, nil, counted, 1, content},
	} {
		grown = 0
		got, err := d.Read(c.sample, c.buf, c.grow)
		if err != nil || string(got) != c.want || grown != c.grown {
			t.Errorf("%s: %d bytes, grown %d times, error %v", c.name, len(got), grown, err)
		}
	}
	for name, refuse := range map[string]func(int) []byte{"nil": nil, "short": func(int) []byte { return make([]byte, len(content)-1) }} {
		if _, id, err := d.Load(t.Context(), 0, nil, refuse); !errors.Is(err, errTooLarge) || id != d.Stat(0) {
			t.Errorf("grow that refuses (%s): %+v, %v", name, id, err)
		}
	}
}

func TestChangedFiles(t *testing.T) { eachWay(t, testChangedFiles) }

func testChangedFiles(t *testing.T, how Storage) {
	content := image("jpeg", 10, 20, 1)
	for _, c := range []struct {
		name   string
		change func(p *place, path string)
		want   error
	}{
		{"nothing", func(p *place, path string) {}, nil},
		{"removed", func(p *place, path string) { os.Remove(path) }, ErrMissing},
		{"directory removed", func(p *place, path string) { os.RemoveAll(p.path("a")) }, ErrMissing},
		{"directory became a file", func(p *place, path string) { os.RemoveAll(p.path("a")); p.write("a", "") }, ErrMissing},
		{"longer", func(p *place, path string) { os.WriteFile(path, []byte(content+"x"), 0o644) }, ErrChanged},
		{"shorter", func(p *place, path string) { os.Truncate(path, 3) }, ErrChanged},
		{"rewritten", func(p *place, path string) { os.WriteFile(path, []byte(content), 0o644) }, ErrChanged},
		{"touched", func(p *place, path string) { os.Chtimes(path, time.Time{}, time.Now()) }, ErrChanged},
		{"older", func(p *place, path string) { os.Chtimes(path, time.Time{}, time.Unix(1e9, 0)) }, ErrChanged},
		{"replaced", func(p *place, path string) { p.write("n", content); os.Rename(p.path("n"), path) }, ErrChanged},
		{"a directory now", func(p *place, path string) { os.Remove(path); os.Mkdir(path, 0o755) }, ErrChanged},
		{"a fifo now", func(p *place, path string) { os.Remove(path); unix.Mkfifo(path, 0o644) }, ErrNotFile},
		{"a broken link now", func(p *place, path string) { os.Remove(path); os.Symlink("nowhere", path) }, ErrMissing},
		{"a link to itself now", func(p *place, path string) { os.Remove(path); os.Symlink("1.jpg", path) }, unix.ELOOP},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := newPlace(t)
			p.how = how
			p.write("a/1.jpg", content)
			p.settle()
			d := p.open("")
			c.change(p, p.path("a/1.jpg"))
			got, found, err := d.Load(t.Context(), 0, nil, grow)
			if !errors.Is(err, c.want) || (err == nil) != (c.want == nil) {
				t.Errorf("Read: %v, want %v", err, c.want)
			}
			if err == nil && string(got) != content || err != nil && got != nil {
				t.Errorf("Read returned %q", got)
			}
			id, err := d.Check(0)
			if !errors.Is(err, c.want) || (err == nil) != (c.want == nil) {
				t.Errorf("Check: %v, want %v", err, c.want)
			}
			if err == nil && id != d.Stat(0) || found != id {
				t.Errorf("Check returned %+v, Stat %+v, Load %+v", id, d.Stat(0), found)
			}
			var file *FileError
			if c.want != nil && (!errors.As(err, &file) || file.Path != "a/1.jpg") {
				t.Errorf("the error %v does not name the file", err)
			}
		})
	}
}

// TestReadsOfAChangingFile: a reader gets one version or an error, never a mix.
func TestReadsOfAChangingFile(t *testing.T) { eachWay(t, testReadsOfAChangingFile) }

func testReadsOfAChangingFile(t *testing.T, how Storage) {
	p := newPlace(t)
	p.how = how
	content := image("jpeg", 10, 20, 1) + strings.Repeat("a", 300_000)
	p.write("1.jpg", content)
	p.settle()
	d := p.open("")
	stop := make(chan struct{})
	var writer sync.WaitGroup
	writer.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
				os.Truncate(p.path("1.jpg"), 10)
				os.WriteFile(p.path("1.jpg"), []byte(strings.ReplaceAll(content, "a", "b")), 0o644)
			}
		}
	})
	buf := make([]byte, len(content))
	for range 300 {
		got, err := d.Read(0, buf, nil)
		if err == nil && string(got) != content {
			t.Error("bytes of another version")
			break
		}
	}
	close(stop)
	writer.Wait()
}

func TestReadAllocatesNothing(t *testing.T) { eachWay(t, testReadAllocatesNothing) }

func testReadAllocatesNothing(t *testing.T, how Storage) {
	if how.system != nil {
		t.Skip("SKIPPED: the test's own file system allocates")
	}
	p := newPlace(t)
	p.how = how
	p.images("some class/with a rather long name.jpg")
	d := p.open("")
	buf := make([]byte, 8192)
	n := testing.AllocsPerRun(100, func() {
		if _, err := d.Read(0, buf, nil); err != nil {
			t.Fatal(err)
		}
		_, _, _, _ = d.Path(0), d.Format(0), d.Problem(0), checkError(d, 0)
	})
	if n > 0 {
		t.Errorf("%v allocations a read", n)
	}
}

func TestLearningIsConsistent(t *testing.T) {
	p := newPlace(t)
	p.images("a.jpg")
	p.write("m.csv", "path,height,width,format\na.jpg,10,20,jpeg\n")
	d := p.open("m.csv")
	var readers sync.WaitGroup
	for range 8 {
		readers.Go(func() {
			for range 50 {
				id := d.Stat(0)
				if id.Known() && id.Size == 0 {
					t.Error("a time without its size")
				}
				if _, err := d.Read(0, nil, grow); err != nil {
					t.Error(err)
				}
			}
		})
	}
	readers.Wait()
	if d.Same(0, Identity{Size: 1}) || !d.Same(0, d.Stat(0)) {
		t.Error("Same after learning")
	}
}

func TestAccept(t *testing.T) {
	p := newPlace(t)
	p.images("a.jpg")
	p.settle()
	d := p.open("")
	was := d.Stat(0)
	p.write("a.jpg", image("jpeg", 10, 20, 1)+"mended")
	now, err := d.Check(0)
	if !errors.Is(err, ErrChanged) || now == was {
		t.Fatalf("%+v, %v", now, err)
	}
	d.Accept(0, now)
	if _, err := d.Read(0, nil, grow); err != nil || d.Stat(0) != now || d.Same(0, was) {
		t.Errorf("after Accept: %+v, %v", d.Stat(0), err)
	}
	// Readers see one of the identities while they are being replaced.
	var readers sync.WaitGroup
	for range 4 {
		readers.Go(func() {
			for range 5000 {
				if id := d.Stat(0); id != now && id != was {
					t.Errorf("%+v is neither", id)
				}
			}
		})
	}
	for range 5000 {
		d.Accept(0, was)
		d.Accept(0, now)
	}
	readers.Wait()
}

// ender is a Prober that asks for the last want bytes of each file.
type ender struct {
	want  int
	calls atomic.Int64
	wrong atomic.Pointer[string] // bytes it was shown that differ from the file
}

func (e *ender) probe(head, tail []byte, size int64) (Header, error) {
	e.calls.Add(1)
	h := Header{Format: "png", Height: 10, Width: 20, Orientation: 1, Tail: e.want}
	if tail != nil {
		h.Orientation = 6
	}
	file := pattern(int(size))
	if string(head) != file[:len(head)] || tail != nil && string(tail) != file[max(0, len(file)-e.want):] {
		text := fmt.Sprintf("%d and %d bytes of %d", len(head), len(tail), size)
		e.wrong.Store(&text)
	}
	return h, nil
}

// TestProberSeesTheEnd: the tail that a Prober asks for is read once, also with direct reads, and
// its second answer counts.
func TestProberSeesTheEnd(t *testing.T) {
	sizes := []int{30, 4096, firstProbe, firstProbe + 1, 70_000, 3 * 65536, 3*65536 + 5}
	for _, how := range []Storage{{}, {Direct: true}, {MaxBandwidth: 1 << 40}} {
		for _, refuse := range []error{nil, unix.EOPNOTSUPP} {
			f := failing("direct", refuse)
			how.system = f
			p := newPlace(t)
			p.how = how
			for i, n := range sizes {
				p.write(fmt.Sprintf("%d.png", i), pattern(n))
			}
			for _, want := range []int{1, 4096, 5000, 65536} {
				e := &ender{want: want}
				f.ordinary.Store(0)
				f.directs.Store(0)
				d := p.open("", func(o *Options) { o.Prober, o.Rescan, o.CacheDir = e.probe, true, t.TempDir() })
				name := fmt.Sprintf("%+v, direct reads %v, the last %d", p.how, refuse, want)
				if text := e.wrong.Load(); text != nil {
					t.Errorf("%s: was shown something else as %s", name, *text)
				}
				if text := f.crooked.Load(); text != nil {
					t.Errorf("%s: asked for %s", name, *text)
				}
				reads := int(f.ordinary.Load() + f.directs.Load())
				if e.calls.Load() != int64(2*len(sizes)) || p.how.MaxBandwidth == 0 && reads != 2*len(sizes) {
					t.Errorf("%s: %d files are asked about %d times, with %d reads", name, len(sizes), e.calls.Load(), reads)
				}
				for i := range sizes {
					if h, w := d.Size(i, false); h != 20 || w != 10 || d.Problem(i) != "" {
						t.Errorf("%s: %dx%d, problem %q", name, h, w, d.Problem(i))
					}
				}
			}
		}
	}
}

// TestEndThatCannotBeRead: if a file has shrunk, the Prober is not called again.
func TestEndThatCannotBeRead(t *testing.T) {
	f := &faultySystem{}
	f.read = func(fd int, b []byte, offset int64) (int, error) {
		if offset > 0 {
			return 0, nil
		}
		return f.kernel.pread(fd, b, offset)
	}
	p := newPlace(t)
	p.how.system = f
	p.write("a.png", pattern(100_000))
	e := &ender{want: 5000}
	d := p.open("", func(o *Options) { o.Prober = e.probe })
	if !strings.Contains(d.Problem(0), "changed") || e.calls.Load() != 1 {
		t.Errorf("problem %q after %d calls", d.Problem(0), e.calls.Load())
	}
}
