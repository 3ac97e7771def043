package layout

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/batchfs/batchfs/internal/kernel"
	"github.com/batchfs/batchfs/internal/option"
	"github.com/batchfs/batchfs/internal/rowtest"
	"github.com/batchfs/batchfs/internal/testkit"
)

// kernels lists the kernels that this build has for this processor, slowest first; the first is
// Go's.
func kernels() []kernel.Kernel { return kernel.UpTo(fastest()) }

// A kernelWriter is a Writer that uses one of the kernels.
type kernelWriter struct {
	kernel kernel.Kernel
	*Writer
}

// newWriters returns a writer for each kernel, with the same converter.
func newWriters(t testing.TB, s Spec, n Normalization) (all []kernelWriter) {
	t.Helper()
	c, err := NewConverter(s.DType, s.C, n)
	testkit.Must(t, err)
	for _, k := range kernels() {
		w := NewWriter(c, k)
		t.Cleanup(w.Close)
		all = append(all, kernelWriter{k, w})
	}
	return all
}

// The ways in which rows reach a Writer.
var deliveries = []func(w *Writer, c sampleCase, rng *rand.Rand){inAnyOrder, atOnce, inTwoParts, fromC}

func inAnyOrder(w *Writer, c sampleCase, rng *rand.Rand) {
	for _, y := range rng.Perm(c.height) {
		w.PutRow(y, c.row(y))
	}
}

func atOnce(w *Writer, c sampleCase, _ *rand.Rand) {
	w.putRows(0, c.height, c.pixels, c.width*c.spec.C)
}

// inTwoParts delivers rows with a stride larger than their length, the lower ones first.
func inTwoParts(w *Writer, c sampleCase, rng *rand.Rand) {
	stride, cut := c.width*c.spec.C+5, rng.IntN(c.height+1)
	var rows []byte
	for y := range c.height {
		rows = append(append(rows, c.row(y)...), "extra"...)
	}
	w.putRows(cut, c.height-cut, rows[cut*stride:], stride)
	w.putRows(0, cut, rows, stride)
}

func fromC(w *Writer, c sampleCase, rng *rand.Rand) {
	put, ctx := w.Native()
	if put == nil {
		inAnyOrder(w, c, rng)
		return
	}
	for _, y := range rng.Perm(c.height) {
		rowtest.Put(put, ctx, y, c.row(y))
	}
}

// write puts a sample into memory at the end or the beginning of a fence, like a batch's last and
// first slot.
func (c sampleCase) write(t testing.TB, w *Writer, deliver func(*Writer, sampleCase, *rand.Rand), rng *rand.Rand) []byte {
	t.Helper()
	n := int(c.spec.SampleBytes())
	slot := edge(t, 1, n, rng)
	for i := range slot {
		slot[i] = 0x5A
	}
	w.Begin(slot, c.spec, c.height, c.width, c.flip, c.fill)
	deliver(w, c, rng)
	w.End()
	return slot
}

// edge returns n bytes at the end or at the beginning of one of three fenced areas of memory. An
// access outside of it crashes the test.
func edge(t testing.TB, which, n int, rng *rand.Rand) []byte {
	t.Helper()
	if fences[which] == nil {
		fences[which] = testkit.Fenced(t, 384<<10)
		t.Cleanup(func() { fences[which] = nil })
	}
	memory := fences[which]
	if rng.IntN(2) == 0 {
		return memory[:n:n]
	}
	return memory[len(memory)-n:]
}

var fences [3][]byte // of the test that runs

func (c sampleCase) row(y int) []byte {
	n := c.width * c.spec.C
	return c.pixels[y*n : (y+1)*n : (y+1)*n]
}

func (c sampleCase) String() string {
	return fmt.Sprintf("%v %v %dx%dx%d in %dx%d flip=%v fill=%d", c.spec.DType, c.spec.Order, c.height, c.width, c.spec.C, c.spec.H, c.spec.W, c.flip, c.fill)
}

func randomBytes(rng *rand.Rand, n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(rng.Uint32())
	}
	return b
}

// normFor returns ImageNet's normalization if the type is a float, for the same number of
// channels.
func normFor(s Spec) Normalization {
	if s.DType == Uint8 {
		return Normalization{}
	}
	return Normalization{Mean: imagenet.Mean[:s.C], Std: imagenet.Std[:s.C]}
}

