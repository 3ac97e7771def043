package integration

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"image"
	"image/color"
	"image/jpeg"
	"image/png"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"testing"
)

// A picture is an image file whose pixels are known without batchfs. For lossless formats
// the pixels existed before the file; for JPEG they come from Go's decoder.
type picture struct {
	name        string
	file        []byte
	h, w        int    // as stored
	rgb, gray   []byte // as stored: interleaved, and the result of --color gray
	orientation int    // EXIF's, 1 to 8
	// exact: every decoder returns these pixels. Otherwise decoders may differ as two JPEG
	// decoders do: by a few levels, for pictures as smooth as these.
	exact bool
}

// farthest is the allowed distance from the reference, in levels.
func (p *picture) farthest() float64 {
	if p.exact {
		return 1
	}
	return 6
}

// upright is the picture as it must appear.
func (p *picture) upright(gray, ignoreOrientation bool) plane {
	s := plane{h: p.h, w: p.w, c: 3, values: p.rgb}
	if gray {
		s.c, s.values = 1, p.gray
	}
	if ignoreOrientation {
		return s
	}
	return s.turned(p.orientation)
}

// A plane is pixels in memory, channels interleaved.
type plane struct {
	h, w, c int
	values  []byte
}

// turned returns a picture oriented according to EXIF. The number says where the first row
// and the first column of the stored picture belong.
//
//go:norace
func (p plane) turned(orientation int) plane {
	out := plane{p.h, p.w, p.c, make([]byte, len(p.values))}
	if orientation >= 5 {
		out.h, out.w = p.w, p.h
	}
	for y := range p.h {
		for x := range p.w {
			mirrorY, mirrorX := p.h-1-y, p.w-1-x
			toY, toX := y, x
			switch orientation {
			case 2: // top, right
				toX = mirrorX
			case 3: // bottom, right
				toY, toX = mirrorY, mirrorX
			case 4: // bottom, left
				toY = mirrorY
			case 5: // left, top
				toY, toX = x, y
			case 6: // right, top
				toY, toX = x, mirrorY
			case 7: // right, bottom
				toY, toX = mirrorX, mirrorY
			case 8: // left, bottom
				toY, toX = mirrorX, y
			}
			copy(out.values[(toY*out.w+toX)*p.c:][:p.c], p.values[(y*p.w+x)*p.c:])
		}
	}
	return out
}

// noise returns pixels that are independent of their neighbors.
//
//go:norace
func noise(seed uint64, h, w int) []byte {
	r := rand.New(rand.NewPCG(seed, 3))
	p := make([]byte, 3*h*w)
	for i := range p {
		p[i] = byte(r.Uint32())
	}
	return p
}

// slope returns pixels that change by two or three levels from one to the next. They are
// smooth enough for decoders to agree, and steep enough to reveal a filter that is off by
// some pixels.
//
//go:norace
func slope(seed, h, w int) []byte {
	p := make([]byte, 0, 3*h*w)
	turn := float64(seed)
	for y := range h {
		for x := range w {
			along, across := float64(x)*math.Cos(turn)+float64(y)*math.Sin(turn), float64(x)/3-float64(y)
			v := 128 + 70*math.Sin(along/28+turn) + 25*math.Cos(across/40)
			p = append(p, byte(v), byte(v+15*math.Sin(across/50)), byte(v-12))
		}
	}
	return p
}

// grayOf converts color to gray: BT.601 in 16 bits, as documented in package decode.
//
//go:norace
func grayOf(rgb []byte) []byte {
	var gray []byte
	for i := 0; i < len(rgb); i += 3 {
		sum := 19595*int(rgb[i]) + 38470*int(rgb[i+1]) + 7471*int(rgb[i+2])
		gray = append(gray, byte((sum+1<<15)>>16))
	}
	return gray
}

// colourOf converts gray to color.
//
//go:norace
func colourOf(gray []byte) (rgb []byte) {
	for _, v := range gray {
		rgb = append(rgb, v, v, v)
	}
	return rgb
}

