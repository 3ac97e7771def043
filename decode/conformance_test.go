package decode

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"testing"
)

// One suite for every codec of this build and for Go's: what each must do with every sample.

type codecSet struct {
	name string
	make func(Options) *Decoder
	goes bool // Go's decoders
	// light: tested less, because it is slow and is another build's native codec, or because it
	// is compared with another set elsewhere.
	light bool
	// only: the one format in which it differs from another set; Unknown if it differs in all.
	only Format
}

// codecSets returns this build's own set first, Go's last. Without cgo the two are one.
func codecSets() []codecSet {
	if goOnly {
		return []codecSet{{name: "go", make: NewDecoder, goes: true}}
	}
	ofGo := func(o Options) *Decoder { return &Decoder{options: o, codecs: goCodecs} }
	sets := append([]codecSet{{name: "native", make: NewDecoder}}, otherPaths()...)
	return append(sets, codecSet{name: "go", make: ofGo, goes: true, light: true})
}

// has reports whether the set's codec of a format is worth testing.
func (c codecSet) has(f Format) bool { return c.only == Unknown || c.only == f }

func (c codecSet) decoder(t testing.TB, o Options) *Decoder {
	d := c.make(o)
	t.Cleanup(d.Close)
	return d
}

// eachSample runs a subtest for each set and format, and calls f for every sample that the set
// can read.
func eachSample(t *testing.T, f func(t *testing.T, set codecSet, s *sample)) {
	among(t, samples(t), f)
}

// eachSmallSample is eachSample for tests that decode each sample many times: it leaves out
// large images, and for light sets uses only every fifth.
func eachSmallSample(t *testing.T, f func(t *testing.T, set codecSet, s *sample)) {
	const large = 20000
	var small []sample
	for _, s := range samples(t) {
		if s.w*s.h < large {
			small = append(small, s)
		}
	}
	n := 0
	among(t, small, func(t *testing.T, set codecSet, s *sample) {
		if n++; !set.light || n%5 == 0 {
			f(t, set, s)
		}
	})
}

func among(t *testing.T, all []sample, f func(t *testing.T, set codecSet, s *sample)) {
	for _, set := range codecSets() {
		for format := JPEG; format < numFormats; format++ {
			if !set.has(format) {
				continue
			}
			t.Run(set.name+"/"+format.String(), func(t *testing.T) {
				n := 0
				for i := range all {
					if s := &all[i]; s.format == format && !(set.goes && s.goRefuses) {
						f(t, set, s)
						n++
					}
				}
				if n == 0 {
					t.Fatal("no samples")
				}
			})
		}
	}
}

// canvas is memory to decode into, with guard bytes around every row.
type canvas struct {
	Image
	all   []byte
	lead  int
	row   int
	guard byte
}

func newCanvas(w, h, channels int) *canvas {
	const slack = 5
	c := &canvas{lead: 64, row: w * channels, guard: 0xa5}
	stride := c.row + slack
	c.all = bytes.Repeat([]byte{c.guard}, 2*c.lead+stride*h-slack)
	c.Image = Image{Pix: c.all[c.lead : c.lead+stride*h-slack], Stride: stride, Height: h, Width: w}
	return c
}

// pixels returns the rows, and fails if the bytes between them were changed.
func (c *canvas) pixels(t testing.TB, name string) []byte {
	t.Helper()
	out := make([]byte, 0, c.row*c.Height)
	for y := range c.Height {
		out = append(out, c.Pix[y*c.Stride:][:c.row]...)
	}
	rest := append([]byte(nil), c.all[:c.lead]...)
	for y := range c.Height - 1 {
		rest = append(rest, c.Pix[y*c.Stride+c.row:][:c.Stride-c.row]...)
	}
	rest = append(rest, c.all[len(c.all)-c.lead:]...)
	for _, b := range rest {
		if b != c.guard {
			t.Fatalf("%s: wrote outside the rows", name)
		}
	}
	return out
}

// decodeTo decodes all of data into guarded memory and returns its pixels.
func decodeTo(t testing.TB, d *Decoder, name string, data []byte, h Header) ([]byte, error) {
	t.Helper()
	height, width := h.Size(d.options.IgnoreOrientation)
	c := newCanvas(width, height, d.options.Color.Channels())
	err := d.Decode(c.Image, data, h)
	return c.pixels(t, name), err
}

// compare fails if pixels differ from the wanted ones by more than allowed.
func compare(t testing.TB, name string, got, want []uint8, worst int, mean float64) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%s: %d bytes of pixels, want %d", name, len(got), len(want))
	}
	at, off, sum := 0, 0, 0
	for i := range got {
		d := int(got[i]) - int(want[i])
		d = max(d, -d)
		sum += d
		if d > off {
			at, off = i, d
		}
	}
	if m := float64(sum) / float64(len(got)); off > worst || m > mean {
		t.Errorf("%s: byte %d is %d, want %d; off by %d at worst and %.3f in the mean, allowed are %d and %.3f",
			name, at, got[at], want[at], off, m, worst, mean)
	}
}

