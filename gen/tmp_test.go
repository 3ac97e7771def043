package gen

import (
	"bytes"
	"image"
	"image/jpeg"
	"math/rand/v2"
	"os"
	"testing"
)

func TestTmp(t *testing.T) {
	for _, sty := range []jpegStyle{{quality: 90}, {quality: 90, optimize: true}, {quality: 90, progressive: true}, {quality: 75, restart: 3}, {quality: 90, progressive: true, restart: 5}, {quality: 90, stray: true, orientation: 6}} {
		for _, wh := range [][2]int{{64, 64}, {1, 1}, {17, 31}, {500, 375}} {
			w, h := wh[0], wh[1]
			for _, s := range [][2]int{{1, 1}, {2, 1}, {2, 2}, {1, 2}, {4, 1}} {
				y := make([]byte, w*h)
				rng := rand.New(rand.NewPCG(1, 2))
				for i := range y {
					y[i] = byte(128 + (i%w-w/2)/3 + rng.IntN(40))
				}
				cw, ch := ceilDiv(w, s[0]), ceilDiv(h, s[1])
				c := make([]byte, cw*ch)
				for i := range c {
					c[i] = byte(100 + 30*(i/cw)/ch + rng.IntN(10))
				}
				var e jpegCoder
				out := e.encode(nil, w, h, []plane{{y, w, h, w, s[0], s[1]}, {c, cw, ch, cw, 1, 1}, {c, cw, ch, cw, 1, 1}}, sty)
				img, err := jpeg.Decode(bytes.NewReader(out))
				if err != nil {
					os.WriteFile("/tmp/x.jpg", out, 0o644)
					t.Fatal(sty, wh, s, err)
				}
				yc := img.(*image.YCbCr)
				d, dc := 0, 0
				for j := range h {
					for i := range w {
						v := int(yc.Y[j*yc.YStride+i]) - int(y[j*w+i])
						d += v * v
					}
				}
				for j := range ch {
					for i := range cw {
						v := int(yc.Cb[j*yc.CStride+i]) - int(c[j*cw+i])
						dc += v * v
					}
				}
				t.Log(sty, wh, s, len(out), float64(d)/float64(w*h), float64(dc)/float64(cw*ch))
			}
		}
	}
}

func BenchmarkTmp(b *testing.B) {
	w, h := 500, 375
	y := make([]byte, w*h)
	rng := rand.New(rand.NewPCG(1, 2))
	for i := range y {
		y[i] = byte(128 + (i%w-w/2)/3 + rng.IntN(28))
	}
	cw, ch := 250, 188
	c := make([]byte, cw*ch)
	for i := range c {
		c[i] = byte(100 + 30*(i/cw)/ch + rng.IntN(5))
	}
	var e jpegCoder
	var out []byte
	for b.Loop() {
		out = e.encode(out[:0], w, h, []plane{{y, w, h, w, 2, 2}, {c, cw, ch, cw, 1, 1}, {c, cw, ch, cw, 1, 1}}, jpegStyle{quality: 90})
	}
	b.ReportMetric(float64(len(out)), "bytes")
	os.WriteFile("/tmp/x.jpg", out, 0o644)
}
