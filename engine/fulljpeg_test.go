package engine

import (
	"bytes"
	"image"
	"image/color"
	"image/jpeg"
	"os"
	"path/filepath"
	"testing"

	"github.com/batchfs/batchfs/decode"
	"github.com/batchfs/batchfs/decode/resample"
	"github.com/batchfs/batchfs/layout"
)

// twoDirs writes the same image twice: as a JPEG and, in another directory, as the pixels
// that the JPEG decodes to at full size.
func twoDirs(t *testing.T) (jpegs, decoded string) {
	t.Helper()
	const height, width = 203, 301
	img := image.NewRGBA(image.Rect(0, 0, width, height))
	for y := range height {
		for x := range width {
			img.SetRGBA(x, y, color.RGBA{byte(7 * x), byte(11 * y), byte(5 * (x ^ y)), 255})
		}
	}
	var out bytes.Buffer
	if err := jpeg.Encode(&out, img, nil); err != nil {
		t.Fatal(err)
	}
	jpegs, decoded = t.TempDir(), t.TempDir()
	if err := os.WriteFile(filepath.Join(jpegs, "a.jpg"), out.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	h, err := decode.ReadHeader(out.Bytes(), true)
	if err != nil {
		t.Fatal(err)
	}
	d := decode.NewDecoder(decode.Options{})
	defer d.Close()
	pixels := make([]byte, height*width*3)
	if err := d.Decode(decode.Image{Pix: pixels, Stride: 3 * width, Height: height, Width: width}, out.Bytes(), h); err != nil {
		t.Fatal(err)
	}
	writePPM(t, filepath.Join(decoded, "a.ppm"), height, width, pixels)
	return jpegs, decoded
}

// TestFullJPEGs: with the option, a JPEG that shrinks gives the same pixels as filtering
// its full-size decoding. Without it, the JPEG is decoded at a smaller scale first, which
// gives different pixels. The fingerprints differ.
func TestFullJPEGs(t *testing.T) {
	jpegs, decoded := twoDirs(t)
	full := func(o *Options) { o.FullJPEGs = true }
	all := openDataset(t, decoded)
	ds := openDataset(t, jpegs)
	for _, mode := range []resample.Mode{resample.Stretch, resample.NotLarger, resample.NotSmaller} {
		want := pixelsOf(t, transformed(t, all, mode), layout.NHWCForm)
		exact, scaled := transformed(t, ds, mode, full), transformed(t, ds, mode)
		if got := pixelsOf(t, exact, layout.NHWCForm); !bytes.Equal(bytes.Join(got, nil), bytes.Join(want, nil)) {
			t.Errorf("%s: not the pixels of filtering the whole image", mode)
		}
		if got := pixelsOf(t, scaled, layout.NHWCForm); bytes.Equal(bytes.Join(got, nil), bytes.Join(want, nil)) {
			t.Errorf("%s: decoding smaller first changes nothing: the test can see nothing", mode)
		}
		if exact.catalog.Fingerprint == scaled.catalog.Fingerprint {
			t.Errorf("%s: one fingerprint for two kinds of pixels", mode)
		}
		if _, there := scaled.catalog.Settings()["jpeg_scaling"]; there {
			t.Errorf("%s: the default is in the fingerprint, which was older than the option", mode)
		}
	}
}
