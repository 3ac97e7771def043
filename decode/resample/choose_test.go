package resample

import (
	"errors"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/batchfs/batchfs/internal/option"
	"github.com/batchfs/batchfs/internal/testkit"
)

func TestSizes(t *testing.T) {
	for _, v := range []struct {
		mode          Mode
		height, width int
		h, w          int
		oh, ow        int
		crop          [4]float64
	}{
		{None, 0, 0, 375, 500, 375, 500, [4]float64{0, 0, 375, 500}},
		{None, 10, 10, 7, 5, 7, 5, [4]float64{0, 0, 7, 5}},
		{Stretch, 224, 320, 375, 500, 224, 320, [4]float64{0, 0, 375, 500}},
		{Stretch, 4, 4, 1, 1, 4, 4, [4]float64{0, 0, 1, 1}},
		{NotLarger, 224, 224, 375, 500, 168, 224, [4]float64{0, 0, 375, 500}},
		{NotLarger, 224, 224, 500, 375, 224, 168, [4]float64{0, 0, 500, 375}},
		{NotLarger, 10, 20, 10, 21, 10, 20, [4]float64{0, 0, 10, 21}}, // 9.52
		{NotLarger, 4, 4, 4, 8, 2, 4, [4]float64{0, 0, 4, 8}},
		{NotLarger, 2, 4, 5, 2, 2, 1, [4]float64{0, 0, 5, 2}},               // 0.8
		{NotLarger, 3, 3, 4, 2, 3, 2, [4]float64{0, 0, 4, 2}},               // 1.5: halves up
		{NotLarger, 224, 224, 1, 20000, 1, 224, [4]float64{0, 0, 1, 20000}}, // 0.01
		{NotLarger, 224, 224, 20000, 1, 224, 1, [4]float64{0, 0, 20000, 1}},
		{NotLarger, 6, 9, 2, 3, 6, 9, [4]float64{0, 0, 2, 3}},
		{NotSmaller, 224, 224, 256, 256, 224, 224, [4]float64{0, 0, 256, 256}},
		{NotSmaller, 256, 256, 500, 250, 256, 256, [4]float64{125, 0, 250, 250}},
		{NotSmaller, 100, 100, 100, 132, 100, 100, [4]float64{0, 16, 100, 100}},
		{NotSmaller, 100, 100, 100, 101, 100, 100, [4]float64{0, 1, 100, 100}}, // half of 1 rounds up
		{NotSmaller, 100, 100, 103, 100, 100, 100, [4]float64{2, 0, 100, 100}},
		{NotSmaller, 100, 100, 50, 51, 100, 100, [4]float64{0, 0.5, 50, 50}},
		{NotSmaller, 3, 3, 4, 2, 3, 3, [4]float64{1. * 4 / 6 * 2, 0, 2, 2}},                               // 6x3, 3 too many
		{NotSmaller, 224, 224, 500, 375, 224, 224, [4]float64{38. * 500 / 299, 0, 224. * 500 / 299, 375}}, // 298.7
		{NotSmaller, 224, 224, 20000, 1, 224, 224, [4]float64{9999.5, 0, 1, 1}},
		{CenterCrop, 224, 224, 256, 256, 224, 224, [4]float64{16, 16, 224, 224}},
		{CenterCrop, 224, 224, 256, 341, 224, 224, [4]float64{16, 58, 224, 224}}, // half of 117 is 58.5
		{CenterCrop, 224, 224, 256, 343, 224, 224, [4]float64{16, 60, 224, 224}}, // half of 119 is 59.5
		{CenterCrop, 224, 224, 512, 512, 224, 224, [4]float64{32, 32, 448, 448}},
		{CenterCrop, 224, 256, 256, 512, 224, 256, [4]float64{16, 128, 224, 256}},
		{CenterCrop, 256, 256, 3, 4, 256, 256, [4]float64{0, 42. * 4 / 341, 3, 256. * 4 / 341}}, // 341.3
		{CenterCrop, 224, 224, 20000, 1, 224, 224, [4]float64{2559888. / 256, 16. / 256, 224. / 256, 224. / 256}},
	} {
		o := Options{Mode: v.mode, Height: v.height, Width: v.width, ResizeTo: 256}
		testkit.Must(t, o.Validate())
		if oh, ow := o.Size(v.h, v.w); oh != v.oh || ow != v.ow {
			t.Errorf("%v %dx%d of %dx%d is %dx%d, not %dx%d", v.mode, v.height, v.width, v.h, v.w, oh, ow, v.oh, v.ow)
		}
		tr := o.Choose(0, 0, v.h, v.w)
		if oh, ow := tr.Size(); oh != v.oh || ow != v.ow {
			t.Errorf("%v %dx%d of %dx%d: the transform makes %dx%d", v.mode, v.height, v.width, v.h, v.w, oh, ow)
		}
		for i := range v.crop {
			if math.Abs(tr.Crop[i]-v.crop[i]) > 1e-9 {
				t.Errorf("%v %dx%d of %dx%d shows %v, not %v", v.mode, v.height, v.width, v.h, v.w, tr.Crop, v.crop)
				break
			}
		}
	}
}

