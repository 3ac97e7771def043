package decode_test

import (
	"errors"
	"fmt"
	"image"
	"image/color"
	"math"
	"math/rand/v2"
	"testing"

	. "github.com/batchfs/batchfs/decode"
)

// benchPictures are typical training data: a photo of 500x375, smooth with noise, which takes about
// 100 KB as a JPEG of quality 90; a street scene; and its classes.
func benchPictures() map[string]image.Image {
	random := rand.New(rand.NewPCG(1, 2))
	photo := image.NewNRGBA(image.Rect(0, 0, 500, 375))
	for i := range photo.Pix {
		x, y, c := i/4%500, i/4/500, i%4
		f := [4][2]float64{{31, 47}, {23, 61}, {57, 29}, {1, 1}}[c]
		v := 128 + 70*math.Sin(float64(x)/f[0]+float64(c))*math.Cos(float64(y)/f[1]) + 20*random.NormFloat64()
		if photo.Pix[i] = uint8(max(0, min(255, v))); c == 3 {
			photo.Pix[i] = 255
		}
	}
	street := image.NewNRGBA(image.Rect(0, 0, 2048, 1024))
	for i := 0; i < len(street.Pix); i += 4 {
		x, y := i/4%2048, i/4/2048
		v := x/16 + y/9 + 40*(x/200%2) + 60*(y/300) + random.IntN(6)
		street.Pix[i], street.Pix[i+1], street.Pix[i+2], street.Pix[i+3] = uint8(v), uint8(v+20), uint8(v/2+random.IntN(4)), 255
	}
	var colours color.Palette
	for i := range 34 {
		colours = append(colours, color.RGBA{uint8(7 * i), uint8(31 * i), uint8(13 * i), 255})
	}
	classes := image.NewPaletted(street.Rect, colours)
	for i := range classes.Pix {
		x, y := i%2048, i/2048
		classes.Pix[i] = uint8((x/97 + y/61 + x*y/200000) % len(colours))
	}
	return map[string]image.Image{"photo": photo, "street": street, "classes": classes}
}

// BenchmarkDecode decodes pictures with each kernel: whole and in a crop, at each scale, alone, in
// pairs, during packing, and from their packed form.
func BenchmarkDecode(b *testing.B) {
	for name, m := range benchPictures() {
		for kind, data := range map[string][]byte{"jpeg": encodedJPEG(m, 90), "png": encodedPNG(m)} {
			a := whole(file{name, data})
			d := newCoder(b, Options{})
			p, err := d.Pack(data, a.head, ForMemory)
			if err != nil {
				b.Fatal(err)
			}
			packed := whole(file{name, p})
			for _, k := range kernelsOf(a.head.Format) {
				by := [2]coder{newCoder(b, Options{Kernel: k}), newCoder(b, Options{Kernel: k})}
				for scale := 1; scale <= 8 && (scale == 1 || a.head.Reduces()); scale *= 2 {
					for how, a := range map[string]ask{"": a.reduced(scale), "/packed": packed.reduced(scale)} {
						at := fmt.Sprintf("%s/%s%s/%s/1in%d", name, kind, how, k, scale)
						b.Run(at, by[0].benchmark(a))
						w, h := a.region.W, a.region.H
						b.Run(at+"/crop", by[0].benchmark(a.from(Region{w / 4, h / 4, w / 2, h / 2})))
					}
				}
				a.pack = &Packing{To: make([]byte, PackedBound(a.head, int64(len(data)), ForMemory))}
				b.Run(fmt.Sprintf("%s/%s/%s/packing", name, kind, k), by[0].benchmark(a))
				a.pack = nil
				_, first := by[0].task(a)
				_, second := by[1].task(a)
				b.Run(fmt.Sprintf("%s/%s/%s/two-in-a-pair", name, kind, k), func(b *testing.B) {
					for b.Loop() {
						errs := DecodePair(&[2]*Decoder{by[0].Decoder, by[1].Decoder}, &[2]Task{first, second})
						if err := errors.Join(errs[:]...); err != nil {
							b.Fatal(err)
						}
					}
				})
			}
		}
	}
}

func (d coder) benchmark(a ask) func(b *testing.B) {
	return func(b *testing.B) {
		_, task := d.task(a)
		b.SetBytes(int64(len(task.To.Pix)))
		b.ReportAllocs()
		for b.Loop() {
			if err := d.DecodeTask(task); err != nil {
				b.Fatal(err)
			}
		}
	}
}