// Every dtype, order, mirroring, kernel and width up to several vectors.
func TestWriter(t *testing.T) {
	for d := Uint8; d <= Float32; d++ {
		for _, channels := range []int{1, 3} {
			t.Run(fmt.Sprintf("%v/%d", d, channels), func(t *testing.T) {
				rng := rand.New(rand.NewPCG(uint64(d), uint64(channels)))
				s := Spec{N: 1, C: channels, DType: d}
				writers := newWriters(t, s, normFor(s))
				table := sampleCase{spec: s, norm: normFor(s)}.referenceTable()
				for width := 0; width <= 70; width++ {
					for variant := range 8 {
						s.Order, s.H, s.W = Order(variant&1), 2, width+(width*5+variant)%4
						c := sampleCase{spec: s, norm: normFor(s), height: 2 - variant>>2, width: width, flip: variant&2 != 0, fill: uint8(width * variant)}
						c.pixels = randomBytes(rng, c.height*c.width*channels)
						checkWriters(t, writers, c, &table, rng)
					}
				}
			})
		}
	}
}

// checkWriters compares all kernels, and all ways to deliver rows, with the reference. The rows
// end, or begin, with the memory that can be read.
func checkWriters(t *testing.T, writers []kernelWriter, c sampleCase, table *[maxChannels][256]uint32, rng *rand.Rand) {
	t.Helper()
	want := c.slot(table)
	pixels := edge(t, 0, len(c.pixels), rng)
	copy(pixels, c.pixels)
	c.pixels = pixels
	for _, w := range writers {
		for i, deliver := range deliveries {
			if got := c.write(t, w.Writer, deliver, rng); !bytes.Equal(got, want) {
				t.Fatalf("%s, delivery %d: %v: byte %d differs", w.kernel, i, c, firstDifference(got, want))
			}
		}
	}
}

func firstDifference(a, b []byte) int {
	for i := range a {
		if a[i] != b[i] {
			return i
		}
	}
	return -1
}

// Formulas that are exact for every value, only nearly, or not at all: the bytes always equal
// the tables'.
func TestWriterOddNorms(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	for _, d := range floatTypes {
		for i := 0; i < len(oddNorms); i += 3 {
			var n Normalization
			for k := range 3 {
				odd := oddNorms[(i+k)%len(oddNorms)]
				n.Mean, n.Std = append(n.Mean, odd[0]), append(n.Std, odd[1])
			}
			c := sampleCase{spec: Spec{N: 1, H: 3, W: 259, C: 3, DType: d, Order: Order(i & 1)}, norm: n, height: 2, width: 256, flip: i&2 != 0, fill: 77}
			for v := range c.height * c.width {
				c.pixels = append(c.pixels, byte(v), byte(v+85), byte(v+170))
			}
			table := c.referenceTable()
			checkWriters(t, newWriters(t, c.spec, n), c, &table, rng)
		}
	}
}

func TestFill(t *testing.T) {
	for d := Uint8; d <= Float32; d++ {
		c := sampleCase{spec: Spec{N: 1, C: 3, DType: d}}
		c.norm = normFor(c.spec)
		table := c.referenceTable()
		conv, err := NewConverter(d, 3, c.norm)
		testkit.Must(t, err)
		for _, hw := range [][2]int{{0, 0}, {0, 7}, {1, 1}, {3, 5}, {70, 61}} {
			for variant, fill := range []uint8{0, 0, 1, 1, 114, 114, 255, 255} {
				c.spec.H, c.spec.W, c.spec.Order, c.fill = hw[0], hw[1], Order(variant&1), fill
				n := int(c.spec.SampleBytes())
				memory := bytes.Repeat([]byte{0x5A}, n+2)
				conv.Fill(memory[1:n+1], c.spec, fill)
				if want := c.slot(&table); !bytes.Equal(memory[1:n+1], want) || memory[0] != 0x5A || memory[n+1] != 0x5A {
					t.Errorf("%v: wrong", c)
				}
			}
		}
	}
}

// Other code may write a Direct slot; End still fills the margins.
func TestWriterDirect(t *testing.T) {
	s := Spec{N: 1, H: 3, W: 4, C: 3}
	for _, w := range newWriters(t, s, Normalization{}) {
		if !w.convert.Direct(NHWC, false) || w.convert.Direct(NCHW, false) || w.convert.Direct(NHWC, true) {
			t.Fatal("Direct is wrong")
		}
		slot := make([]byte, s.SampleBytes())
		w.Begin(slot, s, 2, 3, false, 9)
		for y := range 2 {
			copy(slot[y*12:], "pixelsRGB")
		}
		w.End()
		if want := "pixelsRGB\t\t\tpixelsRGB\t\t\t\t\t\t\t\t\t\t\t\t\t\t\t"; string(slot) != want {
			t.Errorf("%s: %q", w.kernel, slot)
		}
	}
	gray, err := NewConverter(Uint8, 1, Normalization{})
	if err != nil || !gray.Direct(NCHW, false) {
		t.Error("gray pixels are one plane", err)
	}
}

