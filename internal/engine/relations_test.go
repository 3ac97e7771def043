package engine

import (
	"bytes"
	"fmt"
	"image"
	"image/color"
	"image/jpeg"
	"path/filepath"
	"slices"
	"testing"

	"github.com/batchfs/batchfs/decode"
	"github.com/batchfs/batchfs/decode/resample"
	"github.com/batchfs/batchfs/internal/dataset"
	"github.com/batchfs/batchfs/internal/testkit"
	"github.com/batchfs/batchfs/layout"
)

// Package integration checks pixels against a reference. The tests here check relations between
// settings: how the result of one follows from that of another, and that settings which do not
// concern pixels do not change them.

const transformHeight, transformWidth = 16, 21

var (
	transformModes  = []resample.Mode{resample.None, resample.Stretch, resample.NotLarger, resample.NotSmaller, resample.CenterCrop, resample.RandomResizedCrop}
	transformDTypes = []layout.DType{layout.Uint8, layout.Float16, layout.BFloat16, layout.Float32}
)

// transformDir has images of a single pixel, row and column, of extreme proportions, and
// smaller, larger and equal to the target size, plus JPEGs that are decoded at a smaller
// scale.
func transformDir(t testing.TB) string {
	t.Helper()
	dir := t.TempDir()
	for i, size := range [][2]int{{1, 1}, {1, 40}, {33, 1}, {transformHeight, transformWidth}, {5, 4}, {61, 47}, {2, 90}, {40, 42}} {
		writePPM(t, filepath.Join(dir, fmt.Sprintf("%02d.ppm", i)), size[0], size[1], picture(i, size[0], size[1]))
	}
	for i, size := range [][2]int{{50, 70}, {101, 147}} {
		img := image.NewRGBA(image.Rect(0, 0, size[1], size[0]))
		for y := range size[0] {
			for x := range size[1] {
				img.SetRGBA(x, y, color.RGBA{byte(2 * x), byte(3 * y), byte(x + y), 255})
			}
		}
		var out bytes.Buffer
		testkit.Must(t, jpeg.Encode(&out, img, nil))
		writeFile(t, filepath.Join(dir, fmt.Sprintf("9%d.jpg", i)), out.Bytes())
	}
	return dir
}

// eachTransform runs a test for every mode and color.
func eachTransform(t *testing.T, test func(t *testing.T, ds *dataset.Dataset, mode resample.Mode, c decode.Color)) {
	ds := openDataset(t, transformDir(t))
	for _, mode := range transformModes {
		for _, c := range []decode.Color{decode.RGB, decode.Gray} {
			t.Run(fmt.Sprintf("%s/%d channels", mode, c.Channels()), func(t *testing.T) { test(t, ds, mode, c) })
		}
	}
}

// TestFlipMirrors: with a flip probability of 1 every sample is mirrored. With 1/2 each
// sample is mirrored or not, as its document says. Margins stay in place.
func TestFlipMirrors(t *testing.T) {
	eachTransform(t, func(t *testing.T, ds *dataset.Dataset, mode resample.Mode, c decode.Color) {
		never, always, half := transformed(t, ds, mode, func(o *Options) { o.Decoding.Color = c }),
			transformed(t, ds, mode, func(o *Options) { o.Decoding.Color, o.Transform.Flip = c, 1 }),
			transformed(t, ds, mode, func(o *Options) { o.Decoding.Color, o.Transform.Flip = c, 0.5 })
		flips := map[bool]int{}
		for _, k := range allKeys(never) {
			spec := never.catalog.Spec(k)
			a, b, ab := read(t, never, k, layout.NHWCForm), read(t, always, k, layout.NHWCForm), read(t, half, k, layout.NHWCForm)
			each := int(spec.SampleBytes())
			for i, s := range samplesOf(t, half, k) {
				plain, mirrored, got := a[i*each:(i+1)*each], b[i*each:(i+1)*each], ab[i*each:(i+1)*each]
				if want := mirror(plain, spec, int(s.Height), int(s.Width)); !bytes.Equal(mirrored, want) {
					t.Errorf("%s, slot %d, %s: no mirror image", k, i, never.catalog.Dataset.Path(int(s.ID)))
				}
				if flips[s.Flip]++; s.Flip && !bytes.Equal(got, mirrored) || !s.Flip && !bytes.Equal(got, plain) {
					t.Errorf("%s, slot %d, %s: said to be flipped: %v, but is not so", k, i, never.catalog.Dataset.Path(int(s.ID)), s.Flip)
				}
				if never, always := samplesOf(t, never, k)[i], samplesOf(t, always, k)[i]; never.Flip || !always.Flip || never.Crop != always.Crop || never.Crop != s.Crop {
					t.Errorf("%s, slot %d: %+v, %+v and %+v", k, i, never, always, s)
				}
			}
		}
		if flips[false] < 3 || flips[true] < 3 {
			t.Errorf("flips: %v", flips)
		}
	})
}

