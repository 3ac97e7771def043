package decode

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"image"
	"image/color"
	_ "image/jpeg"
	_ "image/png"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	_ "golang.org/x/image/bmp"
	_ "golang.org/x/image/webp"
)

// sample is an image file and the pixels that it must decode to.
type sample struct {
	name        string
	data        []byte
	format      Format
	orientation uint8
	w, h        int
	rgb         []uint8 // as stored, w*h*3
	gray        []uint8 // nil: BT.601 of rgb
	// The allowed error of any channel, and the mean over all of them. Both 0: exact. See the
	// tolerances below.
	worst int
	mean  float64
	// loose: how many bytes may be missing from the end without being detectable.
	loose int
	// goRefuses: Go's decoder does not support the kind.
	goRefuses bool
}

// Tolerances. JPEG readers may each round a sample's inverse transform by half a level, and colour
// conversion multiplies an error in chroma by up to 1.8: no channel is off by more than 6 levels.
// Decoders interpolate subsampled chroma differently, and single pixels at edges may be far off;
// the mean is not.
const (
	jpegWorst  = 6
	jpegMean   = 0.6
	subsampled = 255
	chromaMean = 5.0
)

func paint(w, h int, at func(x, y int) [3]uint8) []uint8 {
	out := make([]uint8, 0, w*h*3)
	for y := range h {
		for x := range w {
			p := at(x, y)
			out = append(out, p[:]...)
		}
	}
	return out
}

func grayOfRGB(rgb []uint8) []uint8 {
	out := make([]uint8, len(rgb)/3)
	for i := range out {
		out[i] = uint8((19595*int(rgb[3*i]) + 38470*int(rgb[3*i+1]) + 7471*int(rgb[3*i+2]) + 32768) >> 16)
	}
	return out
}

// allSamples are the files in testdata/samples, which foreign encoders wrote, with the pixels that
// foreign decoders read from them (testdata/make.py), and edited copies of some.
var allSamples = sync.OnceValue(func() []sample {
	references, err := readReferences()
	if err != nil {
		panic(err)
	}
	files, err := os.ReadDir("testdata/samples")
	if err != nil {
		panic(err)
	}
	var all []sample
	for _, f := range files {
		data, err := os.ReadFile(filepath.Join("testdata/samples", f.Name()))
		if err != nil {
			panic(err)
		}
		s := sample{name: f.Name(), data: data, format: Sniff(data), orientation: 1}
		if s.format == Unknown {
			panic(f.Name() + " is no image")
		}
		s.w, s.h, s.rgb = pixmap(references[s.name+".ppm"], 3)
		if gray := references[s.name+".pgm"]; gray != nil {
			_, _, s.gray = pixmap(gray, 1)
		}
		s.rateFile()
		all = append(all, s)
	}
	all = append(all, editedSamples(all)...)
	return append(all, packedSamples(all)...)
})

// corpus returns one of testdata/samples.
func corpus(name string) sample {
	for _, s := range allSamples() {
		if s.name == name {
			return s
		}
	}
	panic("no sample " + name)
}

func readReferences() (map[string][]byte, error) {
	f, err := os.Open("testdata/reference.tar.gz")
	if err != nil {
		return nil, err
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		return nil, err
	}
	references, t := map[string][]byte{}, tar.NewReader(z)
	for {
		h, err := t.Next()
		if err == io.EOF {
			return references, nil
		}
		if err == nil {
			references[h.Name], err = io.ReadAll(t)
		}
		if err != nil {
			return nil, err
		}
	}
}

// pixmap reads a PPM or PGM of 8 bits, as other programs write it.
func pixmap(data []byte, channels int) (w, h int, pix []byte) {
	var kind, maximum int
	fmt.Fscanf(bytes.NewReader(data), "P%d\n%d %d\n%d\n", &kind, &w, &h, &maximum)
	if n := channels * w * h; maximum == 255 && n > 0 && n < len(data) {
		return w, h, data[len(data)-n:]
	}
	panic(fmt.Sprintf("no reference of %d channels: %.20q", channels, data))
}