// TestSizeNeedsNoChance: Size returns the size of every Choose, and every choice is valid.
func TestSizeNeedsNoChance(t *testing.T) {
	sides := []int{1, 2, 3, 7, 223, 224, 225, 20000, 65500, 1 << 26}
	for mode := range numModes {
		o := randomCrop(1)
		o.Mode, o.Height, o.ResizeTo = mode, 97, 256
		for i, h := range sides {
			for j, w := range sides {
				oh, ow := o.Size(h, w)
				tr := o.Choose(i, int64(j), h, w)
				if th, tw := tr.Size(); th != oh || tw != ow || oh < 1 || ow < 1 {
					t.Errorf("%v of %dx%d: %dx%d and %dx%d", mode, h, w, oh, ow, th, tw)
				}
				if !tr.Y.sound() || !tr.X.sound() {
					t.Errorf("%v of %dx%d: %+v", mode, h, w, tr)
				}
				if y, x, sh, sw := tr.Source(); y < 0 || x < 0 || sh < 1 || sw < 1 || y+sh > h || x+sw > w {
					t.Errorf("%v of %dx%d: source %d,%d %dx%d", mode, h, w, y, x, sh, sw)
				}
				if mode == None && !tr.Copies() {
					t.Errorf("none does not copy %dx%d", h, w)
				}
			}
		}
	}
}

func TestValidate(t *testing.T) {
	good := randomCrop(0)
	for _, v := range []struct {
		change func(o *Options)
		field  string // "" for none
	}{
		{func(o *Options) {}, ""},
		{func(o *Options) { o.Mode = numModes }, "mode"},
		{func(o *Options) { o.Height = 0 }, "height"},
		{func(o *Options) { o.Height = -1 }, "height"},
		{func(o *Options) { o.Height, o.Width = 1, 1 }, ""},
		{func(o *Options) { o.Width = maxSide + 1 }, "width"},
		{func(o *Options) { o.Width = maxSide }, ""},
		{func(o *Options) { o.Mode, o.Height, o.Width = None, 0, -5 }, ""},
		{func(o *Options) { o.Mode, o.ResizeTo = CenterCrop, 224 }, ""},
		{func(o *Options) { o.Mode, o.ResizeTo = CenterCrop, 223 }, "resize to"},
		{func(o *Options) { o.Mode, o.ResizeTo, o.Width = CenterCrop, 256, 257 }, "resize to"},
		{func(o *Options) { o.Mode, o.ResizeTo = CenterCrop, maxSide+1 }, "resize to"},
		{func(o *Options) { o.Mode = CenterCrop }, "resize to"},
		{func(o *Options) { o.CropArea = [2]float64{0, 1} }, "crop area"},
		{func(o *Options) { o.CropArea = [2]float64{0.5, 1.5} }, "crop area"},
		{func(o *Options) { o.CropArea = [2]float64{0.5, 0.4} }, "crop area"},
		{func(o *Options) { o.CropArea = [2]float64{1, 1} }, ""},
		{func(o *Options) { o.CropArea[0] = math.NaN() }, "crop area"},
		{func(o *Options) { o.CropRatio = [2]float64{-1, 1} }, "crop ratio"},
		{func(o *Options) { o.CropRatio = [2]float64{2, 1} }, "crop ratio"},
		{func(o *Options) { o.CropRatio = [2]float64{1, 1} }, ""},
		{func(o *Options) { o.CropRatio = [2]float64{1. / maxRatio, maxRatio} }, ""},
		{func(o *Options) { o.CropRatio[0] = 0.99 / maxRatio }, "crop ratio"},
		{func(o *Options) { o.CropRatio[1] = 1.01 * maxRatio }, "crop ratio"},
		{func(o *Options) { o.CropRatio[1] = math.Inf(1) }, "crop ratio"},
		{func(o *Options) { o.CropRatio[1] = math.NaN() }, "crop ratio"},
		{func(o *Options) { o.Mode, o.CropRatio, o.CropArea = Stretch, [2]float64{}, [2]float64{} }, ""},
		{func(o *Options) { o.Flip = 1.01 }, "flip"},
		{func(o *Options) { o.Flip = math.NaN() }, "flip"},
		{func(o *Options) { o.Flip = 1 }, ""},
		{func(o *Options) { o.Flip = 0 }, ""},
		{func(o *Options) { o.Flip = -0.01 }, "flip"},
	} {
		o := good
		v.change(&o)
		var invalid *option.Error
		err := o.Validate()
		if (err == nil) != (v.field == "") || err != nil && !(errors.As(err, &invalid) && invalid.Field == v.field) {
			t.Errorf("%+v: %v", o, err)
		}
	}
}

