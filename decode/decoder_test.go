package decode_test

import (
	"bytes"
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"unsafe"

	. "github.com/batchfs/batchfs/decode"
	"github.com/batchfs/batchfs/internal/testkit"
)

func TestDestinationIsChecked(t *testing.T) {
	data := corpus("plain-20x10.jpg").data
	h := headerOf(data)
	d := newCoder(t, Options{})
	pix := make([]byte, 60*10)
	for name, dst := range map[string]Image{
		"no memory":        {nil, 60, 10, 20},
		"a byte too few":   {pix[:len(pix)-1], 60, 10, 20},
		"a short stride":   {pix, 59, 10, 20},
		"a long stride":    {pix, 61, 10, 20},
		"no stride":        {pix, 0, 10, 20},
		"negative stride":  {pix, -60, 10, 20},
		"huge stride":      {pix, math.MaxInt, 10, 20},
		"another size":     {pix, 60, 20, 10},
		"a row too many":   {pix, 60, 11, 20},
		"a column too few": {pix, 60, 10, 19},
	} {
		if err := d.Decode(dst, data, h); !errors.Is(err, ErrDestination) {
			t.Errorf("%s: %v", name, err)
		}
	}
	dst := Image{pix, 60, 10, 20}
	for _, r := range []Region{{-1, 0, 20, 10}, {0, -1, 20, 10}, {1, 0, 20, 10}, {0, 1, 20, 10}, {math.MaxInt, 0, 20, 10}, {0, 0, 0, 10}, {0, 0, 20, -1}} {
		if err := d.DecodeRegion(dst, data, h, r, 1); !errors.Is(err, ErrDestination) {
			t.Errorf("%+v: %v", r, err)
		}
	}
	for _, scale := range []int{0, -1, 3, 16} {
		if err := d.DecodeRegion(dst, data, h, Region{0, 0, 20, 10}, scale); !errors.Is(err, ErrDestination) {
			t.Errorf("at 1/%d: %v", scale, err)
		}
	}
	png := corpus("plain-20x10.png").data
	if err := d.DecodeRegion(Image{pix, 60, 5, 10}, png, headerOf(png), Region{0, 0, 10, 5}, 2); !errors.Is(err, ErrDestination) {
		t.Errorf("a PNG at 1/2: %v", err)
	}
	if err := d.Decode(dst, data, h); err != nil {
		t.Error(err)
	}
}

func TestHeaderMustMatch(t *testing.T) {
	c := newCoders(t)
	others := slices.Concat(rotatable(20, 10, 2, false), rotatable(10, 20, 1, false), rotatable(21, 10, 1, false))
	for _, s := range rotatable(20, 10, 1, false) {
		a := whole(s.file)
		for _, k := range kernelsOf(s.format) {
			d := c.with(Options{Kernel: k})
			for _, o := range others {
				other := a
				other.data = o.data
				if err := d.decode(t, other).err; !errors.Is(err, ErrMismatch) {
					t.Errorf("%s with the header of a %s: %v", o.name, s.name, err)
				}
			}
			index := a
			index.head = Header{Format: a.head.Format, Width: a.head.Width, Height: a.head.Height, Orientation: a.head.Orientation}
			d.pixels(t, index)
		}
	}
}

func TestMaxPixels(t *testing.T) {
	for _, s := range rotatable(20, 10, 6, false) {
		for limit, want := range map[int64]error{199: ErrTooLarge, 200: nil, 0: nil} {
			if err := newCoder(t, Options{MaxPixels: limit}).decode(t, whole(s.file)).err; !errors.Is(err, want) {
				t.Errorf("%s with at most %d pixels: %v", s.name, limit, err)
			}
		}
	}
	// 2^28 pixels are the default limit, and nothing is allocated for more.
	ppm := []byte("P5 16385 16384 255 abc")
	h, err := ReadHeader(ppm, false)
	testkit.Must(t, err)
	if err := newCoder(t, Options{}).Decode(Image{}, ppm, h); !errors.Is(err, ErrTooLarge) || !strings.Contains(err.Error(), "16385x16384") {
		t.Errorf("%v", err)
	}
}

// TestClosedDecoder: a decoder holds nothing after it is closed or trimmed, and works only if it is
// not closed.
func TestClosedDecoder(t *testing.T) {
	for _, s := range rotatable(61, 47, 6, false) {
		d, a := newCoder(t, Options{}), whole(s.file)
		for range 2 {
			d.pixels(t, a)
			if d.Trim(); d.ScratchBytes() != 0 {
				t.Errorf("%s: %d bytes held after Trim", a, d.ScratchBytes())
			}
		}
		d.pixels(t, a)
		d.Close()
		d.Close()
		d.Trim()
		if x := d.decode(t, a); x.err == nil || d.ScratchBytes() != 0 {
			t.Errorf("a closed decoder decodes, or holds %d bytes", d.ScratchBytes())
		}
	}
}

// TestSteps: Steps of a region that was decoded as stored lead to the pixels of the upright region.
func TestSteps(t *testing.T) {
	const w, h, c, stride = 5, 3, 3, 40
	for orientation := range uint8(12) { // an unknown one is none
		head := Header{Width: w, Height: h, Orientation: orientation}
		tall, wide := head.Size(false)
		first, dx, dy := Options{}.Steps(head, Region{W: w, H: h}, c, stride)
		for y := range tall {
			for x := range wide {
				if sx, sy := stored(orientation, w, h, x, y); first+x*dx+y*dy != sy*stride+sx*c {
					t.Fatalf("orientation %d: (%d, %d) is at %d", orientation, x, y, first+x*dx+y*dy)
				}
			}
		}
	}
}