// rateFile sets the tolerance for the reference's pixels, and what is special about a file.
func (s *sample) rateFile() {
	switch s.format {
	case JPEG:
		s.worst, s.mean = jpegWorst, jpegMean
		if s.gray == nil && subsamples(s.data) {
			s.worst, s.mean = subsampled, chromaMean
		}
	case PNM:
		if s.data[1] < '5' {
			// The white space at the end, and all digits of the last number except the first.
			s.loose = len(s.data) - bytes.LastIndexAny(bytes.TrimRight(s.data, " \n"), " \n") - 2
		}
	case BMP:
		if l, err := readBMPLayout(s.data, true); err == nil && !l.compressed() {
			s.loose = len(s.data) - int(l.raw().end()) // after the pixels
		}
	}
	s.goRefuses = slices.Contains([]string{"ycc-3x1.jpg", "ycc-1x4.jpg", "ycc-2x4.jpg", "stray-fill-bytes.jpg"}, s.name)
}

// samples returns allSamples and those that come with Go and its image module, and logs which of
// the latter are missing.
func samples(t testing.TB) []sample {
	t.Helper()
	out := slices.Clone(allSamples())
	for _, files := range foreign() {
		found := foreignSamples(t, files.pattern)
		if len(found) == 0 {
			t.Logf("NOT TESTED: there is nothing in %s (%s)", files.pattern, files.what)
		}
		out = append(out, found...)
	}
	return out
}

type foreignFiles struct{ pattern, what string }

var foreign = sync.OnceValue(func() []foreignFiles {
	root := "GOROOT"
	if out, err := exec.Command("go", "env", "GOROOT").Output(); err == nil {
		root = strings.TrimSpace(string(out))
	}
	module := "golang.org/x/image"
	if out, err := exec.Command("go", "list", "-f", "{{.Dir}}", module+"/webp").Output(); err == nil {
		module = filepath.Dir(strings.TrimSpace(string(out)))
	}
	return []foreignFiles{
		{filepath.Join(root, "src/image/testdata/*"), "Go's source tree"},
		{filepath.Join(root, "src/image/png/testdata/pngsuite/*"), "Go's source tree"},
		{filepath.Join(module, "testdata/*.webp"), "the module golang.org/x/image"},
		{filepath.Join(module, "testdata/*.bmp"), "the module golang.org/x/image"},
	}
})

var foreignCache sync.Map

// foreignSamples reads images of up to 64 KiB with the oracle: Go's decoders and image/color's
// conversion of their pixels.
func foreignSamples(t testing.TB, pattern string) []sample {
	if s, ok := foreignCache.Load(pattern); ok {
		return s.([]sample)
	}
	files, _ := filepath.Glob(pattern)
	var out []sample
	for _, f := range files {
		data, err := os.ReadFile(f)
		format := Sniff(data)
		if err != nil || format == Unknown || len(data) > 64<<10 {
			continue
		}
		m, _, err := image.Decode(bytes.NewReader(data))
		if err != nil {
			t.Logf("the oracle refuses %s: %v", filepath.Base(f), err)
			continue
		}
		s := fromOracle(m)
		s.name, s.data, s.format, s.orientation = filepath.Base(f), data, format, 1
		s.rate(m)
		if l, err := readBMPLayout(data, true); format == BMP && err == nil {
			s.loose = len(data) - int(l.raw().end()) // after the pixels
		}
		out = append(out, s)
	}
	foreignCache.Store(pattern, out)
	return out
}

// rate sets the tolerance for the oracle's pixels.
func (s *sample) rate(m image.Image) {
	y, planes := m.(*image.YCbCr)
	if a, ok := m.(*image.NYCbCrA); ok {
		y, planes = &a.YCbCr, true
	}
	switch {
	case s.format == WebP && planes:
		s.worst, s.mean = subsampled, chromaMean
		s.rgb, s.gray = videoPixels(y, s.w, s.h), nil
	case s.format != JPEG:
	case planes && y.SubsampleRatio != image.YCbCrSubsampleRatio444, !planes && subsamples(s.data):
		s.worst, s.mean = subsampled, chromaMean
	default:
		s.worst, s.mean = jpegWorst, jpegMean
	}
}

// subsamples reports whether a JPEG stores some component with fewer samples.
func subsamples(data []byte) bool {
	f, _ := readJPEGFrame(data, true)
	h, v := f.maxSampling()
	for i := range f.components {
		if f.h[i] != h || f.v[i] != v {
			return true
		}
	}
	return false
}

// fromOracle extracts an image's pixels, without applying alpha.
func fromOracle(m image.Image) (s sample) {
	b := m.Bounds()
	s.w, s.h = b.Dx(), b.Dy()
	s.rgb = paint(s.w, s.h, func(x, y int) [3]uint8 { return plainRGB(m.At(b.Min.X+x, b.Min.Y+y)) })
	if y, ok := m.(*image.YCbCr); ok {
		for r := range s.h {
			s.gray = append(s.gray, y.Y[r*y.YStride:][:s.w]...)
		}
	}
	return s
}

