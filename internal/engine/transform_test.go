package engine

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"image"
	"image/jpeg"
	"image/png"
	"math"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"testing"

	"github.com/batchfs/batchfs/decode"
	"github.com/batchfs/batchfs/decode/resample"
	"github.com/batchfs/batchfs/internal/catalog"
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

// cutJPEG is a gray JPEG with an end marker, but without its last rows.
func cutJPEG(t testing.TB, h, w, missing int) []byte {
	t.Helper()
	img := image.NewGray(image.Rect(0, 0, w, h))
	for i := range img.Pix {
		img.Pix[i] = byte(128 + 90*math.Sin(float64(i%w+2*(i/w))/9))
	}
	var out bytes.Buffer
	testkit.Must(t, jpeg.Encode(&out, img, &jpeg.Options{Quality: 95}))
	return append(out.Bytes()[:out.Len()-missing], 0, 0xff, 0xd9)
}

// TestCropsOfACutImage: the missing part of an image may lie outside the crop of one epoch
// and inside that of another. Which epochs can show it must not depend on what was read
// before.
func TestCropsOfACutImage(t *testing.T) {
	const epochs = 40
	dir := t.TempDir()
	writeFile(t, filepath.Join(dir, "0.jpg"), cutJPEG(t, 48, 64, 60))
	writePPM(t, filepath.Join(dir, "1.ppm"), 3, 4, picture(1, 3, 4))
	for _, policy := range []catalog.OnError{Fail, Replace, Zero} {
		engine := func() *Engine {
			return start(t, dir, func(o *Options) {
				o.BatchSize, o.Epochs, o.PrefetchDepth, o.OnError, o.Anonymous = 1, epochs, 0, policy, true
				o.Transform.Mode, o.Transform.Height, o.Transform.Width = resample.RandomResizedCrop, 8, 8
				o.Transform.CropArea, o.Transform.CropRatio = resample.DefaultCropArea, resample.DefaultCropRatio
			})
		}
		look := func(e *Engine, epoch int) string {
			f, err := e.Open(context.Background(), Key{Epoch: epoch}, layout.NHWCForm)
			if errors.Is(err, ErrBad) {
				return "bad"
			}
			testkit.Must(t, err)
			defer f.Close()
			return fmt.Sprint(samplesOf(t, e, Key{Epoch: epoch})[0].Status, f.Bytes())
		}
		var alone [epochs]string // by an engine that has read nothing else
		kinds := map[bool]int{}
		for epoch := range alone {
			e := engine()
			alone[epoch] = look(e, epoch)
			kinds[len(e.Errors()) > 0]++
			e.Close()
		}
		if whole := kinds[true]; strings.Contains(decode.Version(), "libjpeg") && (whole == 0 || whole == epochs) {
			t.Fatalf("%d epochs of %d look at what is missing", whole, epochs)
		}
		for name, order := range map[string][]int{"forwards": forwards(epochs), "backwards": backwards(epochs)} {
			e := engine()
			for _, epoch := range order {
				if got := look(e, epoch); got != alone[epoch] {
					t.Errorf("%s, %s: epoch %d is %.40s, and alone %.40s", policy, name, epoch, got, alone[epoch])
				}
			}
			if n := len(e.Errors()); n > 1 {
				t.Errorf("%s, %s: %d lines about one file", policy, name, n)
			}
			e.Close()
		}
	}
}

// TestCropsOfADamagedImage: a PNG with a wrong checksum is corrupt whatever its crop shows,
// because there is no telling which of its pixels are wrong.
func TestCropsOfADamagedImage(t *testing.T) {
	dir := t.TempDir()
	img := &image.NRGBA{Pix: make([]byte, 64*64*4), Stride: 64 * 4, Rect: image.Rect(0, 0, 64, 64)}
	r := rand.New(rand.NewPCG(1, 1))
	for i := range img.Pix {
		if img.Pix[i] = byte(r.Uint32()); i%4 == 3 {
			img.Pix[i] = 255
		}
	}
	var out bytes.Buffer
	testkit.Must(t, png.Encode(&out, img))
	data := out.Bytes()
	data[len(data)/2] ^= 0x10
	writeFile(t, filepath.Join(dir, "0.png"), data)
	for _, size := range [][2]int{{64, 64}, {8, 24}, {24, 8}, {2, 200}, {1, 1}} {
		e := start(t, dir, func(o *Options) {
			o.BatchSize, o.Anonymous = 1, true
			o.Transform.Mode, o.Transform.Height, o.Transform.Width = resample.NotSmaller, size[0], size[1]
		})
		fails(t, e, Key{}, layout.NHWCForm, ErrBad)
	}
}
