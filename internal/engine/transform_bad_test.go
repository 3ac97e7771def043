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
	"github.com/batchfs/batchfs/internal/testkit"
	"github.com/batchfs/batchfs/layout"
)

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
