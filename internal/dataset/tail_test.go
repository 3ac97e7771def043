package dataset

import (
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"golang.org/x/sys/unix"
)

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
