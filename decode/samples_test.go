package decode

import (
	"bytes"
	"fmt"
	"image"
	"image/color"
	_ "image/jpeg"
	_ "image/png"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"

	_ "golang.org/x/image/bmp"
	_ "golang.org/x/image/webp"
)

// sample is an image file and what it must decode to.
type sample struct {
	name        string
	data        []byte
	format      Format
	orientation uint8
	w, h        int
	rgb         []uint8 // as stored, w*h*3
	gray        []uint8 // nil: BT.601 of rgb
	// How far any channel may be off, and all of them in the mean. Both 0:
	// exact. See the tolerances below.
	worst int
	mean  float64
	// loose: how many bytes may be missing from the end without anyone being
	// able to tell.
	loose int
	// goRefuses: Go's decoder does not know the kind.
	goRefuses bool
}

// Tolerances. JPEG writers and readers may each round a sample's inverse transform by
// half a level, and colour conversion multiplies an error in chroma by up to
// 1.8: 6 levels is what no channel exceeds where chroma is not subsampled.
// Where it is, oracle and library interpolate differently, and on edges any
// single pixel may be far off; the mean is not.
const (
	jpegWorst  = 6
	jpegMean   = 0.6
	subsampled = 255
	chromaMean = 5.0
)

// scene is the picture that generated samples show: smooth, with all channels different.
func scene(x, y int) [4]uint8 {
	return [4]uint8{uint8(30 + 5*x%200), uint8(220 - 3*y - x), uint8(60 + 2*x + 2*y), uint8(255 - 3*x)}
}

// sceneRGB as a row-major array.
func sceneRGB(w, h int) []uint8 {
	return paint(w, h, func(x, y int) [3]uint8 { p := scene(x, y); return [3]uint8(p[:3]) })
}

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

var allSamples = sync.OnceValue(func() (s []sample) {
	s = append(s, jpegSamples()...)
	s = append(s, pngSamples()...)
	s = append(s, bmpSamples()...)
	s = append(s, pnmSamples()...)
	s = append(s, webpSamples()...)
	return s
})

// samples returns the generated samples and those that come with Go and its
// image module, and says which of those are not there.
func samples(t testing.TB) []sample {
	t.Helper()
	out := append([]sample(nil), allSamples()...)
	for _, dir := range foreignDirs() {
		found := foreignSamples(t, dir.path)
		if len(found) == 0 {
			t.Logf("NOT TESTED: no images in %s (%s)", dir.path, dir.what)
		}
		out = append(out, found...)
	}
	return out
}

type foreignDir struct{ path, what string }

var foreignDirs = sync.OnceValue(func() []foreignDir {
	root := runtime.GOROOT()
	if out, err := exec.Command("go", "env", "GOROOT").Output(); err == nil {
		root = strings.TrimSpace(string(out))
	}
	module := "golang.org/x/image"
	if out, err := exec.Command("go", "list", "-f", "{{.Dir}}", module+"/webp").Output(); err == nil {
		module = filepath.Dir(strings.TrimSpace(string(out)))
	}
	return []foreignDir{
		{filepath.Join(root, "src/image/testdata"), "Go's source tree"},
		{filepath.Join(root, "src/image/png/testdata/pngsuite"), "Go's source tree"},
		{filepath.Join(module, "testdata"), "the module golang.org/x/image"},
	}
})

var foreignCache sync.Map

// foreignSamples reads a directory's images of up to 64 KiB with the oracle: Go's
// decoders, and what image/color makes of their pixels.
func foreignSamples(t testing.TB, dir string) []sample {
	if s, ok := foreignCache.Load(dir); ok {
		return s.([]sample)
	}
	files, _ := filepath.Glob(filepath.Join(dir, "*"))
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
			s.loose = len(data) - int(l.pixels+l.pixelBytes()) // behind the pixels
		}
		out = append(out, s)
	}
	foreignCache.Store(dir, out)
	return out
}

// rate sets the tolerance that the oracle deserves.
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

// fromOracle takes an image's pixels apart, without applying alpha.
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

// videoPixels converts a lossy WebP's planes by the textbook: they are video-range,
// which image/color does not know.
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

// want returns the sample's pixels upright, in a colour.
func (s *sample) want(c Color, orientation uint8) (pix []uint8, w, h int) {
	pix = s.rgb
	if c == Gray {
		if pix = s.gray; pix == nil {
			pix = grayOfRGB(s.rgb)
		}
	}
	return turned(pix, s.w, s.h, c.Channels(), orientation)
}

// turned applies an orientation the slow way, by asking for each pixel of the
// result where it comes from.
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