// TestModes: every mode has a name of its own.
func TestModes(t *testing.T) {
	names := map[string]bool{}
	for m := range numModes {
		names[m.String()] = true
	}
	if len(names) != int(numModes) || !names["random-resized-crop"] || names[numModes.String()] {
		t.Error(names, numModes)
	}
}

// TestWindowsFit: windows always fit, and have an allowed ratio, to the rounding of a pixel.
func TestWindowsFit(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	for i := range 20000 {
		h, w := 1+r.IntN(40), 1+r.IntN(40)
		o := randomCrop(uint64(i))
		if i%3 == 0 {
			low := math.Exp(8 * (r.Float64() - 0.5))
			o.CropRatio = [2]float64{low, low * (1 + r.Float64())}
			o.CropArea = [2]float64{r.Float64() + 1e-9, 1}
		}
		win := o.window(draws{key: o.Seed}, h, w)
		if win.y < 0 || win.x < 0 || win.h < 1 || win.w < 1 || win.y+win.h > h || win.x+win.w > w {
			t.Fatalf("%+v of %dx%d", win, h, w)
		}
		low := (float64(win.w) + 1) / math.Max(float64(win.h)-1, 1e-9)
		high := math.Max(float64(win.w)-1, 0) / (float64(win.h) + 1)
		if low < o.CropRatio[0] || high > o.CropRatio[1] {
			t.Fatalf("%+v of %dx%d with a ratio of %v", win, h, w, o.CropRatio)
		}
	}
}

// TestFlips: samples are flipped as often as requested, including never and always, and not alike
// for the next sample or in the next epoch. (TestGoldenChoices says which numbers decide.)
func TestFlips(t *testing.T) {
	for _, p := range []float64{0, 0.1, 0.5, 0.9, 1} {
		const n = 20000
		o := Options{Flip: p, Seed: 3}
		flip := func(epoch, i int) bool { return o.Choose(epoch, int64(i), 9, 9).Flip }
		flips, nextSample, nextEpoch := 0.0, 0.0, 0.0
		for i := range n {
			if flip(0, i) {
				flips++
				if flip(0, i+1) {
					nextSample++
				}
				if flip(1, i) {
					nextEpoch++
				}
			}
		}
		for what, got := range map[string]float64{"samples": flips / n / max(p, 1e-9), "next ones": nextSample / n / max(p*p, 1e-9), "in the next epoch": nextEpoch / n / max(p*p, 1e-9)} {
			if p == 1 && got != 1 || p > 0 && math.Abs(got-1) > 0.2 || p == 0 && got > 0 {
				t.Errorf("with a probability of %v, %.3f as many %s are flipped", p, got, what)
			}
		}
	}
}

// TestChoicesStandAlone: the flip is the same in every mode and at every size, the window is the
// same whatever the output size and the flip probability.
func TestChoicesStandAlone(t *testing.T) {
	for i := range 200 {
		o := randomCrop(99)
		o.Flip = 0.5
		want := o.Choose(i, int64(i*i), 375, 500)
		for mode := range numModes {
			other := Options{Mode: mode, Height: 1 + i, Width: 7, ResizeTo: 256, Flip: 0.5, Seed: 99, CropArea: [2]float64{0.5, 0.6}, CropRatio: [2]float64{1, 1}}
			if got := other.Choose(i, int64(i*i), 11, 1000); got.Flip != want.Flip {
				t.Errorf("%v: sample %d is not flipped as with %v", mode, i*i, o.Mode)
			}
		}
		o.Flip, o.Height, o.Width = 0, 17, 1000
		if got := o.Choose(i, int64(i*i), 375, 500); got.Crop != want.Crop {
			t.Errorf("sample %d: the window is %v and %v", i*i, got.Crop, want.Crop)
		}
		if next := o.Choose(i+1, int64(i*i), 375, 500); next.Crop == want.Crop {
			t.Errorf("sample %d: the same window in the next epoch", i*i)
		}
	}
}
