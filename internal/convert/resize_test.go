package convert

import (
	"bytes"
	"testing"

	"github.com/batchfs/batchfs/decode"
	"github.com/batchfs/batchfs/decode/resample"
	"github.com/batchfs/batchfs/internal/dataset"
	"github.com/batchfs/batchfs/internal/pixels"
	"github.com/batchfs/batchfs/internal/sample"
	"github.com/batchfs/batchfs/internal/testkit"
)

// TestStoredShrunk: resizing shows the same pixels for images stored at that size as for the
// originals.
func TestStoredShrunk(t *testing.T) {
	path := mixed(t)
	for mode, format := range map[resample.Mode]Format{resample.Stretch: PPM, resample.NotLarger: BMP, resample.NotSmaller: PPM} {
		o := resample.Options{Mode: mode, Height: 56, Width: 40}
		out, r := convert(t, path, Options{Shares: Shares{Raw: 1}, Format: format, Resize: mode, Height: o.Height, Width: o.Width})
		was, is := open(t, path), open(t, out)
		want, got := resized(t, was, o), resized(t, is, o)
		if r.Converted != is.Len()-r.AlreadyRaw {
			t.Errorf("%v: reported %+v", mode, r)
		}
		for i := range is.Len() {
			if !bytes.Equal(got[i], want[i]) {
				t.Errorf("%v: %s shows other pixels", mode, is.Path(i))
			}
			if height, width := is.Size(i, false); is.Path(i) != was.Path(i) && (height > o.Height || width > o.Width) {
				t.Fatalf("%v: %s is %dx%d", mode, is.Path(i), height, width)
			}
		}
	}
}

// resized are the pixels of all samples of a dataset as a mount shows them.
func resized(t *testing.T, ds *dataset.Dataset, o resample.Options) (all [][]byte) {
	t.Helper()
	r := sample.NewReader(ds, decode.Options{MaxPixels: decode.DefaultMaxPixels}, sample.NewMemory(0, 1))
	defer r.Close()
	for i := range ds.Len() {
		img, err := r.Read(t.Context(), i, 0)
		testkit.Must(t, err)
		pix := make([]byte, 3*o.Height*o.Width)
		testkit.Must(t, r.Draw(img, o.Choose(0, int64(i), img.Height, img.Width), pixels.Target{Pix: pix, Stride: 3 * o.Width}))
		all = append(all, pix)
	}
	return all
}

// TestIgnoredOrientation: raw samples can keep the orientation in which they are stored.
func TestIgnoredOrientation(t *testing.T) {
	path := mixed(t)
	out, _ := convert(t, path, Options{Shares: Shares{Raw: 1}, Format: PPM, IgnoreOrientation: true})
	was, is := open(t, path), open(t, out)
	turned := 0
	for i := range was.Len() {
		h, w := was.Size(i, true)
		if gotH, gotW := is.Size(i, false); gotH != h || gotW != w {
			t.Errorf("%s is %dx%d, stored were %dx%d", is.Path(i), gotH, gotW, h, w)
		}
		if uprightH, _ := was.Size(i, false); uprightH != h {
			turned++
		}
	}
	if turned == 0 {
		t.Error("no sample is turned")
	}
}