// videoPixels converts a lossy WebP's planes by the textbook: they are video-range, which
// image/color does not support.
func videoPixels(m *image.YCbCr, w, h int) []uint8 {
	return paint(w, h, func(x, y int) [3]uint8 {
		l := 255.0 / 219 * (float64(m.Y[m.YOffset(x, y)]) - 16)
		cb, cr := float64(m.Cb[m.COffset(x, y)])-128, float64(m.Cr[m.COffset(x, y)])-128
		level := func(v float64) uint8 { return uint8(max(0, min(255, v+.5))) }
		return [3]uint8{level(l + 1.596*cr), level(l - 0.392*cb - 0.813*cr), level(l + 2.017*cb)}
	})
}

func plainRGB(c color.Color) [3]uint8 {
	narrow := func(v uint16) uint8 { return uint8((uint32(v) + 128) / 257) }
	switch c := c.(type) {
	case color.NRGBA:
		return [3]uint8{c.R, c.G, c.B}
	case color.NRGBA64:
		return [3]uint8{narrow(c.R), narrow(c.G), narrow(c.B)}
	case color.NYCbCrA:
		r, g, b := color.YCbCrToRGB(c.Y, c.Cb, c.Cr)
		return [3]uint8{r, g, b}
	case color.CMYK:
		ink := func(v uint8) uint8 { return uint8((int(255-v)*int(255-c.K)*2 + 255) / 510) }
		return [3]uint8{ink(c.C), ink(c.M), ink(c.Y)}
	}
	r, g, b, _ := c.RGBA()
	return [3]uint8{narrow(uint16(r)), narrow(uint16(g)), narrow(uint16(b))}
}

// want returns the sample's upright pixels in a colour.
func (s *sample) want(c Color, orientation uint8) (pix []uint8, w, h int) {
	pix = s.rgb
	if c == Gray {
		if pix = s.gray; pix == nil {
			pix = grayOfRGB(s.rgb)
		}
	}
	return turned(pix, s.w, s.h, c.Channels(), orientation)
}

// turned applies an orientation the slow way, by finding the source of each pixel of the result.
func turned(pix []uint8, w, h, c int, orientation uint8) (out []uint8, ow, oh int) {
	ow, oh = w, h
	if orientation >= 5 {
		ow, oh = h, w
	}
	for y := range oh {
		for x := range ow {
			var sx, sy int
			switch orientation {
			case 1:
				sx, sy = x, y
			case 2:
				sx, sy = w-1-x, y
			case 3:
				sx, sy = w-1-x, h-1-y
			case 4:
				sx, sy = x, h-1-y
			case 5:
				sx, sy = y, x
			case 6: // its left edge is shown at the top
				sx, sy = y, h-1-x
			case 7:
				sx, sy = w-1-y, h-1-x
			case 8: // its right edge is shown at the top
				sx, sy = w-1-y, x
			}
			out = append(out, pix[(sy*w+sx)*c:][:c]...)
		}
	}
	return out, ow, oh
}

// TestCorpus: the corpus holds what it is meant to hold.
func TestCorpus(t *testing.T) {
	count := map[Format]int{}
	for _, s := range allSamples() {
		count[s.format]++
	}
	for format, least := range map[Format]int{JPEG: 70, PNG: 115, BMP: 170, PNM: 168, WebP: 18} {
		if count[format] < least {
			t.Errorf("%d samples of %s, of at least %d", count[format], format, least)
		}
	}
	for _, factors := range []string{"1x1", "2x1", "1x2", "2x2", "4x1", "4x2", "1x4", "2x4", "3x1"} {
		for _, kind := range []string{"", "-progressive", "-restarts"} {
			f, err := readJPEGFrame(testFile(t, "regions/"+factors+kind+".jpg"), true)
			if got := fmt.Sprintf("%dx%d", f.h[0], f.v[0]); err != nil || got != factors || f.progressive != (kind == "-progressive") {
				t.Errorf("%s%s: sampled %s, progressive %v, %v", factors, kind, got, f.progressive, err)
			}
		}
	}
}

// TestRefusedJPEGs: what other encoders write and no decoder here reads.
func TestRefusedJPEGs(t *testing.T) {
	for name, words := range map[string]string{"12-bits.jpg": "12 bits", "lossless.jpg": "lossless"} {
		if _, err := ReadHeader(testFile(t, "refused/"+name), true); !errors.Is(err, ErrFormat) || !strings.Contains(err.Error(), words) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