// A sample that was begun and not ended has no effect.
func TestWriterAbandoned(t *testing.T) {
	s := Spec{N: 1, H: 2, W: 20, C: 3, DType: Float16, Order: NCHW}
	c := sampleCase{spec: s, norm: normFor(s), height: 2, width: 20, pixels: randomBytes(rand.New(rand.NewPCG(1, 2)), 120)}
	table := c.referenceTable()
	for _, w := range newWriters(t, s, c.norm) {
		w.Begin(make([]byte, s.SampleBytes()), s, 1, 3, true, 200)
		w.PutRow(0, make([]byte, 9))
		got := c.write(t, w.Writer, atOnce, rand.New(rand.NewPCG(1, 2)))
		if !bytes.Equal(got, c.slot(&table)) {
			t.Errorf("%s: the sample before shows", w.kernel)
		}
	}
}

// Rows from C outside the sample are ignored.
func TestNativeIgnores(t *testing.T) {
	s := Spec{N: 1, H: 4, W: 20, C: 3, DType: Float32}
	for _, w := range newWriters(t, s, normFor(s)) {
		put, ctx := w.Native()
		if put == nil {
			continue
		}
		row := make([]byte, 60)
		rowtest.Put(put, ctx, 0, row) // before Begin
		slot := make([]byte, s.SampleBytes())
		w.Begin(slot, s, 2, 20, false, 0)
		for _, y := range []int{-1, 2, 3, 1 << 30, -1 << 31} {
			rowtest.Put(put, ctx, y, row)
		}
		if !bytes.Equal(slot, make([]byte, len(slot))) {
			t.Errorf("%s: a row outside was written", w.kernel)
		}
		w.End()
		clear(slot)
		rowtest.Put(put, ctx, 0, row)
		if again, _ := w.Native(); again != put || !bytes.Equal(slot, make([]byte, len(slot))) {
			t.Errorf("%s: a row was written after the end", w.kernel)
		}
	}
}

func TestWriterPanics(t *testing.T) {
	s := Spec{N: 1, H: 4, W: 5, C: 3, DType: Float16}
	slot := make([]byte, s.SampleBytes())
	other := func(change func(*Spec)) Spec { o := s; change(&o); return o }
	for _, w := range newWriters(t, s, Normalization{}) {
		for what, f := range map[string]func(){
			"short slot":   func() { w.Begin(slot[1:], s, 4, 5, false, 0) },
			"long slot":    func() { w.Begin(append(slot, 0), s, 4, 5, false, 0) },
			"other dtype":  func() { w.Begin(slot, other(func(o *Spec) { o.DType = BFloat16 }), 4, 5, false, 0) },
			"other colour": func() { w.Begin(slot, other(func(o *Spec) { o.C, o.W = 1, 15 }), 4, 15, false, 0) },
			"too high":     func() { w.Begin(slot, s, 5, 5, false, 0) },
			"too wide":     func() { w.Begin(slot, s, 4, 6, false, 0) },
			"negative":     func() { w.Begin(slot, s, -1, 5, false, 0) },
			"row outside":  func() { w.Begin(slot, s, 3, 5, false, 0); w.PutRow(3, make([]byte, 15)) },
			"row before":   func() { w.Begin(slot, s, 3, 5, false, 0); w.PutRow(-1, make([]byte, 15)) },
			"short row":    func() { w.Begin(slot, s, 3, 5, false, 0); w.PutRow(0, make([]byte, 14)[:14:14]) },
			"short rows":   func() { w.Begin(slot, s, 3, 5, false, 0); w.putRows(0, 3, make([]byte, 44)[:44:44], 15) },
			"after end":    func() { w.Begin(slot, s, 3, 5, false, 0); w.End(); w.PutRow(0, make([]byte, 15)) },
		} {
			if !panics(f) {
				t.Errorf("%s: %s: no panic", w.kernel, what)
			}
		}
	}
}

func panics(f func()) (did bool) {
	defer func() { did = recover() != nil }()
	f()
	return false
}

