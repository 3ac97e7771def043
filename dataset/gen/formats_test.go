package gen

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"image"
	"image/color"
	"image/png"
	"testing"

	"golang.org/x/image/bmp"
	"golang.org/x/image/webp"
)

func testPicture(w, h int) picture {
	r := rng(w*1000 + h)
	p := picture{w, h, nil}
	for i := range w * h {
		p.pix = append(p.pix, byte(i*3+r.below(20)), byte(i/w*5), byte(r.next()))
	}
	return p
}

// sample16 returns one sample of packed rows as 16 bits; smaller depths are scaled up.
func sample16(rows []byte, w, chans, depth, x, y, c int) uint16 {
	stride := (w*chans*depth + 7) / 8
	bit := (x*chans + c) * depth
	row := rows[y*stride:]
	switch depth {
	case 16:
		return binary.BigEndian.Uint16(row[bit/8:])
	case 8:
		return uint16(row[bit/8]) * 257
	}
	v := uint16(row[bit/8]) >> (8 - depth - bit%8) & (1<<depth - 1)
	return v * (65535 / (1<<depth - 1))
}

// wantPNG returns a pixel of a PNG file as defined by the standard.
func wantPNG(rows []byte, w int, s pngStyle, x, y int) color.NRGBA64 {
	n := pngChannels[s.color]
	get := func(c int) uint16 { return sample16(rows, w, n, s.depth, x, y, c) }
	switch s.color {
	case pngPalette:
		i := int(get(0)) / (65535 / (1<<s.depth - 1))
		a := uint16(0xFFFF)
		if i < len(s.transparent) {
			a = uint16(s.transparent[i]) * 257
		}
		return color.NRGBA64{uint16(s.palette[3*i]) * 257, uint16(s.palette[3*i+1]) * 257, uint16(s.palette[3*i+2]) * 257, a}
	case pngGray:
		a := uint16(0xFFFF)
		if s.transparent != nil && get(0) == uint16(s.transparent[1])*257 {
			a = 0
		}
		return color.NRGBA64{get(0), get(0), get(0), a}
	case pngGrayAlpha:
		return color.NRGBA64{get(0), get(0), get(0), get(1)}
	case pngRGB:
		a, t := uint16(0xFFFF), s.transparent
		if t != nil && get(0) == uint16(t[1])*257 && get(1) == uint16(t[3])*257 && get(2) == uint16(t[5])*257 {
			a = 0
		}
		return color.NRGBA64{get(0), get(1), get(2), a}
	}
	return color.NRGBA64{get(0), get(1), get(2), get(3)}
}

func TestPNG(t *testing.T) {
	palette := cubePalette()
	styles := map[string]pngStyle{}
	for _, depth := range []int{1, 2, 4, 8, 16} {
		styles[fmt.Sprint("gray", depth)] = pngStyle{color: pngGray, depth: depth}
		if depth <= 8 {
			styles[fmt.Sprint("palette", depth)] = pngStyle{color: pngPalette, depth: depth, palette: palette[:3<<depth], transparent: []byte{9, 99}}
		}
		if depth >= 8 {
			styles[fmt.Sprint("rgb", depth)] = pngStyle{color: pngRGB, depth: depth}
			styles[fmt.Sprint("graya", depth)] = pngStyle{color: pngGrayAlpha, depth: depth}
			styles[fmt.Sprint("rgba", depth)] = pngStyle{color: pngRGBA, depth: depth}
		}
	}
	styles["gray8 transparent"] = pngStyle{color: pngGray, depth: 8, transparent: []byte{0, 100}}
	styles["rgb8 transparent"] = pngStyle{color: pngRGB, depth: 8, transparent: []byte{0, 1, 0, 2, 0, 3}}
	var e pngCoder
	for name, s := range styles {
		for _, size := range [][2]int{{1, 1}, {3, 2}, {8, 8}, {17, 9}, {5, 40}} {
			for variant := range 6 {
				s.interlace, s.filter, s.level = variant%2 == 1, pngFilter(variant/2), variant
				s.chunk = variant * 100
				checkPNG(t, &e, name, size[0], size[1], s)
			}
		}
	}
}

