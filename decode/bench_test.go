package decode

import (
	"bytes"
	"fmt"
	"image"
	"image/jpeg"
	"math"
	"math/rand/v2"
	"testing"
)

// Benchmarks decode typical training data: photos of 500x375, as JPEG of quality 90 and about
// 100 KB, and the same pixels in the other formats.

const benchW, benchH = 500, 375

// photo is a smooth picture with noise; as a JPEG of quality 90 it has about 100 KB.
func photo() *image.NRGBA {
	random := rand.New(rand.NewPCG(1, 2))
	m := image.NewNRGBA(image.Rect(0, 0, benchW, benchH))
	for y := range benchH {
		for x := range benchW {
			noise := 20 * random.NormFloat64()
			for c, f := range [3][2]float64{{31, 47}, {23, 61}, {57, 29}} {
				v := 128 + 70*math.Sin(float64(x)/f[0]+float64(c))*math.Cos(float64(y)/f[1]) + noise
				m.Pix[m.PixOffset(x, y)+c] = uint8(max(0, min(255, v)))
			}
			m.Pix[m.PixOffset(x, y)+3] = 255
		}
	}
	return m
}

func benchFiles() map[string][]byte {
	m := photo()
	at := func(x, y, c int) uint8 { return m.Pix[m.PixOffset(x, y)+c] }
	var j bytes.Buffer
	jpeg.Encode(&j, m, &jpeg.Options{Quality: 90})
	planes := ycc(2, 2)
	for i := range planes {
		planes[i].at = jpegYCC(func(x, y int) [3]float64 {
			return [3]float64{float64(at(x, y, 0)), float64(at(x, y, 1)), float64(at(x, y, 2))}
		}, i)
	}
	return map[string][]byte{
		"jpeg":             j.Bytes(),
		"jpeg-progressive": writeJPEG(jpegSpec{w: benchW, h: benchH, comps: planes, adobe: -1, progressive: true, quant: 8}),
		"png": writePNG(pngSpec{w: benchW, h: benchH, kind: 2, depth: 8,
			sample: func(x, y, c int) uint16 { return uint16(at(x, y, c)) }}),
		"webp-lossless": riff("VP8L", writeVP8L(benchW, benchH, func(x, y int) [4]uint8 {
			return [4]uint8(m.Pix[m.PixOffset(x, y):])
		})),
		"bmp": writeBMP(bmpSpec{w: benchW, h: benchH, bits: 24, pixel: func(x, y int) uint32 {
			return uint32(at(x, y, 0))<<16 | uint32(at(x, y, 1))<<8 | uint32(at(x, y, 2))
		}}),
		"ppm": writePNM('6', benchW, benchH, 255, func(x, y, c int) int { return int(at(x, y, c)) }),
	}
}

func BenchmarkDecode(b *testing.B) {
	files := benchFiles()
	for _, name := range []string{"jpeg", "jpeg-progressive", "png", "webp-lossless", "bmp", "ppm"} {
		for _, c := range []Color{RGB, Gray} {
			b.Run(fmt.Sprintf("%s-%d", name, c.Channels()), func(b *testing.B) {
				benchmarkDecode(b, files[name], c, 1)
			})
		}
	}
	for _, orientation := range []uint8{3, 6} {
		b.Run(fmt.Sprintf("jpeg-turned-%d", orientation), func(b *testing.B) {
			benchmarkDecode(b, files["jpeg"], RGB, orientation)
		})
	}
}

func benchmarkDecode(b *testing.B, data []byte, c Color, orientation uint8) {
	d := NewDecoder(Options{Color: c})
	defer d.Close()
	h, err := ReadHeader(data, true)
	if err != nil {
		b.Fatal(err)
	}
	v := View{Header: h, Region: Region{0, 0, h.Width, h.Height}, Scale: 1, Color: c, Orientation: orientation}
	height, width := v.size()
	dst := Image{make([]byte, height*width*c.Channels()), width * c.Channels(), height, width}
	b.SetBytes(int64(len(dst.Pix)))
	b.ReportAllocs()
	for b.Loop() {
		if err := d.codecs[h.Format].Decode(dst, data, v); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkRegion decodes regions for random crops of an eighth to all of the image.
func BenchmarkRegion(b *testing.B) {
	data := benchFiles()["jpeg"]
	h := headerOf(data)
	d := NewDecoder(Options{})
	defer d.Close()
	for _, scale := range []int{1, 2, 4, 8} {
		b.Run(fmt.Sprintf("1in%d", scale), func(b *testing.B) {
			w, hh := h.At(scale)
			r := Region{w / 4, hh / 4, w / 2, hh / 2}
			dst := Image{make([]byte, r.W*r.H*3), r.W * 3, r.H, r.W}
			for b.Loop() {
				if err := d.DecodeRegion(dst, data, h, r, scale); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkReadHeader(b *testing.B) {
	for name, data := range benchFiles() {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				ReadHeader(data[:4096], false)
			}
		})
		b.Run(name+"-whole", func(b *testing.B) {
			for b.Loop() {
				ReadHeader(data, true)
			}
		})
	}
}