// Closing twice, and Native, with and without C.
func TestWriterClose(t *testing.T) {
	if all := kernels(); all[0] != kernel.None || fastest() != all[len(all)-1] {
		t.Errorf("%v, in use %s", all, fastest())
	}
	for _, w := range newWriters(t, Spec{C: 1}, Normalization{}) {
		put, ctx := w.Native()
		if (put == nil) != (w.kernel == kernel.None) || (ctx == nil) != (put == nil) {
			t.Errorf("%s: %v, %v", w.kernel, put, ctx)
		}
		w.Close()
		w.Close()
		if put, ctx := w.Native(); put != nil || ctx != nil {
			t.Errorf("%s: closed, but %v, %v", w.kernel, put, ctx)
		}
	}
}

func FuzzWriter(f *testing.F) {
	f.Add(uint16(3), uint16(17), uint8(2), uint8(5), uint8(0xff), uint8(3), []byte("pixels"))
	f.Add(uint16(1), uint16(6), uint8(0), uint8(0), uint8(0), uint8(0), []byte{1})
	f.Fuzz(func(t *testing.T, h, w uint16, right, below, what, fill uint8, pixels []byte) {
		c := sampleCase{height: int(h % 9), width: int(w % 300), flip: what&1 != 0, fill: fill}
		c.spec = Spec{N: 1, C: 1 + int(what>>1&1)*2, DType: DType(what >> 2 & 3), Order: Order(what >> 4 & 1)}
		c.spec.H, c.spec.W = c.height+int(below%4), c.width+int(right%40)
		c.norm = normFor(c.spec)
		for len(c.pixels) < c.height*c.width*c.spec.C {
			c.pixels = append(append(c.pixels, pixels...), byte(len(c.pixels)))
		}
		c.pixels = c.pixels[:c.height*c.width*c.spec.C]
		table := c.referenceTable()
		checkWriters(t, newWriters(t, c.spec, c.norm), c, &table, rand.New(rand.NewPCG(uint64(w), uint64(what))))
	})
}

// imagenet is the meaning of --normalize imagenet, in 0..255 units.
var imagenet = Normalization{Mean: []float64{123.675, 116.28, 103.53}, Std: []float64{58.395, 57.12, 57.375}}

var floatTypes = []DType{Float16, BFloat16, Float32}

// Means and stds of every kind: common ones, ties, cancellation, numbers that no format can
// represent.
var oddNorms = [][2]float64{
	{0, 1}, {0, 255}, {127.5, 127.5}, {128, 128}, {123.675, 58.395}, {116.28, 57.12}, {103.53, 57.375}, {0.485 * 255, 0.229 * 255},
	{123.68, 58.393}, {116.779, 57.12}, {103.939, 57.375}, {-3, 0.25}, {1.0 / 3, 1.0 / 3}, {255, math.Pi}, {254.99999, 1e-5},
	{128 + 1e-13, 1}, {128, 1 << 24}, {128, 1 << 30}, {100, 3e-3}, {100, 0.003906}, {100, 3e-37}, {100, 1e-300}, {0, 5e-324}, {1e300, 1},
	{-1e300, 1e-300}, {5e-324, 1}, {5e-324, 5e-324}, {7, 1e40}, {7, 1e46}, {7, 1e300}, {math.MaxFloat64, math.MaxFloat64}, {130.0001, 0x1p120},
	{127, 0x1p17}, {127, 0x1p21}, {127, 0x1p131}, {127, 0x1p139}, {127, 0x1p-120}, {16777217, 1}, {0.1, 0.1}, {1, 4080.0000001},
}

func FuzzElements(f *testing.F) {
	f.Add(uint8(0), uint8(1), 123.675, 58.395)
	f.Add(uint8(255), uint8(2), -1e-310, 1e-310)
	f.Fuzz(func(t *testing.T, v, d uint8, mean, std float64) {
		dtype := floatTypes[d%3]
		c, err := NewConverter(dtype, 1, Normalization{Mean: []float64{mean}, Std: []float64{std}})
		if bad := !finite(mean) || !finite(std) || std <= 0; bad != (err != nil) {
			t.Fatalf("mean %v, std %v: %v", mean, std, err)
		}
		if err != nil {
			return
		}
		if got, want := c.bits[0][v], referenceElement(dtype, v, mean, std); got != want {
			t.Errorf("%v: (%d-%v)/%v is %#x, want %#x", dtype, v, mean, std, got, want)
		}
	})
}