// jpegScene gives the scene's channels, and their YCbCr, as planes.
func jpegScene(channel int) func(x, y int) float64 {
	return func(x, y int) float64 { return float64(scene(x, y)[channel]) }
}

func jpegYCC(rgb func(x, y int) [3]float64, channel int) func(x, y int) float64 {
	return func(x, y int) float64 {
		p := rgb(x, y)
		switch channel {
		case 0:
			return 0.299*p[0] + 0.587*p[1] + 0.114*p[2]
		case 1:
			return 128 - 0.168736*p[0] - 0.331264*p[1] + 0.5*p[2]
		}
		return 128 + 0.5*p[0] - 0.418688*p[1] - 0.081312*p[2]
	}
}

// soft is a scene without the wrap-around of scene's red, so that subsampled
// chroma loses little.
func soft(x, y int) [3]float64 {
	return [3]float64{60 + 2*float64(x), 200 - 2*float64(y) - float64(x), 50 + float64(x) + float64(y)}
}

func softRGB(w, h int) []uint8 {
	return paint(w, h, func(x, y int) [3]uint8 {
		p := soft(x, y)
		return [3]uint8{uint8(p[0] + .5), uint8(p[1] + .5), uint8(p[2] + .5)}
	})
}

// ycc returns the components of a YCbCr JPEG of soft, with luma's factors.
func ycc(h, v byte) []jpegPlane {
	return []jpegPlane{{1, h, v, jpegYCC(soft, 0)}, {2, 1, 1, jpegYCC(soft, 1)}, {3, 1, 1, jpegYCC(soft, 2)}}
}

func softLuma(w, h int) []uint8 {
	luma := jpegYCC(soft, 0)
	out := make([]uint8, 0, w*h)
	for y := range h {
		for x := range w {
			out = append(out, uint8(luma(x, y)+.5))
		}
	}
	return out
}

func jpegSamples() (out []sample) {
	add := func(name string, s jpegSpec, rgb, gray []uint8) *sample {
		out = append(out, sample{name: name + ".jpg", data: writeJPEG(s), format: JPEG, orientation: 1,
			w: s.w, h: s.h, rgb: rgb, gray: gray, worst: jpegWorst, mean: 1})
		return &out[len(out)-1]
	}
	for _, size := range [][2]int{{1, 1}, {2, 3}, {7, 9}, {8, 8}, {16, 16}, {17, 33}, {50, 39}} {
		for _, f := range [][2]byte{{1, 1}, {2, 1}, {1, 2}, {2, 2}, {4, 1}, {4, 2}} {
			w, h := size[0], size[1]
			name := fmt.Sprintf("ycc-%dx%d-%dx%d", f[0], f[1], w, h)
			s := add(name, jpegSpec{w: w, h: h, comps: ycc(f[0], f[1]), jfif: true, adobe: -1}, softRGB(w, h), softLuma(w, h))
			if f[0]*f[1] > 1 {
				s.worst, s.mean = 10, 2 // what subsampling loses of soft
			}
		}
	}
	w, h := 37, 29
	rgb, luma := softRGB(w, h), softLuma(w, h)
	spec := jpegSpec{w: w, h: h, comps: ycc(2, 2), jfif: true, adobe: -1}
	s := spec
	s.progressive = true
	add("progressive", s, rgb, luma).worst = 10
	s = spec
	s.separate = true
	add("separate-scans", s, rgb, luma).worst = 10
	s = spec
	s.restart = 2
	add("restarts", s, rgb, luma).worst = 10
	s = spec
	s.stray = []byte{0, 1, 2, 0xff, 0, 3, 0xff, 0xff}
	add("stray-bytes", s, rgb, luma).worst = 10
	s.stray = []byte{0xff, 0xff, 0, 3}
	z := add("stray-fill-bytes", s, rgb, luma)
	z.worst, z.goRefuses = 10, true
	s = spec
	s.comps = ycc(3, 1)
	z = add("three-to-one", s, rgb, luma)
	z.worst, z.goRefuses = 10, true
	s = spec
	s.comps = []jpegPlane{{1, 1, 1, jpegYCC(soft, 0)}}
	grayRGB := paint(w, h, func(x, y int) [3]uint8 { g := luma[y*w+x]; return [3]uint8{g, g, g} })
	add("gray", s, grayRGB, luma)
	s.comps[0].h, s.comps[0].v = 2, 2 // which mean nothing where there is one component
	add("gray-2x2", s, grayRGB, luma)

	exact := sceneRGB(w, h)
	rgbPlanes := func(a, b, c byte) []jpegPlane {
		return []jpegPlane{{a, 1, 1, jpegScene(0)}, {b, 1, 1, jpegScene(1)}, {c, 1, 1, jpegScene(2)}}
	}
	add("rgb-by-adobe", jpegSpec{w: w, h: h, comps: rgbPlanes(1, 2, 3), adobe: 0}, exact, nil)
	add("rgb-by-names", jpegSpec{w: w, h: h, comps: rgbPlanes('R', 'G', 'B'), adobe: -1}, exact, nil)
	return append(out, inkSamples(w, h)...)
}