var sentinels = []error{ErrFormat, ErrCorrupt, ErrTooLarge, ErrMismatch, ErrMemory}

// explained checks that an error has a known kind and a reason.
func explained(t testing.TB, name string, err error) {
	t.Helper()
	for _, kind := range sentinels {
		if errors.Is(err, kind) {
			if len(err.Error()) <= len(kind.Error())+2 {
				t.Errorf("%s: no reason in %q", name, err)
			}
			return
		}
	}
	t.Errorf("%s: an error of no kind: %v", name, err)
}

func TestPixels(t *testing.T) {
	eachSample(t, func(t *testing.T, set codecSet, s *sample) {
		h, err := ReadHeader(s.data, true)
		if err != nil {
			t.Errorf("%s: %v", s.name, err)
			return
		}
		if h.Format != s.format || h.Width != s.w || h.Height != s.h || h.Orientation != s.orientation {
			t.Errorf("%s: header %+v", s.name, h)
		}
		for _, c := range []Color{RGB, Gray} {
			name := fmt.Sprintf("%s in %d channels", s.name, c.Channels())
			got, err := decodeTo(t, set.decoder(t, Options{Color: c}), name, s.data, h)
			if err != nil {
				t.Errorf("%s: %v", name, err)
				continue
			}
			want, _, _ := s.want(c, 1)
			compare(t, name, got, want, s.worst, s.mean)
		}
	})
}

// TestExtensionDoesNotMatter: content alone says what a file is, which is what honest names say.
func TestExtensionDoesNotMatter(t *testing.T) {
	honest := map[string]Format{".jpg": JPEG, ".jpeg": JPEG, ".png": PNG, ".webp": WebP, ".bmp": BMP, ".pnm": PNM}
	for _, s := range samples(t) {
		if want, named := honest[filepath.Ext(s.name)]; named && Sniff(s.data) != want {
			t.Errorf("%s is taken for %s", s.name, Sniff(s.data))
		}
	}
}

// lengths returns the lengths to cut a file of n bytes to: all for a small file; for a larger
// one those near its ends, and some between.
func lengths(n int, light bool) (out []int) {
	all, ends, between := 300, 80, 40
	if light {
		all, ends, between = 0, 3, 3
	}
	for i := range n {
		if n <= all || i < ends || n-i <= ends || i%(n/between+1) == 0 {
			out = append(out, i)
		}
	}
	return out
}

func TestTruncated(t *testing.T) {
	eachSmallSample(t, func(t *testing.T, set codecSet, s *sample) {
		h, _ := ReadHeader(s.data, true)
		d := set.decoder(t, Options{})
		for _, n := range lengths(len(s.data)-s.loose, set.light) {
			name := fmt.Sprintf("%s cut to %d of %d", s.name, n, len(s.data))
			_, err := decodeTo(t, d, name, s.data[:n:n], h)
			if err == nil {
				t.Errorf("%s: no error", name)
				break
			}
			explained(t, name, err)
		}
		stillWorks(t, d, s, h)
	})
}

// stillWorks checks that earlier images have no effect.
func stillWorks(t testing.TB, d *Decoder, s *sample, h Header) {
	t.Helper()
	got, err := decodeTo(t, d, s.name, s.data, h)
	if err != nil {
		t.Errorf("%s after damaged ones: %v", s.name, err)
		return
	}
	want, _, _ := s.want(d.options.Color, 1)
	compare(t, s.name+" after damaged ones", got, want, s.worst, s.mean)
}

func TestDamaged(t *testing.T) {
	eachSmallSample(t, func(t *testing.T, set codecSet, s *sample) {
		h, _ := ReadHeader(s.data, true)
		d := set.decoder(t, Options{MaxPixels: 1 << 20})
		random := rand.New(rand.NewPCG(uint64(len(s.data)), uint64(s.w)))
		rounds := 40
		if set.light {
			rounds = 2
		}
		for range rounds {
			data := bytes.Clone(s.data)
			for range 1 + random.IntN(3) {
				data[random.IntN(len(data))] ^= 1 << random.IntN(8)
			}
			for _, header := range []Header{h, headerOf(data)} {
				if header.Width == 0 || header.pixels() > 1<<16 {
					continue
				}
				if _, err := decodeTo(t, d, s.name+" damaged", data, header); err != nil {
					explained(t, s.name+" damaged", err)
				}
			}
		}
		stillWorks(t, d, s, h)
	})
}

func headerOf(data []byte) Header {
	h, _ := ReadHeader(data, true)
	return h
}