// TestScaleOffset: if an image is mirrored, the column and the row that cover fewer pixels come
// first. (internal/pixels checks whether pixels move.)
func TestScaleOffset(t *testing.T) {
	for orientation, want := range [][2]float64{{0, 0}, {0, 0}, {0, 3. / 8}, {1. / 8, 3. / 8}, {1. / 8, 0}, {0, 0}, {0, 1. / 8}, {3. / 8, 1. / 8}, {3. / 8, 0}} {
		h := Header{Width: 13, Height: 7, Orientation: uint8(orientation)}
		if y, x := (Options{}).ScaleOffset(h, 8); y != want[0] || x != want[1] {
			t.Errorf("13x7 with orientation %d at 1/8: %v, %v", orientation, y, x)
		}
		for o, scale := range map[Options]int{{IgnoreOrientation: true}: 8, {}: 1} {
			if y, x := o.ScaleOffset(h, scale); x != 0 || y != 0 {
				t.Errorf("orientation %d, %+v, at 1/%d: %v, %v", orientation, o, scale, y, x)
			}
		}
	}
}

// TestPrepared: data packed for a decoder with many threads stays within its announced size,
// whatever the file. Every image that our own decoder decodes can be packed, unless it is
// progressive.
func TestPrepared(t *testing.T) {
	needsC(t)
	r, prepared, d := rand.New(rand.NewPCG(2, 2)), 0, newCoder(t, Options{Kernel: Portable})
	for _, f := range jpegFiles() {
		for i := range 8 {
			a := whole(f)
			if i > 0 {
				damaged := flipped(r, f.data)
				a = whole(file{f.name, damaged[:max(len(damaged)-r.IntN(2)*r.IntN(len(damaged)), 1)]})
			}
			if a.head.Format == JPEG && prepares(t, r, d, a.some(r)) {
				prepared++
			}
		}
	}
	if prepared < 200 {
		t.Errorf("only %d files could be packed", prepared)
	}
}

func prepares(t *testing.T, r *rand.Rand, d coder, a ask) bool {
	t.Helper()
	p, ok := d.o.Pack(a.data, a.head, a.region, []int{32, 333, 2048}[r.IntN(3)])
	ours := d.decode(t, a).jpegs.Baseline == 1 && !bytes.Contains(a.data, []byte{0xff, markSOF2})
	if !ok {
		if ours {
			t.Errorf("%s: it is decoded, but cannot be packed", a)
		}
		return false
	}
	const around = 64
	words := make([]uint64, (p.Bytes+2*around)/8) // for alignment
	memory := unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(words))), p.Bytes+2*around)
	for i := range memory {
		memory[i] = guard
	}
	put := p.Put(memory[around:][:p.Bytes:p.Bytes], a.data)
	if ours && !put {
		t.Errorf("%s: it is decoded, but not packed", a)
	}
	touched := func(b byte) bool { return b != guard }
	if slices.ContainsFunc(memory[:around], touched) || slices.ContainsFunc(memory[around+p.Bytes:], touched) {
		t.Errorf("%s: %d bytes were announced, and others written", a, p.Bytes)
	}
	return put
}

// TestPreparedChanged: a file that has changed since it was planned is not packed if it takes more
// memory than announced.
func TestPreparedChanged(t *testing.T) {
	needsC(t)
	a := whole(file{"2x2", testFile("regions/2x2.jpg")})
	p, ok := Options{}.Pack(a.data, a.head, a.region, 2048)
	to := make([]byte, p.Bytes)
	if !ok || !p.Put(to, a.data) {
		t.Fatal("it cannot be packed")
	}
	frameOf(a.data)[7] = 0x11 // the factors of luma: chroma now has as many samples
	if p.Put(to, a.data) {
		t.Error("more was packed than there is memory for")
	}
}

func TestOrdinary(t *testing.T) {
	for name, want := range map[string]bool{
		"baseline": true, "gray": true, "gray-2x2": true, "restarts": true, "plain-1x1": true, "ycc-2x1-7x9": true,
		"rgb": false, "cmyk": false, "cmyk-plain": false, "progressive": false, "separate-scans": false,
		"../arithmetic": false, "../arithmetic-progressive": false,
	} {
		data := testFile("samples/" + name + ".jpg")
		if Ordinary(data) != want {
			t.Errorf("%s: %t", name, !want)
		}
		if Ordinary(data[:len(data)-2]) || Ordinary(data[:len(data)/3]) || Ordinary(data[:1]) {
			t.Errorf("%s: without its end", name)
		}
		marked := bytes.Replace(data, []byte{0xff, 0xdb}, []byte("\xff\xee\x00\x0eAdobe\x00\x64\x00\x00\x00\x00\x00\xff\xdb"), 1)
		if gray := bytes.HasPrefix([]byte(name), []byte("gray")); Ordinary(marked) != (want && gray) {
			t.Errorf("%s, marked as RGB: %t", name, Ordinary(marked))
		}
	}
	if Ordinary([]byte("\x89PNG\r\n\x1a\n")) {
		t.Error("PNG")
	}
}
