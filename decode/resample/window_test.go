package resample

import (
	"math"
	"math/rand/v2"
	"testing"
)

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