func checkPNG(t *testing.T, e *pngCoder, name string, w, h int, s pngStyle) {
	t.Helper()
	r := rng(w + s.depth)
	rows := make([]byte, (w*pngChannels[s.color]*s.depth+7)/8*h)
	for i := range rows {
		rows[i] = byte(r.between(90, 110))
	}
	file := e.encode([]byte("x"), w, h, rows, s)
	if file[0] != 'x' {
		t.Fatalf("%s: not appended", name)
	}
	img, err := png.Decode(bytes.NewReader(file[1:]))
	if err != nil {
		t.Fatalf("%s %dx%d %+v: %v", name, w, h, s, err)
	}
	if img.Bounds() != image.Rect(0, 0, w, h) {
		t.Fatalf("%s: %dx%d became %v", name, w, h, img.Bounds())
	}
	for i := range w * h {
		want := wantPNG(rows, w, s, i%w, i/w)
		if got := straight(img, i%w, i/w); got != want && (got.A != 0 || want.A != 0) {
			t.Fatalf("%s %dx%d, filter %d, interlace %v: pixel %d is %v, want %v", name, w, h, s.filter, s.interlace, i, got, want)
		}
	}
}

// straight returns a pixel without the loss of multiplying by alpha and dividing again.
func straight(img image.Image, x, y int) color.NRGBA64 {
	switch c := img.At(x, y).(type) {
	case color.NRGBA:
		return color.NRGBA64{uint16(c.R) * 257, uint16(c.G) * 257, uint16(c.B) * 257, uint16(c.A) * 257}
	case color.NRGBA64:
		return c
	default:
		return color.NRGBA64Model.Convert(c).(color.NRGBA64)
	}
}

// Adaptive filtering must be worth its time.
func TestPNGFiltersPay(t *testing.T) {
	p := painter{tiles: testTiles()}
	p.photo(1, 0, 200, 150)
	pix := p.canvas.rgb(nil)
	var e pngCoder
	size := func(f pngFilter) int {
		return len(e.encode(nil, 200, 150, pix, pngStyle{color: pngRGB, depth: 8, filter: f, level: pngLevel}))
	}
	adaptive, none, cycle := size(pngAdaptive), size(pngNone), size(pngCycle)
	if adaptive >= none || adaptive >= cycle {
		t.Errorf("adaptive %d bytes, unfiltered %d, cycling %d", adaptive, none, cycle)
	}
}

func TestBMP(t *testing.T) {
	for _, size := range [][2]int{{1, 1}, {2, 3}, {3, 2}, {5, 4}, {64, 9}} {
		p := testPicture(size[0], size[1])
		for _, topDown := range []bool{false, true} {
			colors := picture{256, 1, cubePalette()}
			palette := swapRedBlue(colors.withAlpha(0), 4)
			indexed := p.indexed()
			for bits, pix := range map[int][]byte{
				8: indexed, 24: swapRedBlue(bytes.Clone(p.pix), 3), 32: swapRedBlue(p.withAlpha(0), 4),
			} {
				entries := []byte(nil)
				if bits == 8 {
					entries = palette
				}
				file := appendBMP(nil, p.w, p.h, pix, bits, entries, topDown)
				if n := binary.LittleEndian.Uint32(file[2:]); int(n) != len(file) {
					t.Errorf("file of %d bytes says it has %d", len(file), n)
				}
				img, err := bmp.Decode(bytes.NewReader(file))
				if err != nil {
					t.Fatalf("%v, %d bits, top down %v: %v", size, bits, topDown, err)
				}
				want := p.pix
				if bits == 8 {
					want = nil
					for _, k := range indexed {
						want = append(want, cubePalette()[3*int(k):][:3]...)
					}
				}
				comparePixels(t, fmt.Sprint(size, bits, topDown), img, p.w, p.h, want)
			}
		}
	}
}

