package engine

import (
	"bytes"
	"fmt"
	"path/filepath"
	"testing"

	"github.com/batchfs/batchfs/decode"
	"github.com/batchfs/batchfs/decode/resample"
	"github.com/batchfs/batchfs/internal/dataset"
	"github.com/batchfs/batchfs/internal/testkit"
	"github.com/batchfs/batchfs/layout"
)

// transformed starts an engine over an open dataset.
func transformed(t testing.TB, ds *dataset.Dataset, mode resample.Mode, change ...func(*Options)) *Engine {
	t.Helper()
	o := testOptions()
	o.Anonymous, o.Transform.Mode, o.Epochs, o.Shuffle, o.Fill = true, mode, 2, true, 77
	o.Transform.CropArea, o.Transform.CropRatio = resample.DefaultCropArea, resample.DefaultCropRatio
	if mode != resample.None {
		o.Transform.Height, o.Transform.Width, o.Transform.ResizeTo = transformHeight, transformWidth, transformWidth+4
	}
	for _, f := range change {
		f(&o)
	}
	e, err := build(ds, o)
	testkit.Must(t, err)
	e.start()
	t.Cleanup(func() { e.Close() })
	return e
}

// pixelsOf returns the tensors of all batches, in one of the orders.
func pixelsOf(t testing.TB, e *Engine, form layout.Form) (all [][]byte) {
	t.Helper()
	for _, k := range allKeys(e) {
		all = append(all, read(t, e, k, form)[layout.DataOffset(form, e.catalog.Spec(k)):])
	}
	return all
}

// TestChoicesBelongToSamples: within an epoch a sample looks the same in any position, and
// it looks different in another epoch.
func TestChoicesBelongToSamples(t *testing.T) {
	ds := openDataset(t, jpegDir(t, 10))
	type sight struct {
		epoch int
		id    int64
	}
	seen := func(change ...func(*Options)) map[sight]string {
		e := transformed(t, ds, resample.RandomResizedCrop, append(change, func(o *Options) { o.Transform.Flip = 0.5 })...)
		all := map[sight]string{}
		for _, k := range allKeys(e) {
			pixels, each := read(t, e, k, layout.NHWCForm), int(e.catalog.Spec(k).SampleBytes())
			for i, s := range samplesOf(t, e, k) {
				how := fmt.Sprint(s.Crop, s.Flip, pixels[i*each:(i+1)*each])
				if before := all[sight{k.Epoch, s.ID}]; before != "" && before != how {
					t.Errorf("%s, slot %d: sample %d was seen otherwise in the same epoch", k, i, s.ID)
				}
				all[sight{k.Epoch, s.ID}] = how
			}
		}
		return all
	}
	want := seen()
	for i, change := range []func(*Options){
		func(o *Options) { o.Shuffle = false },
		func(o *Options) { o.BatchSize, o.Workers = 7, 5 },
		func(o *Options) { o.Shards, o.BatchSize, o.StickToShard = 3, 2, true },
		func(o *Options) { o.Shards = 5 },
	} {
		for at, how := range seen(change) {
			if how != want[at] {
				t.Errorf("change %d: sample %d of epoch %d looks different", i, at.id, at.epoch)
			}
		}
	}
	other := 0
	for at, how := range want {
		if how != want[sight{1 - at.epoch, at.id}] {
			other++
		}
	}
	if other < len(want)/2 {
		t.Errorf("of %d samples, only %d look different in another epoch", len(want), other)
	}
}

// twoDirs has the same image twice: as a JPEG and, in another directory, as the pixels that the
// JPEG decodes to at full size.
func twoDirs(t *testing.T) (jpegs, decoded string) {
	t.Helper()
	jpegs, decoded = jpegDir(t, 1), t.TempDir()
	file := contents(t, filepath.Join(jpegs, "00.jpg"))
	h, err := decode.ReadHeader(file, true)
	testkit.Must(t, err)
	d := decode.NewDecoder(decode.Options{})
	defer d.Close()
	pixels := make([]byte, h.Height*h.Width*3)
	testkit.Must(t, d.Decode(decode.Image{Pix: pixels, Stride: 3 * h.Width, Height: h.Height, Width: h.Width}, file, h))
	writePPM(t, filepath.Join(decoded, "a.ppm"), h.Height, h.Width, pixels)
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