// rotatable returns a sample with an orientation in each format that can carry EXIF. The size must
// be one of those in testdata/samples/plain-*.
func rotatable(w, h, orientation int, bigEndian bool) []sample {
	tiff := exifWith(orientation, bigEndian)
	size := fmt.Sprintf("%dx%d", w, h)
	jpeg, webp := corpus("plain-"+size+".jpg"), corpus("plain-"+size+".webp")
	png, interlaced := corpus("plain-"+size+".png"), corpus("plain-interlaced-"+size+".png")
	jpeg.data = withEXIF(jpeg.data, tiff)
	for _, s := range []*sample{&png, &interlaced} {
		s.data = edited(s.data, func(p *pngParts) { p.before = chunk("eXIf", tiff) })
	}
	vp8l, prefixed := webpData(webp.data), webp
	webp.data = riff("VP8X", vp8x(webpEXIF, w, h), "VP8L", vp8l, "EXIF", tiff)
	prefixed.data = riff("VP8X", vp8x(webpEXIF, w, h), "VP8L", vp8l, "EXIF", append([]byte(exifPrefix), tiff...))
	out := []sample{jpeg, png, interlaced, webp, prefixed}
	for i := range out {
		out[i].orientation = uint8(orientation)
	}
	return out
}

// TestForeignEXIF: files that Pillow gave an orientation look as Pillow shows them.
func TestForeignEXIF(t *testing.T) {
	references, err := readReferences()
	if err != nil {
		t.Fatal(err)
	}
	for orientation := 1; orientation <= 8; orientation++ {
		for _, ext := range []string{"jpg", "png", "webp"} {
			name := fmt.Sprintf("oriented/oriented-%d.%s", orientation, ext)
			data := testFile(t, name)
			h, err := ReadHeader(data, true)
			if err != nil || h.Orientation != uint8(orientation) {
				t.Errorf("%s: %+v, %v", name, h, err)
				continue
			}
			_, _, want := pixmap(references[name+".ppm"], 3)
			worst, mean := 0, 0.0
			if ext == "jpg" {
				worst, mean = jpegWorst, jpegMean
			}
			for _, set := range codecSets() {
				if set.has(h.Format) {
					got, err := decodeTo(t, set.decoder(t, Options{}), name, data, h)
					if err != nil {
						t.Errorf("%s: %s: %v", set.name, name, err)
					}
					compare(t, set.name+": "+name, got, want, worst, mean)
				}
			}
		}
	}
}

func TestOrientation(t *testing.T) {
	for _, set := range codecSets() {
		for orientation := 1; orientation <= 8; orientation++ {
			for _, size := range [][2]int{{1, 1}, {37, 21}, {16, 35}} {
				for _, s := range rotatable(size[0], size[1], orientation, orientation%2 == 0) {
					if set.has(s.format) {
						testOriented(t, set, &s)
					}
				}
			}
		}
	}
}

func testOriented(t *testing.T, set codecSet, s *sample) {
	h, err := ReadHeader(s.data, true)
	if err != nil || h.Orientation != s.orientation || h.Width != s.w || h.Height != s.h {
		t.Fatalf("%s: header %+v, %v, want orientation %d", s.name, h, err, s.orientation)
	}
	for _, o := range []Options{{}, {Color: Gray}, {IgnoreOrientation: true}, {IgnoreOrientation: true, Color: Gray}} {
		name := fmt.Sprintf("%s %s %dx%d turned by %d, %+v", set.name, s.name, s.w, s.h, s.orientation, o)
		apply := s.orientation
		if o.IgnoreOrientation {
			apply = 1
		}
		want, w, hh := s.want(o.Color, apply)
		if height, width := h.Size(o.IgnoreOrientation); height != hh || width != w {
			t.Errorf("%s: size %dx%d, want %dx%d", name, width, height, w, hh)
		}
		got, err := decodeTo(t, set.decoder(t, o), name, s.data, h)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		compare(t, name, got, want, s.worst, s.mean)
	}
}

// TestNativeAgainstGo compares the two decoders of each format, which is stricter than comparing
// either with an oracle: both interpolate chroma by the same rule, so JPEG differs only by
// rounding in the inverse transforms (a level in luma and each chroma, with chroma weighing up
// to 1.8), and all other formats not at all. Only subsampled RGB and CMYK are upsampled by other
// rules.
func TestNativeAgainstGo(t *testing.T) {
	sets := codecSets()
	if len(sets) < 2 {
		t.Skip("this build has only Go's decoders")
	}
	ours, theirs := sets[0], sets[len(sets)-1]
	all := samples(t)
	for i := range all {
		s := &all[i]
		if s.goRefuses {
			continue
		}
		h, _ := ReadHeader(s.data, true)
		for _, c := range []Color{RGB, Gray} {
			native, err1 := decodeTo(t, ours.decoder(t, Options{Color: c}), s.name, s.data, h)
			pure, err2 := decodeTo(t, theirs.decoder(t, Options{Color: c}), s.name, s.data, h)
			if err1 != nil || err2 != nil {
				t.Errorf("%s: %v, %v", s.name, err1, err2)
				continue
			}
			worst, mean := 0, 0.0
			if s.format == JPEG || hasCoefficients(s.data) {
				worst, mean = s.worst, s.mean
			}
			compare(t, s.name, native, pure, worst, mean)
		}
	}
}
