package resample

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/batchfs/batchfs/internal/kernel"
	"github.com/batchfs/batchfs/internal/rowtest"
	"github.com/batchfs/batchfs/internal/testkit"
)

// canvas is a sink that keeps the rows.
type canvas struct {
	pix  []byte
	rows int
}

func (c *canvas) PutRow(y int, row []byte) {
	if y != c.rows {
		panic(fmt.Sprintf("row %d comes after %d rows", y, c.rows))
	}
	c.rows++
	c.pix = append(c.pix, row...)
}

// rowsCanvas is a canvas that takes rows only several at a time.
type rowsCanvas struct{ canvas }

func (*rowsCanvas) PutRow(int, []byte) { panic("a single row") }

func (c *rowsCanvas) PutRows(y, n int, rows []byte, stride int) {
	used := len(rows) - (n-1)*stride
	for i := range n {
		c.canvas.PutRow(y+i, rows[i*stride:][:used])
	}
}

// bench is fenced memory to run kernels in.
type bench struct{ source, scratch []byte }

func newBench(t testing.TB) bench { return bench{testkit.Fenced(t, 1<<20), testkit.Fenced(t, 4<<20)} }

// last returns the last n bytes of memory, filled with arbitrary values.
func last(memory []byte, n int) []byte {
	b := memory[len(memory)-n:]
	for i := range b {
		b[i] = 0xa5
	}
	return b
}

// resize returns a kernel's result, with source and scratch memory that end at a fence; bytes
// before scratch must not change.
func (b bench) resize(t testing.TB, k kernel.Kernel, src Image, tr Transform) []byte {
	t.Helper()
	pix := last(b.source, len(src.Pix))
	copy(pix, src.Pix)
	src.Pix = pix
	const guard = 256
	n := ScratchBytes(tr, src.Channels)
	scratch := last(b.scratch, n+guard)
	var c canvas
	if err := Resize(&c, src, tr, scratch[guard:], k); err != nil {
		t.Fatalf("%+v of %dx%dx%d: %v", tr, src.Height, src.Width, src.Channels, err)
	}
	if !bytes.Equal(scratch[:guard], bytes.Repeat([]byte{0xa5}, guard)) {
		t.Fatalf("%s wrote in front of scratch for %+v of %dx%dx%d", k, tr, src.Height, src.Width, src.Channels)
	}
	if h, w := tr.Size(); c.rows != h || len(c.pix) != h*w*src.Channels {
		t.Fatalf("%d rows, %d bytes for %dx%d", c.rows, len(c.pix), h, w)
	}
	return c.pix
}

// everyKernel returns the result, which must be the same for all kernels, for a sink in C, and if
// only the pixels with a weight exist, as in a region that is decoded by itself. It must be close
// to the definition's.
func (b bench) everyKernel(t testing.TB, src Image, tr Transform) []byte {
	t.Helper()
	name := fmt.Sprintf("%+v of %dx%dx%d", tr, src.Height, src.Width, src.Channels)
	want := b.resize(t, kernel.None, src, tr)
	if d := farthest(want, reference(src, tr)); d > 1 {
		t.Errorf("%s: %d levels from the reference", name, d)
	}
	y, x, h, w := tr.Source()
	part := Image{Pix: src.Pix[y*src.Stride+x*src.Channels:][:(h-1)*src.Stride+w*src.Channels], Stride: src.Stride, Height: h, Width: w, Channels: src.Channels}
	for _, k := range Kernels() {
		if got := b.resize(t, k, src, tr); !bytes.Equal(got, want) {
			t.Fatalf("%s: %s is %d levels from Go", name, k, farthest(got, want))
		}
		if got := b.resize(t, k, part, tr.Moved(y, x)); !bytes.Equal(got, want) {
			t.Fatalf("%s: %s makes other pixels of the region %d, %d, %d, %d alone", name, k, y, x, h, w)
		}
		if rowtest.InC {
			oh, ow := tr.Size()
			sink := rowtest.NewSink(t, oh, ow*src.Channels)
			testkit.Must(t, Resize(sink, src, tr, make([]byte, ScratchBytes(tr, src.Channels)), k))
			if pix, ordered := sink.Pix(); !ordered || !bytes.Equal(pix, want) {
				t.Fatalf("%s: %s makes other pixels for C, or in another order", name, k)
			}
		}
	}
	return want
}

