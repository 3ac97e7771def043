package decode

import (
	"bytes"
	"fmt"
	"image"
	"image/jpeg"
	"image/png"
	"math"
	"math/rand/v2"
	"os/exec"
	"testing"

	"golang.org/x/image/bmp"
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

// benchFiles encodes the photo in every format for which there is a library or a program.
func benchFiles() map[string][]byte {
	m := photo()
	files := map[string][]byte{"ppm": fmt.Appendf(nil, "P6\n%d %d\n255\n", benchW, benchH)}
	for i := 0; i < len(m.Pix); i += 4 {
		files["ppm"] = append(files["ppm"], m.Pix[i:i+3]...)
	}
	for name, encode := range map[string]func(to *bytes.Buffer) error{
		"jpeg": func(to *bytes.Buffer) error { return jpeg.Encode(to, m, &jpeg.Options{Quality: 90}) },
		"png":  func(to *bytes.Buffer) error { return png.Encode(to, m) },
		"bmp":  func(to *bytes.Buffer) error { return bmp.Encode(to, m) },
	} {
		var to bytes.Buffer
		if err := encode(&to); err != nil {
			panic(err)
		}
		files[name] = to.Bytes()
	}
	for name, program := range map[string]*exec.Cmd{
		"jpeg-progressive": exec.Command("jpegtran", "-progressive"),
		"webp-lossless":    exec.Command("cwebp", "-quiet", "-lossless", "-o", "-", "--", "-"),
	} {
		program.Stdin = bytes.NewReader(files[map[string]string{"jpeg-progressive": "jpeg", "webp-lossless": "png"}[name]])
		if data, err := program.Output(); err == nil {
			files[name] = data
		}
	}
	return files
}

func BenchmarkDecode(b *testing.B) {
	files := benchFiles()
	for _, name := range []string{"jpeg", "jpeg-progressive", "png", "webp-lossless", "bmp", "ppm"} {
		for _, c := range []Color{RGB, Gray} {
			if files[name] == nil {
				b.Log("NOT MEASURED since no program that writes it is installed:", name)
				continue
			}
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
	v := view{Header: h, Region: Region{0, 0, h.Width, h.Height}, Scale: 1, Color: c, Orientation: orientation}
	height, width := v.size()
	dst := Image{make([]byte, height*width*c.Channels()), width * c.Channels(), height, width}
	b.SetBytes(int64(len(dst.Pix)))
	b.ReportAllocs()
	for b.Loop() {
		if err := d.codecs[h.Format](&d.kept, dst, data, v); err != nil {
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
				ReadHeader(data[:min(len(data), 4096)], false)
			}
		})
		b.Run(name+"-whole", func(b *testing.B) {
			for b.Loop() {
				ReadHeader(data, true)
			}
		})
	}
}