func TestOptionErrors(t *testing.T) {
	three := []float64{1, 2, 3}
	for _, c := range []struct {
		d        DType
		channels int
		n        Normalization
		field    string
		want     string
	}{
		{Float32, 3, Normalization{Mean: three[:1]}, "mean", "mean must be 3 values, one for each channel, not 1"},
		{Float16, 1, Normalization{Std: three}, "std", "std must be one value, for the one channel, not 3"},
		{Float32, 3, Normalization{Mean: []float64{0, math.NaN(), 0}}, "mean", "mean must be finite for every channel, not NaN"},
		{Float32, 3, Normalization{Mean: []float64{0, 0, math.Inf(-1)}}, "mean", "mean must be finite for every channel, not -Inf"},
		{BFloat16, 3, Normalization{Std: []float64{1, 0, 1}}, "std", "std must be greater than 0 and finite for every channel, not 0"},
		{BFloat16, 3, Normalization{Std: []float64{1, 1, -2.5}}, "std", "std must be greater than 0 and finite for every channel, not -2.5"},
		{BFloat16, 3, Normalization{Std: []float64{math.Inf(1), 1, 1}}, "std", "std must be greater than 0 and finite for every channel, not +Inf"},
		{BFloat16, 3, Normalization{Std: []float64{math.NaN(), 1, 1}}, "std", "std must be greater than 0 and finite for every channel, not NaN"},
		{Uint8, 3, Normalization{Mean: three}, "dtype", "dtype must be float16, bfloat16 or float32 where there is a mean or a std, since normalising needs a float dtype, not uint8"},
		{Uint8, 1, Normalization{Std: three[:1]}, "dtype", "dtype must be float16, bfloat16 or float32 where there is a mean or a std, since normalising needs a float dtype, not uint8"},
		{Float32, 4, Normalization{}, "channels", "channels must be 1 or 3, not 4"},
		{9, 3, Normalization{}, "dtype", "dtype must be uint8, float16, bfloat16 or float32, not 9"},
	} {
		conv, err := NewConverter(c.d, c.channels, c.n)
		var bad *option.Error
		if !errors.As(err, &bad) || bad.Field != c.field || err.Error() != c.want || conv != nil {
			t.Errorf("got %v, want %s", err, c.want)
		}
	}
}

func ExampleNewConverter() {
	_, err := NewConverter(Float16, 3, Normalization{Mean: []float64{124, 116}})
	fmt.Println(err)
	// Output: mean must be 3 values, one for each channel, not 2
}

// TestNothingIsAllocated in the steady state; a sheet takes two small tables.
func TestNothingIsAllocated(t *testing.T) {
	s := Spec{N: 2, H: 9, W: 40, C: 3, DType: Float16, Order: NCHW}
	c, floats, pixels := floatBatch(t, s, imagenet)
	name, sheet := make([]byte, 0, 64), make([]byte, Size(PNG, s))
	header, small, m := make([]byte, DataOffset(SafeTensors, s)+Page), make([]byte, 0, Size(Sizes, s)), metaFor(s.N)
	allowed := map[string]float64{"sheet": 2}
	works := map[string]func(){
		"npy":         func() { PutHeader(NPY, s, header, m) },
		"safetensors": func() { PutHeader(SafeTensors, s, header, m) },
		"labels":      func() { AppendNPY(small, Labels, s, m) },
		"sizes":       func() { AppendNPY(small, Sizes, s, m) },
		"valid":       func() { AppendNPY(small, Valid, s, m) },
		"names": func() {
			name = noArrays.AppendName(name[:0], 123456, Labels)
			noArrays.ParseBatchName("batch-123456.labels.npy")
		},
		"sheet": func() { c.PutSheet(sheet, s, floats, 2, nil) },
		"size": func() {
			for f := range NumForms {
				Size(f, s)
			}
		},
	}
	for _, k := range kernels() {
		works["turn "+k.String()] = func() {
			for _, channels := range []int{3, 4} {
				turn(k, NCHW, floats, pixels, 100, channels, 4)
				turn(k, NHWC, floats, pixels, 100, channels, 2)
			}
		}
	}
	for d := Uint8; d <= Float32; d++ {
		s := s
		s.DType = d
		for _, w := range newWriters(t, s, normFor(s)) {
			slot := make([]byte, s.SampleBytes())
			works["write "+d.String()+" "+w.kernel.String()] = func() {
				w.Begin(slot, s, 8, 33, true, 5)
				w.putRows(0, 7, pixels, 99)
				w.PutRow(7, pixels)
				w.End()
				w.convert.Fill(slot, s, 3)
			}
		}
	}
	for what, work := range works {
		if n := testing.AllocsPerRun(20, work); n > allowed[what] {
			t.Errorf("%s: %v allocations", what, n)
		}
	}
}