// mirror returns a slot with its valid pixels mirrored.
func mirror(slot []byte, s layout.Spec, h, w int) []byte {
	out := bytes.Clone(slot)
	for y := range h {
		for x := range w {
			copy(out[(y*s.W+x)*s.C:][:s.C], slot[(y*s.W+w-1-x)*s.C:])
		}
	}
	return out
}

// TestDTypesAndLayouts: for every type, order, form and engine setting, each element equals
// the converted byte.
func TestDTypesAndLayouts(t *testing.T) {
	turn := 0
	eachTransform(t, func(t *testing.T, ds *dataset.Dataset, mode resample.Mode, c decode.Color) {
		for _, flip := range []float64{0, 0.5} {
			settings := func(o *Options) { o.Decoding.Color, o.Transform.Flip = c, flip }
			e := transformed(t, ds, mode, settings)
			keys, bytewise := allKeys(e), pixelsOf(t, e, layout.NHWCForm)
			for _, dtype := range transformDTypes {
				for _, order := range []layout.Order{layout.NHWC, layout.NCHW} {
					turn++
					e := transformed(t, ds, mode, settings, func(o *Options) {
						o.DType, o.Layout, o.Workers, o.PrefetchDepth, o.BatchWorkers = dtype, order, 1+7*(turn%2), turn/2%4, 1+turn%3
						if dtype != layout.Uint8 {
							o.Normalize = transformNorm(c)
						}
					})
					for i, k := range keys {
						spec := e.catalog.Spec(k)
						nhwc := elements(bytewise[i], dtype)
						nchw := make([]byte, len(nhwc))
						layout.Turn(nchw, layout.NCHW, nhwc, layout.Spec{N: spec.N, H: spec.H, W: spec.W, C: spec.C, DType: dtype}, 0)
						for _, form := range []layout.Form{layout.NPY, layout.NCHWForm, layout.NHWCForm, layout.SafeTensors}[turn%2:][:3] {
							want := nhwc
							if form.OrderOf(order) == layout.NCHW {
								want = nchw
							}
							got := read(t, e, k, form)
							start := layout.DataOffset(form, spec)
							if !bytes.Equal(got[start:start+spec.Bytes()], want) {
								t.Errorf("flip %g, %s, %s: %s.%s has other elements", flip, dtype, order, k, form.Ext())
							}
						}
					}
					e.Close()
				}
			}
		}
	})
}

// transformNorm gives quotients that float32 and float16 represent exactly, and bfloat16
// does not.
func transformNorm(c decode.Color) layout.Normalization {
	return layout.Normalization{Mean: slices.Repeat([]float64{127.5}, c.Channels()), Std: slices.Repeat([]float64{64}, c.Channels())}
}

// TestKernelsMakeTheSameBytes: every mode and dtype gives the same bytes with any CPU features, few
// workers or many, reading forwards or backwards, and with nothing cached. So do copies in the
// other order of axes.
func TestKernelsMakeTheSameBytes(t *testing.T) {
	ds := openDataset(t, transformDir(t))
	kernels := append(resample.Kernels(), decode.Fastest)
	forms := []layout.Form{layout.NHWCForm, layout.NCHWForm}
	for m, mode := range transformModes {
		for d, dtype := range transformDTypes {
			var first [][]byte
			for i, k := range kernels {
				e := transformed(t, ds, mode, func(o *Options) {
					o.Decoding.Kernel = k
					o.Transform.Flip, o.DType, o.Workers, o.PrefetchDepth, o.BatchWorkers = 0.5, dtype, 1+7*(i%2), 1+3*(i/2%2), 1+i%2
					if o.Decoding.Color = decode.Color((m + d) % 2); dtype != layout.Uint8 {
						o.Normalize = transformNorm(o.Decoding.Color)
					}
				})
				all := make([][]byte, len(allKeys(e)))
				order := forwards(len(all))
				if i%3 == 1 {
					order = backwards(len(all))
				}
				for _, at := range order {
					all[at] = readBoth(t, e, allKeys(e)[at], forms[(m+d)/2%2], forms[1-(m+d)/2%2])
				}
				e.Close()
				if first == nil {
					first = all
				}
				if n := slices.IndexFunc(forwards(len(all)), func(n int) bool { return !bytes.Equal(all[n], first[n]) }); n >= 0 {
					t.Errorf("%s, %s: with the kernel %s, batch %d has other bytes than with others", mode, dtype, k, n)
				}
			}
		}
	}
}

// readBoth returns the bytes of a batch that is made in one form, followed by those of its
// copy in another.
func readBoth(t testing.TB, e *Engine, k Key, made, copied layout.Form) []byte {
	t.Helper()
	f := open(t, e, k, made)
	defer f.Close() // so the copy is of this batch
	return append(bytes.Clone(f.Bytes()), read(t, e, k, copied)...)
}