// inkSamples are of CMYK: stored as it is, as Adobe stores it, and as YCCK.
func inkSamples(w, h int) (out []sample) {
	key := func(x, y int) uint8 { return uint8(255 - 2*x - y) } // what the black ink leaves
	rgb := paint(w, h, func(x, y int) [3]uint8 {
		p, k := scene(x, y), int(key(x, y))
		for i := range 3 {
			p[i] = uint8((int(p[i])*k*2 + 255) / 510)
		}
		return [3]uint8(p[:3])
	})
	left := func(i int) func(x, y int) float64 { // what ink i leaves
		if i == 3 {
			return func(x, y int) float64 { return float64(key(x, y)) }
		}
		return jpegScene(i)
	}
	var plain, adobe, ycck []jpegPlane
	for i := range 4 {
		light := left(i)
		plain = append(plain, jpegPlane{byte(i + 1), 1, 1, func(x, y int) float64 { return 255 - light(x, y) }})
		adobe = append(adobe, jpegPlane{byte(i + 1), 1, 1, light})
		ycck = append(ycck, adobe[i])
		if i < 3 {
			ycck[i].at = jpegYCC(func(x, y int) [3]float64 {
				return [3]float64{255 - left(0)(x, y), 255 - left(1)(x, y), 255 - left(2)(x, y)}
			}, i)
		}
	}
	for _, c := range []struct {
		name  string
		adobe int
		comps []jpegPlane
	}{{"cmyk", -1, plain}, {"cmyk-adobe", 0, adobe}, {"ycck", 2, ycck}} {
		out = append(out, sample{name: c.name + ".jpg", format: JPEG, orientation: 1, w: w, h: h, rgb: rgb,
			data: writeJPEG(jpegSpec{w: w, h: h, comps: c.comps, adobe: c.adobe}), worst: jpegWorst, mean: 1})
	}
	return out
}

func pngSamples() (out []sample) {
	palette := make([]byte, 0, 256*3)
	for i := range 256 {
		palette = append(palette, byte(i*7), byte(255-i), byte(i*3))
	}
	for kind, depths := range map[int][]int{0: {1, 2, 4, 8, 16}, 2: {8, 16}, 3: {1, 2, 4, 8}, 4: {8, 16}, 6: {8, 16}} {
		for _, depth := range depths {
			for _, size := range [][2]int{{1, 1}, {5, 3}, {33, 19}} {
				for _, interlaced := range []bool{false, true} {
					out = append(out, pngSample(kind, depth, size[0], size[1], interlaced, palette))
				}
			}
		}
	}
	// A palette that ends before the indices do: what is beyond is black.
	short := pngSample(3, 8, 33, 19, false, palette)
	const entries = 40
	short.name = "short-palette.png"
	short.data = writePNG(pngSpec{w: 33, h: 19, kind: 3, depth: 8, palette: palette[:3*entries], sample: pngScene(8)})
	short.rgb = paint(33, 19, func(x, y int) (p [3]uint8) {
		if i := int(pngScene(8)(x, y, 0)); i < entries {
			copy(p[:], palette[3*i:])
		}
		return p
	})
	return append(out, short)
}

// pngScene gives samples of some depth that differ in every channel.
func pngScene(depth int) func(x, y, c int) uint16 {
	return func(x, y, c int) uint16 {
		v := uint32(x*2531 + y*4127 + c*19001 + x*y*97)
		return uint16(v & 0xffff >> (16 - depth))
	}
}

func pngSample(kind, depth, w, h int, interlaced bool, palette []byte) sample {
	at := pngScene(depth)
	full := uint32(1)<<depth - 1
	spec := pngSpec{w: w, h: h, kind: kind, depth: depth, interlaced: interlaced, sample: at}
	if kind == 3 {
		spec.palette = palette[:3*(full+1)]
		spec.before = chunk("tRNS", []byte{0, 128})
	}
	rgb := paint(w, h, func(x, y int) (p [3]uint8) {
		for c := range p {
			switch kind {
			case 3:
				p[c] = palette[3*int(at(x, y, 0))+c]
			case 0, 4:
				p[c] = uint8((uint32(at(x, y, 0))*510 + full) / (2 * full))
			default:
				p[c] = uint8((uint32(at(x, y, c))*510 + full) / (2 * full))
			}
		}
		return p
	})
	return sample{name: fmt.Sprintf("kind%d-%d-%dx%d-%t.png", kind, depth, w, h, interlaced), format: PNG, orientation: 1,
		w: w, h: h, data: writePNG(spec), rgb: rgb}
}