// noise is the worst kind of source; sometimes it has only extreme values, where errors are
// largest.
func noise(r *rand.Rand, h, w, channels int) Image {
	src := Image{Stride: w*channels + r.IntN(5), Height: h, Width: w, Channels: channels}
	src.Pix = make([]byte, (h-1)*src.Stride+w*channels)
	extreme := r.IntN(3) == 0
	for i := range src.Pix {
		src.Pix[i] = byte(r.Uint32())
		if extreme {
			src.Pix[i] = byte(int8(src.Pix[i]) >> 7)
		}
	}
	return src
}

func farthest(a, b []byte) (d int) {
	for i := range a {
		d = max(d, int(a[i])-int(b[i]), int(b[i])-int(a[i]))
	}
	return d
}

// TestKernels covers every mode, and few outputs made of many pixels, near the longest step of
// 16-bit weights and beyond it; see everyKernel.
func TestKernels(t *testing.T) {
	b, r := newBench(t), rand.New(rand.NewPCG(1, 2))
	for n := range 240 {
		src := noise(r, 1+r.IntN(90), 1+r.IntN(90), 1+2*(n&1))
		o := randomCrop(uint64(n))
		o.Mode, o.Height, o.Width, o.ResizeTo = Mode(n%int(numModes)), 1+r.IntN(70), 1+r.IntN(97), 97+r.IntN(20)
		b.everyKernel(t, src, o.Choose(n, int64(n), src.Height, src.Width))
	}
	for _, size := range [][2]int{{1200, 3}, {3, 1200}, {257, 256}, {256, 385}, {3000, 2}, {2, 3000}, {900, 900}} {
		src := noise(r, size[0], size[1], 1)
		for _, o := range []Options{{Mode: Stretch, Height: 1, Width: 1}, {Mode: Stretch, Height: 3, Width: 3}, {Mode: NotSmaller, Height: 2, Width: 2}} {
			b.everyKernel(t, src, o.Choose(0, 0, size[0], size[1]))
		}
	}
	all := Kernels()
	if all[0] != kernel.None || !slices.IsSorted(all) || fastest() != all[len(all)-1] || rowtest.InC && len(all) < 2 {
		t.Errorf("%v, the fastest of which is %v", all, kernel.Fastest)
	}
}

// TestOneColour: a uniform colour stays that colour, at every step and with every kernel, also in
// very large, small or long images, which use little memory.
func TestOneColour(t *testing.T) {
	uniform := func(h, w, channels, v int) Image {
		return Image{Pix: bytes.Repeat([]byte{byte(v)}, h*w*channels), Stride: w * channels, Height: h, Width: w, Channels: channels}
	}
	b := newBench(t)
	for v := range 256 {
		tr := Options{Mode: Stretch, Height: 1 + v%97, Width: 1 + v*7%101}.Choose(0, 0, 61, 83)
		if d := b.everyKernel(t, uniform(61, 83, 3, v), tr); bytes.Count(d, []byte{byte(v)}) != len(d) {
			t.Errorf("%d becomes something else with %+v", v, tr)
		}
	}
	for _, size := range [][3]int{{1, 1, 224}, {20000, 1, 224}, {1, 20000, 224}, {1, 2, 224}, {65500, 1, 5}, {2, 65500, 5}} {
		for mode := Stretch; mode < numModes; mode++ {
			for _, channels := range []int{1, 3} {
				h, w := size[0], size[1]
				o := randomCrop(1)
				o.Mode, o.Height, o.Width, o.ResizeTo = mode, size[2], size[2], size[2]+32
				tr := o.Choose(0, 0, h, w)
				n := ScratchBytes(tr, channels)
				if n > 1<<20+h*w*channels*16 {
					t.Errorf("%v of %dx%dx%d: %d bytes of scratch", mode, h, w, channels, n)
				}
				var c canvas
				testkit.Must(t, Resize(&c, uniform(h, w, channels, 200), tr, make([]byte, n), kernel.Fastest))
				if oh, ow := o.Size(h, w); !bytes.Equal(c.pix, bytes.Repeat([]byte{200}, oh*ow*channels)) {
					t.Errorf("%v of %dx%dx%d: one colour does not stay that colour", mode, h, w, channels)
				}
			}
		}
	}
}

