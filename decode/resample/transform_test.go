package resample

import (
	"math/rand/v2"
	"testing"
)

// someTransforms returns transforms of every mode, for h x w pixels.
func someTransforms(r *rand.Rand, h, w int) (all []Transform) {
	for mode := range numModes {
		o := randomCrop(r.Uint64())
		o.Mode, o.Height, o.Width, o.ResizeTo = mode, 1+r.IntN(60), 1+r.IntN(60), 60+r.IntN(20)
		all = append(all, o.Choose(0, 0, h, w))
	}
	return all
}

// TestSource: the source contains every pixel with a weight by the definition, and no further row
// or column, except through rounding.
func TestSource(t *testing.T) {
	r := rand.New(rand.NewPCG(9, 10))
	for range 200 {
		for _, tr := range someTransforms(r, 1+r.IntN(100), 1+r.IntN(100)) {
			y, x, h, w := tr.Source()
			for _, v := range []struct {
				a     Axis
				at, n int
			}{{tr.Y, y, h}, {tr.X, x, w}} {
				lo, hi := v.a.Hi, v.a.Lo
				for _, taps := range matrix(v.a) {
					for j, weight := range taps {
						if weight > 1e-6 {
							lo, hi = min(lo, j), max(hi, j+1)
						}
					}
				}
				if lo < v.at || hi > v.at+v.n || lo > v.at+1 || hi < v.at+v.n-1 {
					t.Errorf("%+v: source is [%d, %d), weights are in [%d, %d)", v.a, v.at, v.at+v.n, lo, hi)
				}
			}
		}
	}
	tr := Options{Mode: NotSmaller, Height: 8, Width: 8}.Choose(0, 0, 16, 64)
	if y, x, h, w := tr.Source(); y != 0 || x != 23 || h != 16 || w != 18 {
		t.Errorf("the middle 8 of 32 columns, of two pixels each, come from %d, %d, %d, %d", y, x, h, w)
	}
	// If a crop copies, the pixels next to it are not needed.
	tr = Options{Mode: NotSmaller, Height: 10, Width: 12}.Choose(0, 0, 10, 31)
	if y, x, h, w := tr.Source(); !tr.Copies() || y != 0 || x != 10 || h != 10 || w != 12 {
		t.Errorf("%+v takes %d, %d, %d, %d", tr, y, x, h, w)
	}
}

func TestScale(t *testing.T) {
	for _, v := range []struct{ h, w, want int }{
		{224, 224, 1}, {375, 500, 1}, {895, 2000, 1}, {896, 896, 2}, {2000, 895, 1}, {1791, 3000, 2},
		{1792, 1792, 4}, {3583, 3583, 4}, {3584, 3584, 8}, {60000, 60000, 8}, {10, 10, 1},
	} {
		tr := Options{Mode: Stretch, Height: 224, Width: 224}.Choose(0, 0, v.h, v.w)
		if got := tr.Scale(); got != v.want {
			t.Errorf("%dx%d is decoded at 1/%d, not 1/%d", v.h, v.w, got, v.want)
		}
	}
	if s := (Options{}).Choose(0, 0, 9999, 9999).Scale(); s != 1 {
		t.Errorf("what is copied is decoded at 1/%d", s)
	}
}

// TestReduced tests where pixels are in the smaller image.
func TestReduced(t *testing.T) {
	tr := Transform{Y: Axis{Start: 17, Step: 8, Lo: 17, Hi: 17 + 160, N: 20}, X: Axis{Start: 24.5, Step: 4, Lo: 3, Hi: 403, N: 90}}
	got := tr.Reduced(4, 0, 0.75)
	want := Transform{Y: Axis{Start: 4.25, Step: 2, Lo: 4, Hi: 45, N: 20}, X: Axis{Start: 6.875, Step: 1, Lo: 1, Hi: 102, N: 90}}
	if got != want {
		t.Errorf("%+v, not %+v", got, want)
	}
	if same := tr.Reduced(1, 0, 0); same != tr {
		t.Errorf("at 1/1 it is %+v", same)
	}
	// If a side is not a multiple of the scale, the partial pixel is the smaller image's last
	// one, and the mirrored image's first.
	side := fit(0, 1001, 10)
	if a := side.reduced(8, 0); a.Hi != 126 || a.Start != 0 {
		t.Errorf("%+v", a)
	}
	if a := side.reduced(8, 7./8); a.Hi != 126 || a.Lo != 0 || a.Start != 7./8 {
		t.Errorf("%+v", a)
	}
}

// TestWideWeights: weights add up, fall from the middle to both sides, and do not overflow,
// whatever their number.
func TestWideWeights(t *testing.T) {
	for _, n := range []int{2, 3, 1000, 1<<20 + 1, 1 << 22} {
		f := fit(0, n, 1).filter()
		lo, hi, _ := f.taps(0)
		sum, last, next := int64(0), int64(0), lo
		f.each(0, wideDown, func(j int, weight int64) {
			if j != next {
				t.Fatalf("pixel %d comes before pixel %d", j, next)
			}
			next++
			sum += weight
			if rises := 2*j+1 <= n; weight < 0 || rises && weight < last-1 || !rises && weight > last+1 && 2*j > n {
				t.Fatalf("pixel %d of %d weighs %d, the one before %d", j, n, weight, last)
			}
			last = weight
		})
		if lo != 0 || hi != n || next != hi || sum != 1<<wideDown {
			t.Errorf("the weights of pixels %d to %d of %d add up to %d", lo, hi, n, sum)
		}
	}
}