func bmpSamples() (out []sample) {
	add := func(name string, s bmpSpec, at func(x, y int) [3]uint8) {
		out = append(out, sample{name: name + ".bmp", data: writeBMP(s), format: BMP, orientation: 1, w: s.w, h: s.h, rgb: paint(s.w, s.h, at)})
	}
	color := func(x, y int) [3]uint8 { p := scene(x, y); return [3]uint8(p[:3]) }
	packed := func(x, y int) uint32 {
		p := scene(x, y)
		return uint32(p[0])<<16 | uint32(p[1])<<8 | uint32(p[2]) | uint32(p[3])<<24
	}
	var palette [][3]uint8
	for i := range 256 {
		palette = append(palette, [3]uint8{byte(i * 7), byte(255 - i), byte(i * 3)})
	}
	for _, size := range [][2]int{{1, 1}, {3, 2}, {31, 17}, {32, 5}} {
		w, h := size[0], size[1]
		name := fmt.Sprintf("-%dx%d", w, h)
		for _, topDown := range []bool{false, true} {
			add(fmt.Sprintf("24%s-%t", name, topDown), bmpSpec{w: w, h: h, bits: 24, topDown: topDown, pixel: packed}, color)
			add(fmt.Sprintf("32%s-%t", name, topDown), bmpSpec{w: w, h: h, bits: 32, topDown: topDown, pixel: packed, gap: 6}, color)
		}
		add("24-core"+name, bmpSpec{w: w, h: h, bits: 24, info: bmpCore, pixel: packed}, color)
		add("24-v5"+name, bmpSpec{w: w, h: h, bits: 24, info: 124, pixel: packed}, color)
		for _, bits := range []int{1, 2, 4, 8} {
			index := func(x, y int) uint32 { return uint32(x*5+y*3+x*y) & (1<<bits - 1) }
			at := func(x, y int) [3]uint8 { return palette[index(x, y)] }
			add(fmt.Sprintf("%d%s", bits, name), bmpSpec{w: w, h: h, bits: bits, palette: palette[:1<<bits], pixel: index}, at)
			add(fmt.Sprintf("%d-core%s", bits, name), bmpSpec{w: w, h: h, bits: bits, info: bmpCore, palette: palette[:1<<bits], pixel: index}, at)
		}
		bmpFieldSamples(w, h, name, add)
		bmpRLESamples(w, h, name, palette, add)
	}
	add("short-palette", bmpSpec{w: 9, h: 9, bits: 8, palette: palette[:10], colors: 10, pixel: func(x, y int) uint32 { return uint32(x + y) }},
		func(x, y int) [3]uint8 {
			if x+y < 10 {
				return palette[x+y]
			}
			return [3]uint8{}
		})
	return out
}

func bmpFieldSamples(w, h int, name string, add func(string, bmpSpec, func(x, y int) [3]uint8)) {
	pixel := func(x, y int) uint32 { return uint32(x*40503+y*30011+x*y) * 2654435761 }
	for _, c := range []struct {
		name  string
		bits  int
		info  int
		masks []uint32
		kind  uint32
	}{
		{"555", 16, 40, nil, bmpRGB},
		{"565", 16, 40, []uint32{0xf800, 0x07e0, 0x001f}, bmpBitfields},
		{"444-alpha", 16, 40, []uint32{0x0f00, 0x00f0, 0x000f, 0xf000}, bmpAlphaBitfields},
		{"rgbx", 32, 108, []uint32{0xff, 0xff00, 0xff0000, 0xff000000}, bmpBitfields},
		{"10-bits", 32, 40, []uint32{0x3ff00000, 0x000ffc00, 0x000003ff}, bmpBitfields},
		{"one-bit", 32, 52, []uint32{1, 2, 0xfffffffc}, bmpBitfields},
	} {
		masks := c.masks
		if masks == nil {
			masks = []uint32{0x7c00, 0x03e0, 0x001f}
		}
		add(c.name+name, bmpSpec{w: w, h: h, bits: c.bits, info: c.info, masks: c.masks, compression: c.kind, pixel: pixel},
			func(x, y int) (p [3]uint8) {
				for i, m := range masks[:3] {
					low := uint64(m & -m)
					most := uint64(m) / low
					v := uint64(pixel(x, y)&m) / low
					p[i] = uint8((v*510 + most) / (2 * most))
				}
				return p
			})
	}
}