// TestCopies: without resizing, pixels are the source's.
func TestCopies(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 8))
	for n := range 60 {
		channels := 1 + 2*(n&1)
		h, w := 1+r.IntN(30), 1+r.IntN(30)
		src := noise(r, h, w, channels)
		y, x := r.IntN(h), r.IntN(w)
		win := window{y, x, 1 + r.IntN(h-y), 1 + r.IntN(w-x)}
		tr := Transform{Y: fit(win.y, win.y+win.h, win.h), X: fit(win.x, win.x+win.w, win.w)}
		if sy, sx, sh, sw := tr.Source(); !tr.Copies() || (window{sy, sx, sh, sw}) != win || ScratchBytes(tr, channels) != 0 {
			t.Fatalf("%+v: %+v does not copy", win, tr)
		}
		var c canvas
		testkit.Must(t, Resize(&c, src, tr, nil, kernel.Fastest))
		var want []byte
		for row := win.y; row < win.y+win.h; row++ {
			want = append(want, src.Pix[row*src.Stride+win.x*channels:][:win.w*channels]...)
		}
		if !bytes.Equal(c.pix, want) {
			t.Errorf("%+v of %dx%d is not copied", win, h, w)
		}
		var all rowsCanvas
		testkit.Must(t, Resize(&all, src, tr, nil, kernel.Fastest))
		if !bytes.Equal(all.pix, want) {
			t.Errorf("%+v of %dx%d is not copied at once", win, h, w)
		}
	}
}