// lossless makes a picture in a lossless format.
func lossless(name string, h, w int, rgb []byte) *picture {
	p := &picture{name: name, h: h, w: w, rgb: rgb, gray: grayOf(rgb), orientation: 1, exact: true}
	switch filepath.Ext(name) {
	case ".png":
		p.file = encoded(func(out *bytes.Buffer) error { return png.Encode(out, opaque(h, w, rgb)) })
	case ".ppm":
		p.file = append(fmt.Appendf(nil, "P6\n%d %d\n255\n", w, h), rgb...)
	case ".bmp":
		p.file = bmpFile(h, w, rgb)
	}
	return p
}

//go:norace
func opaque(h, w int, rgb []byte) image.Image {
	img := image.NewRGBA(image.Rect(0, 0, w, h))
	for i := range h * w {
		copy(img.Pix[4*i:], rgb[3*i:3*i+3])
		img.Pix[4*i+3] = 255
	}
	return img
}

// grayPNG is a PNG stored as gray.
func grayPNG(name string, h, w int, gray []byte) *picture {
	img := &image.Gray{Pix: gray, Stride: w, Rect: image.Rect(0, 0, w, h)}
	return &picture{
		name: name, h: h, w: w, rgb: colourOf(gray), gray: gray, orientation: 1, exact: true,
		file: encoded(func(out *bytes.Buffer) error { return png.Encode(out, img) }),
	}
}

// encoded returns an encoder's output. Writes to a buffer do not fail.
func encoded(encode func(*bytes.Buffer) error) []byte {
	var out bytes.Buffer
	if err := encode(&out); err != nil {
		panic(err)
	}
	return out.Bytes()
}

// bmpFile is a BMP with 24 bits per pixel, rows from bottom to top.
//
//go:norace
func bmpFile(h, w int, rgb []byte) []byte {
	const head = 14 + 40
	row := (3*w + 3) &^ 3
	out := make([]byte, head+h*row)
	copy(out, "BM")
	binary.LittleEndian.PutUint32(out[2:], uint32(len(out)))
	binary.LittleEndian.PutUint32(out[10:], head)
	binary.LittleEndian.PutUint32(out[14:], 40)
	binary.LittleEndian.PutUint32(out[18:], uint32(w))
	binary.LittleEndian.PutUint32(out[22:], uint32(h))
	binary.LittleEndian.PutUint16(out[26:], 1)
	binary.LittleEndian.PutUint16(out[28:], 24)
	for y := range h {
		for x := range w {
			from, to := rgb[(y*w+x)*3:], out[head+(h-1-y)*row+3*x:]
			to[0], to[1], to[2] = from[2], from[1], from[0]
		}
	}
	return out
}

// jpegPicture makes a JPEG of a slope: gray, or in color with halved chroma. Its pixels are
// those returned by Go's own decoder.
func jpegPicture(name string, seed, h, w, orientation int, gray bool) *picture {
	rgb := slope(seed, h, w)
	var img image.Image = &image.Gray{Pix: grayOf(rgb), Stride: w, Rect: image.Rect(0, 0, w, h)}
	if !gray {
		img = opaque(h, w, rgb)
	}
	file := encoded(func(out *bytes.Buffer) error { return jpeg.Encode(out, img, &jpeg.Options{Quality: 95}) })
	decoded, err := jpeg.Decode(bytes.NewReader(file))
	if err != nil {
		panic(err)
	}
	p := &picture{name: name, h: h, w: w, orientation: orientation, file: oriented(file, orientation)}
	switch img := decoded.(type) {
	case *image.Gray:
		for y := range h {
			p.gray = append(p.gray, img.Pix[y*img.Stride:][:w]...)
		}
		p.rgb = colourOf(p.gray)
	case *image.YCbCr:
		for i := range h * w {
			luma, chroma := img.YOffset(i%w, i/w), img.COffset(i%w, i/w)
			r, g, b := color.YCbCrToRGB(img.Y[luma], img.Cb[chroma], img.Cr[chroma])
			p.gray, p.rgb = append(p.gray, img.Y[luma]), append(p.rgb, r, g, b)
		}
	}
	return p
}

