package integration

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"image"
	"image/jpeg"
	"image/png"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"testing"
)

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

// opaque is an image of these pixels.
//
//go:norace
func opaque(h, w int, rgb []byte) image.Image {
	img := image.NewRGBA(image.Rect(0, 0, w, h))
	for i := range h * w {
		copy(img.Pix[4*i:], rgb[3*i:3*i+3])
		img.Pix[4*i+3] = 255
	}
	return img
}

// gray is one of every third byte.
func gray(h, w int, rgb []byte) image.Image {
	img := image.NewGray(image.Rect(0, 0, w, h))
	for i := range img.Pix {
		img.Pix[i] = rgb[3*i]
	}
	return img
}

// encoded returns an encoder's output. Writes to a buffer do not fail.
func encoded(encode func(*bytes.Buffer) error) []byte {
	var out bytes.Buffer
	if err := encode(&out); err != nil {
		panic(err)
	}
	return out.Bytes()
}

func asPNG(img image.Image) []byte {
	return encoded(func(out *bytes.Buffer) error { return png.Encode(out, img) })
}

func ppmFile(h, w int, rgb []byte) []byte {
	return append(fmt.Appendf(nil, "P6\n%d %d\n255\n", w, h), rgb...)
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

// turnedJPEG is a JPEG of a slope with an EXIF orientation, in color if that is even, else gray.
func turnedJPEG(orientation, h, w int) []byte {
	img := opaque(h, w, slope(orientation, h, w))
	if orientation%2 == 1 {
		img = gray(h, w, slope(orientation, h, w))
	}
	file := encoded(func(out *bytes.Buffer) error { return jpeg.Encode(out, img, &jpeg.Options{Quality: 95}) })
	exif := []byte("Exif\x00\x00MM\x00*\x00\x00\x00\x08\x00\x01\x01\x12\x00\x03\x00\x00\x00\x01\x00")
	exif = append(exif, byte(orientation), 0, 0, 0, 0, 0, 0)
	segment := append([]byte{0xff, 0xd8, 0xff, 0xe1}, binary.BigEndian.AppendUint16(nil, uint16(len(exif)+2))...)
	return append(append(segment, exif...), file[2:]...)
}

// The size to which tests resize the album.
const albumHeight, albumWidth = 24, 33

// smallAlbum is a flat dataset of 22 pictures of every shape that is special for a size of 24x33,
// none of them large: smaller, larger, equal, of one row, column or pixel, of extreme proportions,
// gray, turned. All tests share it and must not change it.
func smallAlbum(t testing.TB) string {
	t.Helper()
	return shared(t, makeSmallAlbum)
}

var makeSmallAlbum = sync.OnceValues(func() (string, error) {
	dir, n := filepath.Join(suite.dir, "album"), 0
	err := os.Mkdir(dir, 0o755)
	add := func(name string, file []byte) {
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, fmt.Sprintf("%02d-%s", n, name)), file, 0o644)
		}
		n++
	}
	for i, s := range []struct {
		name string
		h, w int
	}{
		{"pixel.png", 1, 1}, {"row.bmp", 1, 70}, {"column.ppm", 61, 1}, {"same.png", albumHeight, albumWidth},
		{"small.png", 7, 9}, {"same-height.bmp", 24, 50}, {"same-width.ppm", 40, 33}, {"long.png", 3, 141},
		{"tall.ppm", 133, 4}, {"large.png", 97, 131}, {"larger.bmp", 141, 80}, {"double.png", 48, 66},
	} {
		rgb := noise(uint64(i), s.h, s.w)
		switch filepath.Ext(s.name) {
		case ".png":
			add(s.name, asPNG(opaque(s.h, s.w, rgb)))
		case ".ppm":
			add(s.name, ppmFile(s.h, s.w, rgb))
		case ".bmp":
			add(s.name, bmpFile(s.h, s.w, rgb))
		}
	}
	add("gray.png", asPNG(gray(90, 55, noise(50, 90, 55))))
	add("gray-small.png", asPNG(gray(5, 40, noise(51, 5, 40))))
	for orientation := 1; orientation <= 8; orientation++ {
		add(fmt.Sprintf("turned-%d.jpg", orientation), turnedJPEG(orientation, 57, 91))
	}
	return dir, err
})

// pngFile is a PNG whose pixels all have one value.
func pngFile(h, w int, value byte) []byte {
	return asPNG(opaque(h, w, bytes.Repeat([]byte{value}, 3*h*w)))
}

// pngClaiming is a PNG of one pixel whose header claims more.
func pngClaiming(h, w int) []byte {
	data := pngFile(1, 1, 0)
	// After the signature: the length of IHDR, its name, 13 bytes, their checksum.
	header := data[8+4 : 8+4+4+13]
	binary.BigEndian.PutUint32(header[4:], uint32(w))
	binary.BigEndian.PutUint32(header[8:], uint32(h))
	binary.BigEndian.PutUint32(data[8+4+4+13:], crc32.ChecksumIEEE(header))
	return data
}

// jpegClaiming is a JPEG of a few pixels whose header claims more.
func jpegClaiming(h, w int) []byte {
	data := encoded(func(out *bytes.Buffer) error { return jpeg.Encode(out, image.NewRGBA(image.Rect(0, 0, 16, 16)), nil) })
	frame := bytes.Index(data, []byte{0xff, 0xc0})
	binary.BigEndian.PutUint16(data[frame+5:], uint16(h))
	binary.BigEndian.PutUint16(data[frame+7:], uint16(w))
	return data
}