func TestErrors(t *testing.T) {
	src := pattern(20, 30, 3)
	tr := Options{Mode: Stretch, Height: 10, Width: 10}.Choose(0, 0, 20, 30)
	scratch := make([]byte, ScratchBytes(tr, 3))
	for name, v := range map[string]struct {
		want   error
		change func(src *Image, tr *Transform, scratch *[]byte)
	}{
		"nothing":             {nil, func(*Image, *Transform, *[]byte) {}},
		"a byte of scratch":   {errGeometry, func(_ *Image, _ *Transform, s *[]byte) { *s = (*s)[1:] }},
		"channels":            {errGeometry, func(i *Image, _ *Transform, _ *[]byte) { i.Channels = 2 }},
		"a row":               {errGeometry, func(i *Image, _ *Transform, _ *[]byte) { i.Height-- }},
		"a column":            {errGeometry, func(i *Image, _ *Transform, _ *[]byte) { i.Width-- }},
		"a byte":              {errGeometry, func(i *Image, _ *Transform, _ *[]byte) { i.Pix = i.Pix[1:] }},
		"the pixels":          {errGeometry, func(i *Image, _ *Transform, _ *[]byte) { i.Pix = nil }},
		"the stride":          {errGeometry, func(i *Image, _ *Transform, _ *[]byte) { i.Stride-- }},
		"a huge stride":       {errGeometry, func(i *Image, _ *Transform, _ *[]byte) { i.Stride = math.MaxInt }},
		"a zero transform":    {errGeometry, func(_ *Image, t *Transform, _ *[]byte) { *t = Transform{} }},
		"another place":       {errGeometry, func(_ *Image, t *Transform, _ *[]byte) { *t = t.Moved(1, 0) }},
		"and another":         {errGeometry, func(_ *Image, t *Transform, _ *[]byte) { *t = t.Moved(0, -1) }},
		"out of bounds":       {errGeometry, func(_ *Image, t *Transform, _ *[]byte) { t.X.Start++ }},
		"no step":             {errGeometry, func(_ *Image, t *Transform, _ *[]byte) { t.X.Step = 0 }},
		"bounds without area": {errGeometry, func(_ *Image, t *Transform, _ *[]byte) { t.Y.Lo = t.Y.Hi }},
		"outputs":             {errGeometry, func(_ *Image, t *Transform, _ *[]byte) { t.X.N = 0 }},
		"too many outputs":    {errGeometry, func(_ *Image, t *Transform, _ *[]byte) { t.X.N, t.X.Step = maxSource, 30./maxSource }},
		"within slack":        {nil, func(_ *Image, t *Transform, _ *[]byte) { t.X.Start -= slack }},
		"before slack":        {errGeometry, func(_ *Image, t *Transform, _ *[]byte) { t.X.Start -= 1.5 * slack }},
		"up to slack":         {nil, func(_ *Image, t *Transform, _ *[]byte) { t.X.Start += slack }},
		"behind slack":        {errGeometry, func(_ *Image, t *Transform, _ *[]byte) { t.X.Start += 1.5 * slack }},
		"far out":             {errGeometry, func(_ *Image, t *Transform, _ *[]byte) { t.Y.Start, t.Y.Hi = 1<<29, 1<<30 }},
	} {
		i, x, s := src, tr, scratch
		v.change(&i, &x, &s)
		c := canvas{}
		if err := Resize(&c, i, x, s, kernel.Fastest); !errors.Is(err, v.want) {
			t.Errorf("%s: %v", name, err)
		}
		if v.want != nil && c.rows != 0 {
			t.Errorf("%s: %d rows", name, c.rows)
		}
	}
	if n := ScratchBytes(Transform{}, 3); n != 0 {
		t.Errorf("nothing takes %d bytes", n)
	}
}

type nowhere struct{}

func (nowhere) PutRow(int, []byte) {}

// TestNothingOnTheHeap: no image allocates anything, with any kernel and any sink.
func TestNothingOnTheHeap(t *testing.T) {
	sinks := []Sink{nowhere{}}
	if rowtest.InC {
		sinks = append(sinks, rowtest.NewSink(t, 32, 64*3))
	}
	o := randomCrop(1)
	o.Height, o.Width, o.Flip = 32, 64, 0.5
	src := pattern(100, 200, 3)
	scratch := make([]byte, 1<<20)
	for _, k := range Kernels() {
		for _, sink := range sinks {
			for _, mode := range []Mode{None, Stretch, NotLarger, NotSmaller, CenterCrop, RandomResizedCrop} {
				o.Mode, o.ResizeTo = mode, 70
				h, w := src.Height, src.Width
				if mode == None {
					h, w = 32, 64
				}
				sample := int64(0)
				if n := testing.AllocsPerRun(5, func() {
					sample++
					testkit.Must(t, Resize(sink, src, o.Choose(1, sample, h, w), scratch, k))
				}); n != 0 {
					t.Errorf("%s, %v: %v allocations an image", k, mode, n)
				}
			}
		}
	}
}

