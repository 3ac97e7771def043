package resample_test

import (
	"bytes"
	"context"
	"image"
	"image/color"
	"image/jpeg"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"github.com/batchfs/batchfs/decode"
	"github.com/batchfs/batchfs/decode/resample"
	"github.com/batchfs/batchfs/internal/gen"
)

// These tests connect resample to decode, as an engine does: a transform requests a region at a
// scale, and a real JPEG decoder delivers it.

type canvas struct{ pix []byte }

func (c *canvas) PutRow(_ int, row []byte) { c.pix = append(c.pix, row...) }

// picture is an encoded image and its decoding options.
type picture struct {
	data    []byte
	header  decode.Header
	decoder *decode.Decoder
	options decode.Options
}

func newPicture(t testing.TB, data []byte) *picture {
	t.Helper()
	h, err := decode.ReadHeader(data, true)
	if err != nil {
		t.Fatal(err)
	}
	p := &picture{data: data, header: h}
	p.decoder = decode.NewDecoder(p.options)
	t.Cleanup(p.decoder.Close)
	return p
}

// resized returns the transform's result from decoding what it needs at 1/scale.
func (p *picture) resized(t testing.TB, tr resample.Transform, scale int, offsets bool) []byte {
	t.Helper()
	var offY, offX float64
	if offsets {
		offY, offX = p.options.ScaleOffset(p.header, scale)
	}
	tr = tr.Reduced(scale, offY, offX)
	y, x, h, w := tr.Source()
	region := p.options.StoredRegion(p.header, decode.Region{X: x, Y: y, W: w, H: h}, scale)
	pix := make([]byte, h*w*3)
	if err := p.decoder.DecodeRegion(decode.Image{Pix: pix, Stride: w * 3, Height: h, Width: w}, p.data, p.header, region, scale); err != nil {
		t.Fatalf("%+v of %+v at 1/%d: %v", region, p.header, scale, err)
	}
	tr = tr.Moved(y, x)
	var c canvas
	src := resample.Image{Pix: pix, Stride: w * 3, Height: h, Width: w, Channels: 3}
	if err := resample.Resize(&c, src, tr, make([]byte, resample.ScratchBytes(tr, 3)), resample.Fastest); err != nil {
		t.Fatal(err)
	}
	return c.pix
}

func difference(a, b []byte) (mean float64, most int) {
	for i := range a {
		d := max(int(a[i])-int(b[i]), int(b[i])-int(a[i]))
		mean += float64(d) / float64(len(a))
		most = max(most, d)
	}
	return mean, most
}

func photos(t testing.TB, n int) (all [][]byte) {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "photos")
	if err := gen.Write(context.Background(), gen.Options{Dir: dir, Images: n, Kind: gen.Photo, Seed: 1}); err != nil {
		t.Fatal(err)
	}
	names, err := filepath.Glob(filepath.Join(dir, "*.jpg"))
	if err != nil || len(names) != n {
		t.Fatal(names, err)
	}
	for _, name := range names {
		data, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, data)
	}
	return all
}

// TestScaledDecode: on photographs at the limit of the rule, the result of a smaller decode is
// close to that of filtering everything; with half the margin the difference would be twice as
// large.
func TestScaledDecode(t *testing.T) {
	for i, data := range photos(t, 2) {
		p := newPicture(t, data)
		for scale, size := range map[int][2]int{2: {93, 125}, 4: {46, 62}, 8: {23, 31}} {
			choose := func(by int) resample.Transform {
				o := resample.Options{Mode: resample.Stretch, Height: size[0] * by, Width: size[1] * by}
				return o.Choose(0, 0, 375, 500)
			}
			tr := choose(1)
			if tr.Scale() != scale {
				t.Fatalf("%v is decoded at 1/%d, not 1/%d", size, tr.Scale(), scale)
			}
			mean, most := difference(p.resized(t, tr, scale, true), p.resized(t, tr, 1, true))
			if mean > 2.2 || most > 25 || mean == 0 {
				t.Errorf("photo %d at 1/%d: %.2f levels on average, %d at most", i, scale, mean, most)
			}
			half, _ := difference(p.resized(t, choose(2), scale, true), p.resized(t, choose(2), 1, true))
			if half < 1.2*mean {
				t.Errorf("photo %d at 1/%d: %.2f levels on average, and with half the margin %.2f", i, scale, mean, half)
			}
			t.Logf("photo %d at 1/%d: %.2f levels on average, %d at most; %.2f with half the margin", i, scale, mean, most, half)
		}
	}
}

// TestScaledGeometry: in a smooth picture a decode at a scale could only move pixels, and it
// does not: for every orientation, for sides that are not a multiple of the scale, and any
// window. (At a window's border, a pixel that it cuts shows a little of what is beyond.)
func TestScaledGeometry(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	worstWithout := 0
	for orientation := 1; orientation <= 8; orientation++ {
		for range 3 {
			w, h := 240+r.IntN(60), 240+r.IntN(60)
			p := newPicture(t, smooth(w, h, orientation))
			uh, uw := p.header.Size(false)
			o := resample.Options{
				Mode: []resample.Mode{resample.Stretch, resample.NotSmaller, resample.RandomResizedCrop}[r.IntN(3)], Height: 12, Width: 12,
				CropArea: [2]float64{0.3, 1}, CropRatio: [2]float64{0.7, 1.4}, Seed: r.Uint64(),
			}
			tr := o.Choose(0, 0, uh, uw)
			full := p.resized(t, tr, 1, true)
			for _, scale := range []int{2, 4, 8} {
				if _, most := difference(p.resized(t, tr, scale, true), full); most > 6 {
					t.Errorf("orientation %d of %dx%d, %+v at 1/%d: %d levels", orientation, w, h, tr, scale, most)
				}
				_, most := difference(p.resized(t, tr, scale, false), full)
				worstWithout = max(worstWithout, most)
			}
		}
	}
	t.Logf("%d levels without the offsets of mirrored images", worstWithout)
	if worstWithout < 12 {
		t.Errorf("%d levels without the offsets: this test sees nothing", worstWithout)
	}
}

// smooth is a JPEG of slow waves, with an orientation.
func smooth(w, h, orientation int) []byte {
	m := image.NewGray(image.Rect(0, 0, w, h))
	for y := range h {
		for x := range w {
			m.SetGray(x, y, color.Gray{Y: uint8(128 + 110*math.Sin(float64(x)/40+1)*math.Cos(float64(y)/47))})
		}
	}
	var b bytes.Buffer
	if err := jpeg.Encode(&b, m, &jpeg.Options{Quality: 100}); err != nil {
		panic(err)
	}
	exif := []byte("\xff\xe1\x00\x22Exif\x00\x00II*\x00\x08\x00\x00\x00\x01\x00\x12\x01\x03\x00\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00")
	exif[28] = byte(orientation)
	return append(append([]byte("\xff\xd8"), exif...), b.Bytes()[2:]...)
}