// bmpRLESamples encode each row as a run and literals, leave the middle row out,
// and move past the end of every third.
func bmpRLESamples(w, h int, name string, palette [][3]uint8, add func(string, bmpSpec, func(x, y int) [3]uint8)) {
	for _, bits := range []int{4, 8} {
		index := func(x, y int) uint8 {
			switch {
			case y == h/2 && h > 2:
				return 0
			case x < 2:
				return uint8(y) & 15
			}
			return uint8(x+y) & 15
		}
		var data []byte
		for y := h - 1; y >= 0; y-- {
			if y == h/2 && h > 2 {
				data = append(data, 0, 2, 0, 1) // down one row
				continue
			}
			run := min(2, w)
			b := index(0, y)
			if bits == 4 {
				b |= b << 4
			}
			data = append(data, byte(run), b)
			for x := run; x < w; {
				n := min(w-x, 200)
				if n < 3 {
					data = append(data, 1, index(x, y)<<(8-bits)|index(x, y)&15)
					x++
					continue
				}
				data = append(data, 0, byte(n))
				var literal []byte
				for i := range n {
					if bits == 8 {
						literal = append(literal, index(x+i, y))
					} else if i%2 == 0 {
						literal = append(literal, index(x+i, y)<<4)
					} else {
						literal[i/2] |= index(x+i, y)
					}
				}
				if len(literal)%2 == 1 {
					literal = append(literal, 0)
				}
				data = append(data, literal...)
				x += n
			}
			data = append(data, 0, 0)
		}
		data = append(data, 0, 1)
		kind := map[int]uint32{4: bmpRLE4, 8: bmpRLE8}[bits]
		add(fmt.Sprintf("rle%d%s", bits, name), bmpSpec{w: w, h: h, bits: bits, palette: palette[:1<<bits], compression: kind, data: data},
			func(x, y int) [3]uint8 { return palette[index(x, y)] })
	}
}

func pnmSamples() (out []sample) {
	for _, kind := range []byte{'2', '3', '5', '6'} {
		for _, maxval := range []int{1, 7, 100, 255, 256, 1000, 65535} {
			for _, size := range [][2]int{{1, 1}, {7, 5}, {20, 3}} {
				w, h := size[0], size[1]
				at := func(x, y, c int) int { return (x*977 + y*331 + c*12347 + x*y*53) % (maxval + 1) }
				s := sample{name: fmt.Sprintf("p%c-%d-%dx%d.pnm", kind, maxval, w, h), format: PNM, orientation: 1, w: w, h: h,
					data: writePNM(kind, w, h, maxval, at)}
				s.rgb = paint(w, h, func(x, y int) (p [3]uint8) {
					for c := range p {
						if kind == '2' || kind == '5' {
							c = 0
						}
						p[c] = uint8((at(x, y, c)*510 + maxval) / (2 * maxval))
					}
					if kind == '2' || kind == '5' {
						p[1], p[2] = p[0], p[0]
					}
					return p
				})
				if kind < '5' {
					// The white space at the end, and all digits but the last number's first.
					trimmed := bytes.TrimRight(s.data, " \n")
					s.loose = len(s.data) - bytes.LastIndexAny(trimmed, " \n") - 2
				}
				out = append(out, s)
			}
		}
	}
	return out
}

func webpSamples() (out []sample) {
	add := func(name string, w, h int, data []byte) *sample {
		out = append(out, sample{name: name + ".webp", data: data, format: WebP, orientation: 1, w: w, h: h, rgb: sceneRGB(w, h)})
		return &out[len(out)-1]
	}
	for _, size := range [][2]int{{1, 1}, {2, 5}, {33, 20}} {
		w, h := size[0], size[1]
		add(fmt.Sprintf("lossless-%dx%d", w, h), w, h, riff("VP8L", writeVP8L(w, h, scene)))
		add(fmt.Sprintf("lossless-extended-%dx%d", w, h), w, h,
			riff("VP8X", vp8x(webpAlpha, w, h), "ICCP", []byte("profile"), "VP8L", writeVP8L(w, h, scene)))
	}
	files, _ := filepath.Glob("testdata/*.webp")
	for _, f := range files {
		data, err := os.ReadFile(f)
		if err != nil {
			continue
		}
		if m, _, err := image.Decode(bytes.NewReader(data)); err == nil {
			s := fromOracle(m)
			s.name, s.data, s.format, s.orientation = filepath.Base(f), data, WebP, 1
			s.rate(m)
			out = append(out, s)
		}
	}
	return out
}