// FuzzResize: whatever the geometry, every kernel makes the same bytes, close to the
// definition's, and none reads or writes out of bounds.
func FuzzResize(f *testing.F) {
	f.Add(uint16(375), uint16(500), true, uint8(1), uint16(224), uint16(224), uint64(1), 0.0, uint8(0))
	f.Add(uint16(1), uint16(1), false, uint8(3), uint16(300), uint16(1), uint64(2), 0.5, uint8(1))
	f.Add(uint16(3000), uint16(2), true, uint8(1), uint16(3), uint16(9), uint64(3), 0.25, uint8(2))
	f.Add(uint16(17), uint16(93), true, uint8(4), uint16(16), uint16(31), uint64(4), 1.0, uint8(3))
	f.Fuzz(func(t *testing.T, h, w uint16, rgb bool, mode uint8, height, width uint16, seed uint64, shift float64, reduce uint8) {
		src := Image{Height: 1 + int(h)%3000, Width: 1 + int(w)%3000, Channels: 1}
		if rgb {
			src.Channels = 3
		}
		r := rand.New(rand.NewPCG(seed, 0))
		if src.Height*src.Width > 60000 {
			src.Height = 1 + 60000/src.Width
		}
		stride := r.IntN(9)
		src = noise(r, src.Height, src.Width, src.Channels)
		src.Stride += stride
		src.Pix = append(src.Pix, make([]byte, stride*(src.Height-1))...)
		o := randomCrop(seed)
		o.Mode, o.Height, o.Width = Mode(mode)%numModes, 1+int(height)%400, 1+int(width)%400
		o.ResizeTo = max(o.Height, o.Width) + int(reduce)
		tr := o.Choose(int(h), int64(w), src.Height, src.Width)
		switch { // also geometries that Choose does not make
		case reduce%4 > 0:
			scale := 1 << (reduce % 4)
			tr = tr.Reduced(scale, 0, 0)
		case shift > -1000 && shift < 1000:
			tr.X.Start += shift
			tr.Y.Step *= 1 - min(max(shift, 0), 0.9)
		}
		b := newBench(t)
		if fits(src, tr) != nil {
			return
		}
		b.everyKernel(t, src, tr)
	})
}

// fused matches arm64's instructions that multiply and add with one rounding.
var fused = regexp.MustCompile(`\t(FN?M(?:ADD|SUB)[SD])\t`)

// TestNothingIsFused: no result depends on whether the processor can multiply and add with one
// rounding. Go uses such instructions on arm64 and others (never on amd64, where the tests run)
// unless the product is converted explicitly: float64(x*y) + z.
func TestNothingIsFused(t *testing.T) {
	if testing.Short() {
		t.Skip("SKIPPED: this run is a short one, and it would compile Go's library for another processor")
	}
	// First test the detector: it must find the compiler's output for plain code.
	plain := t.TempDir()
	write(t, filepath.Join(plain, "go.mod"), "module plain\n\ngo 1.22\n")
	write(t, filepath.Join(plain, "plain.go"), "package plain\n\nfunc F(x, y, z float64) float64 { return x*y + z }\n")
	if code := assembly(t, plain, "."); !fused.MatchString(code) {
		t.Fatal("the compiler fused nothing in x*y + z: this test can see nothing")
	}
	for _, pkg := range []string{"decode", "layout", "decode/resample", "internal/keep"} {
		code := assembly(t, "../..", "./"+pkg)
		if !strings.Contains(code, "FMULD") && pkg != "decode" && pkg != "layout" {
			t.Errorf("%s: no multiplication of floats among its instructions: were they listed at all?", pkg)
		}
		for line := range strings.Lines(code) {
			if fused.MatchString(line) {
				t.Errorf("%s: a multiplication and an addition are one: %s", pkg, strings.TrimSpace(line))
			}
		}
	}
}

func write(t *testing.T, path, text string) {
	t.Helper()
	testkit.Must(t, os.WriteFile(path, []byte(text), 0o600))
}

// assembly returns the compiler's output for a package on arm64, without C.
func assembly(t *testing.T, dir, pkg string) string {
	t.Helper()
	build := exec.Command("go", "build", "-gcflags=-S", pkg)
	build.Dir = dir
	build.Env = append(os.Environ(), "GOARCH=arm64", "CGO_ENABLED=0", "GOFLAGS=", "GOWORK=off")
	out, err := build.CombinedOutput()
	if err != nil {
		t.Fatalf("go build %s for arm64: %v\n%s", pkg, err, out)
	}
	return string(out)
}