func comparePixels(t *testing.T, name string, img image.Image, w, h int, want []byte) {
	t.Helper()
	if img.Bounds() != image.Rect(0, 0, w, h) {
		t.Fatalf("%s: size %v", name, img.Bounds())
	}
	for i := range w * h {
		got := color.NRGBAModel.Convert(img.At(i%w, i/w)).(color.NRGBA)
		if !bytes.Equal([]byte{got.R, got.G, got.B}, want[3*i:3*i+3]) {
			t.Fatalf("%s: pixel %d is %v, want %v", name, i, got, want[3*i:3*i+3])
		}
	}
}

func TestWebP(t *testing.T) {
	var e webpCoder
	flat := picture{9, 7, bytes.Repeat([]byte{5, 6, 7}, 63)}
	two := picture{2, 1, []byte{0, 0, 0, 255, 255, 255}}
	for _, p := range []picture{testPicture(1, 1), testPicture(1, 9), testPicture(33, 1), testPicture(70, 50), testPicture(600, 3), flat, two} {
		file := e.encode([]byte("x"), p.w, p.h, p.pix, 3)[1:]
		if n := binary.LittleEndian.Uint32(file[4:]); int(n)+8 != len(file) || n%2 != 0 {
			t.Errorf("file of %d bytes says it has %d", len(file), n+8)
		}
		img, err := webp.Decode(bytes.NewReader(file))
		if err != nil {
			t.Fatalf("%dx%d: %v", p.w, p.h, err)
		}
		comparePixels(t, fmt.Sprint(p.w, "x", p.h), img, p.w, p.h, p.pix)
		checkWebPAlpha(t, &e, p)
	}
}

func checkWebPAlpha(t *testing.T, e *webpCoder, p picture) {
	t.Helper()
	pix := p.withAlpha(1)
	img, err := webp.Decode(bytes.NewReader(e.encode(nil, p.w, p.h, pix, 4)))
	if err != nil {
		t.Fatalf("%dx%d with alpha: %v", p.w, p.h, err)
	}
	if got := img.(*image.NRGBA).Pix; !bytes.Equal(got, pix) {
		t.Errorf("%dx%d with alpha: other pixels", p.w, p.h)
	}
}

func TestPNM(t *testing.T) {
	for _, c := range []struct {
		got  []byte
		want string
	}{
		{appendPNM([]byte("x"), 2, 1, 3, []byte("abcdef"), ""), "xP6\n2 1\n255\nabcdef"},
		{appendPNM(nil, 1, 2, 1, []byte("ab"), ""), "P5\n1 2\n255\nab"},
		{appendPNM(nil, 1, 1, 1, []byte("a"), "say 3"), "P5\n# say 3\n1 1\n255\na"},
	} {
		if string(c.got) != c.want {
			t.Errorf("%q, want %q", c.got, c.want)
		}
	}
}

// The canvas converts like the image library, up to its rounding.
func TestCanvasRGB(t *testing.T) {
	var c canvas
	r := rng(2)
	for _, size := range [][2]int{{1, 1}, {3, 5}, {40, 30}, {7, 2}} {
		c.resize(size[0], size[1])
		for _, plane := range [][]byte{c.y, c.cb, c.cr} {
			for i := range plane {
				plane[i] = byte(r.next())
			}
		}
		pix := c.rgb([]byte("x"))[1:]
		for i := range c.w * c.h {
			x, y := i%c.w, i/c.w
			k := y/2*c.cw + x/2
			red, green, blue := color.YCbCrToRGB(c.y[i], c.cb[k], c.cr[k])
			for j, want := range []byte{red, green, blue} {
				if d := int(pix[3*i+j]) - int(want); d < -1 || d > 1 {
					t.Fatalf("pixel %d of %v is %v, want %d %d %d", i, size, pix[3*i:3*i+3], red, green, blue)
				}
			}
		}
	}
	for range 1000 {
		red, green, blue := byte(r.next()), byte(r.next()), byte(r.next())
		y, cb, cr := color.RGBToYCbCr(red, green, blue)
		got := rgbTone(int(red), int(green), int(blue))
		for _, d := range []int{got.y - int(y), got.cb - int(cb), got.cr - int(cr)} {
			if d < -1 || d > 1 {
				t.Fatalf("%d %d %d becomes %v, want %d %d %d", red, green, blue, got, y, cb, cr)
			}
		}
	}
}
