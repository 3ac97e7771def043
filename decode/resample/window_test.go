package resample

import (
	"math"
	"math/rand/v2"
	"testing"
)

// chiSquare is roughly the deviation of counts from the expected ones, in standard deviations of
// the statistic: large for a bad distribution, whatever the number of cells.
func chiSquare(counts []int, expected func(cell int) float64) float64 {
	sum := 0.0
	for cell, n := range counts {
		e := expected(cell)
		sum += (float64(n) - e) * (float64(n) - e) / e
	}
	free := float64(len(counts) - 1)
	return (sum - free) / math.Sqrt(2*free)
}

const unlikely = 4

func checkUniform(t *testing.T, name string, counts []int) {
	t.Helper()
	total := 0
	for _, n := range counts {
		total += n
	}
	if x := chiSquare(counts, func(int) float64 { return float64(total) / float64(len(counts)) }); x > unlikely {
		t.Errorf("%s: %.1f deviations from uniform: %v", name, x, counts)
	}
}

// TestWindowsAreUniform: if every window fits, areas, logarithms of ratios and places are
// uniform and independent of each other.
func TestWindowsAreUniform(t *testing.T) {
	const cells, side, n = 20, 4000, 40000
	o := randomCrop(11)
	o.CropArea = [2]float64{0.1, 0.5}
	var area, ratio, top, left, both [cells]int
	cell := func(v, low, high float64) int { return min(max(int(cells*(v-low)/(high-low)), 0), cells-1) }
	for i := range n {
		w := o.window(draws{key: o.Seed, epoch: uint32(i % 7), sample: uint64(i)}, side, side)
		a := cell(float64(w.h*w.w)/(side*side), 0.1, 0.5)
		r := cell(math.Log(float64(w.w)/float64(w.h)), math.Log(3./4), math.Log(4./3))
		y := cell(float64(w.y), 0, float64(side-w.h+1))
		x := cell(float64(w.x), 0, float64(side-w.w+1))
		area[a]++
		ratio[r]++
		top[y]++
		left[x]++
		both[(a+3*r+7*y+11*x)%cells]++ // uniform only if all four are jointly uniform
	}
	checkUniform(t, "area", area[:])
	checkUniform(t, "log ratio", ratio[:])
	checkUniform(t, "top", top[:])
	checkUniform(t, "left", left[:])
	checkUniform(t, "together", both[:])
}

// TestWindowsAreTorchvisions: on an image where many tries fail, and some samples reach the
// fallback, windows have the same distribution as with torchvision's algorithm.
func TestWindowsAreTorchvisions(t *testing.T) {
	const h, w, n, cells = 200, 90, 60000, 12
	o := randomCrop(12)
	r := rand.New(rand.NewPCG(3, 4))
	var ours, theirs [cells * cells]int
	at := func(win window) int {
		return (win.h*cells/(h+1))*cells + win.w*cells/(w+1)
	}
	for i := range n {
		ours[at(o.window(draws{key: o.Seed, sample: uint64(i)}, h, w))]++
		theirs[at(torchvision(r, h, w))]++
	}
	// Two samples of the same distribution: the variance of the difference of their counts is
	// the sum.
	sum, used := 0.0, 0.0
	for i := range ours {
		if total := float64(ours[i] + theirs[i]); total > 10 {
			d := float64(ours[i] - theirs[i])
			sum += d * d / total
			used++
		}
	}
	if x := (sum - used) / math.Sqrt(2*used); x > unlikely {
		t.Errorf("%.1f deviations from torchvision's distribution in %v cells", x, used)
	}
}

// torchvision is RandomResizedCrop.get_params, with its defaults.
func torchvision(r *rand.Rand, h, w int) window {
	for range 10 {
		area := float64(h*w) * (0.08 + 0.92*r.Float64())
		ratio := math.Exp(math.Log(3./4) + r.Float64()*(math.Log(4./3)-math.Log(3./4)))
		win := window{h: int(math.RoundToEven(math.Sqrt(area / ratio))), w: int(math.RoundToEven(math.Sqrt(area * ratio)))}
		if 0 < win.w && win.w <= w && 0 < win.h && win.h <= h {
			win.y, win.x = r.IntN(h-win.h+1), r.IntN(w-win.w+1)
			return win
		}
	}
	win := window{h: h, w: w}
	if in := float64(w) / float64(h); in < 3./4 {
		win.h = int(math.RoundToEven(float64(w) / (3. / 4)))
	} else if in > 4./3 {
		win.w = int(math.RoundToEven(float64(h) * (4. / 3)))
	}
	win.y, win.x = (h-win.h)/2, (w-win.w)/2
	return win
}

// TestWindowsFit: always, and with an allowed ratio, to the rounding of a pixel.
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

// TestFlips: as often as requested, including never and always, independent of seed, epoch,
// sample and each other.
func TestFlips(t *testing.T) {
	for _, p := range []float64{0, 0.1, 0.5, 0.9, 1} {
		const n = 20000
		var counts [8]int // three at a time: of a sample, of the next, of the next epoch
		flips := 0
		o := Options{Flip: p, Seed: 3}
		bit := func(epoch, i int) int {
			if o.Choose(epoch, int64(i), 9, 9).Flip {
				return 1
			}
			return 0
		}
		for i := range n {
			counts[bit(0, 2*i)<<2|bit(0, 2*i+1)<<1|bit(1, 2*i)]++
			flips += bit(0, 2*i)
		}
		if p == 0 && flips != 0 || p == 1 && flips != n {
			t.Errorf("with a probability of %v %d of %d are flipped", p, flips, n)
		}
		if p == 0 || p == 1 {
			continue
		}
		x := chiSquare(counts[:], func(cell int) float64 {
			e := float64(n)
			for range 3 {
				e *= []float64{1 - p, p}[cell&1]
				cell >>= 1
			}
			return e
		})
		if x > unlikely {
			t.Errorf("with a probability of %v: %.1f deviations from independent flips: %v", p, x, counts)
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