// oriented adds an EXIF orientation to a JPEG.
func oriented(file []byte, orientation int) []byte {
	if orientation == 1 {
		return file
	}
	exif := []byte("Exif\x00\x00MM\x00*\x00\x00\x00\x08\x00\x01\x01\x12\x00\x03\x00\x00\x00\x01\x00")
	exif = append(exif, byte(orientation), 0, 0, 0, 0, 0, 0)
	segment := append([]byte{0xff, 0xd8, 0xff, 0xe1}, binary.BigEndian.AppendUint16(nil, uint16(len(exif)+2))...)
	return append(append(segment, exif...), file[2:]...)
}

// An album is a flat dataset of pictures: sample i is pictures[i].
type album struct {
	dir      string
	pictures []*picture
}

// makeAlbum writes pictures below a directory.
func makeAlbum(dir string, pictures []*picture) (album, error) {
	a := album{filepath.Join(dir, "album"), pictures}
	if err := os.MkdirAll(a.dir, 0o755); err != nil {
		return a, err
	}
	for i, p := range pictures {
		p.name = fmt.Sprintf("%02d-%s", i, p.name)
		if err := os.WriteFile(filepath.Join(a.dir, p.name), p.file, 0o644); err != nil {
			return a, err
		}
	}
	return a, nil
}

// The target size of the albums.
const albumHeight, albumWidth = 24, 33

// smallAlbum has every shape that is special for a size of 24x33, none of them large:
// smaller, larger, equal, of one row, column or pixel, of extreme proportions, gray,
// turned. All tests share it and must not change it.
func smallAlbum(t testing.TB) album {
	t.Helper()
	a, err := makeSmallAlbum()
	if err != nil {
		t.Fatal(err)
	}
	return a
}

var makeSmallAlbum = sync.OnceValues(func() (album, error) {
	var all []*picture
	for i, s := range []struct {
		name string
		h, w int
	}{
		{"pixel.png", 1, 1}, {"row.bmp", 1, 70}, {"column.ppm", 61, 1}, {"same.png", albumHeight, albumWidth},
		{"small.png", 7, 9}, {"same-height.bmp", 24, 50}, {"same-width.ppm", 40, 33}, {"long.png", 3, 141},
		{"tall.ppm", 133, 4}, {"large.png", 97, 131}, {"larger.bmp", 141, 80}, {"double.png", 48, 66},
	} {
		all = append(all, lossless(s.name, s.h, s.w, noise(uint64(i), s.h, s.w)))
	}
	all = append(all, grayPNG("gray.png", 90, 55, grayOf(noise(50, 90, 55))), grayPNG("gray-small.png", 5, 40, grayOf(noise(51, 5, 40))))
	for orientation := 1; orientation <= 8; orientation++ {
		all = append(all, jpegPicture(fmt.Sprintf("turned-%d.jpg", orientation), orientation, 57, 91, orientation, orientation%2 == 1))
	}
	return makeAlbum(filepath.Join(suite.dir, "small"), all)
})

// largeAlbum has pictures so much larger than 24x33 that JPEGs are decoded at 1/2, 1/4 and
// 1/8, in every orientation and with sides not divisible by those, and others that need a
// filter of more than 128 pixels.
func largeAlbum(t testing.TB) album {
	t.Helper()
	var all []*picture
	for _, s := range []struct {
		h, w         int
		orientations string
	}{{109, 147, "16"}, {203, 277, "12345678"}, {403, 541, "37"}} {
		for i, digit := range s.orientations {
			all = append(all, jpegPicture(fmt.Sprintf("%d-%c.jpg", s.h, digit), int(digit), s.h, s.w, int(digit-'0'), i%2 == 0))
		}
	}
	all = append(all,
		lossless("endless.png", 2, 4301, noise(60, 2, 4301)), lossless("tower.ppm", 4300, 1, noise(61, 4300, 1)),
		lossless("big.png", 301, 420, noise(62, 301, 420)))
	a, err := makeAlbum(scratch(t), all)
	if err != nil {
		t.Fatal(err)
	}
	return a
}
