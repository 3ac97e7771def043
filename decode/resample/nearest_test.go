package resample

import (
	"encoding/json"
	"fmt"
	"math/big"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"github.com/batchfs/batchfs/internal/testkit"
)

// exactNearest is the rule in rational numbers: floor(y + (2j+1)h / 2H), for a window of h pixels
// from y on that becomes H pixels. It also returns the distance to the next pixel, in pixels.
func exactNearest(y, h *big.Rat, j, outputs, size int) (pixel int, tie float64) {
	at := new(big.Rat).Mul(h, big.NewRat(int64(2*j+1), int64(2*outputs)))
	at.Add(at, y)
	floor := new(big.Int).Div(at.Num(), at.Denom())
	rest, _ := at.Sub(at, new(big.Rat).SetInt(floor)).Float64()
	return min(max(int(floor.Int64()), 0), size-1), min(rest, 1-rest)
}

// windowOf is the part of an axis that a transform shows, exactly.
func windowOf(n, resized, first, keep int) (from, size *big.Rat) {
	step := big.NewRat(int64(n), int64(resized))
	return new(big.Rat).Mul(step, big.NewRat(int64(first), 1)), new(big.Rat).Mul(step, big.NewRat(int64(keep), 1))
}

// TestNearest: in every mode, each output shows the pixel given by exact arithmetic, even for sizes
// beyond the precision of float64.
func TestNearest(t *testing.T) {
	r := rand.New(rand.NewPCG(27, 1))
	side := func() int {
		if r.IntN(8) == 0 {
			return 1 + r.IntN(1<<(1+r.IntN(26)))
		}
		return 1 + r.IntN(600)
	}
	for n := range 4000 {
		h, w := side(), side()
		o := Options{
			Mode: Mode(n % int(numModes)), Height: 1 + r.IntN(300), Width: 1 + r.IntN(300), CropArea: DefaultCropArea, CropRatio: DefaultCropRatio, Seed: uint64(n),
		}
		if o.ResizeTo = max(o.Height, o.Width) + r.IntN(3)*r.IntN(100); n%100 == 4 {
			o.ResizeTo = maxSide
		}
		tr := o.Choose(n, int64(n), h, w)
		oh, ow := tr.Size()
		type axis struct {
			Axis
			size       int
			from, part *big.Rat
		}
		axes := []axis{{Axis: tr.Y, size: h}, {Axis: tr.X, size: w}}
		switch o.Mode {
		case NotSmaller:
			rh, rw := cover(h, w, oh, ow)
			axes[0].from, axes[0].part = windowOf(h, rh, (rh-oh+1)/2, oh)
			axes[1].from, axes[1].part = windowOf(w, rw, (rw-ow+1)/2, ow)
		case CenterCrop:
			rh, rw := shortSide(h, w, o.ResizeTo)
			axes[0].from, axes[0].part = windowOf(h, rh, halfToEven(rh-oh), oh)
			axes[1].from, axes[1].part = windowOf(w, rw, halfToEven(rw-ow), ow)
		default: // windows of whole pixels
			for i := range axes {
				axes[i].from, axes[i].part = new(big.Rat).SetFloat64(tr.Crop[i]), new(big.Rat).SetFloat64(tr.Crop[2+i])
			}
		}
		for _, a := range axes {
			for k := range min(a.N, 400) {
				j := k
				if a.N > 400 {
					j = r.IntN(a.N)
				}
				want, _ := exactNearest(a.from, a.part, j, a.N, a.size)
				if got := a.Nearest(j); got != want {
					t.Fatalf("%+v of %dx%d: output %d of %d is pixel %d, not %d", o, h, w, j, a.N, got, want)
				}
			}
		}
	}
}

// TestNearestTie: if two pixels meet at a centre, the later one is shown, and moving an axis moves
// what it shows.
func TestNearestTie(t *testing.T) {
	a := fit(0, 4, 2)
	if a.Nearest(0) != 1 || a.Nearest(1) != 3 {
		t.Errorf("4 pixels to 2: %d and %d", a.Nearest(0), a.Nearest(1))
	}
	a, _, _ = cut(1000, 333, 7, 300)
	for i := range a.N {
		if a.moved(5).Nearest(i) != a.Nearest(i)-5 {
			t.Fatal("output", i, "moves by something else than 5")
		}
	}
}

// nearestExact resizes the numbers of rows and columns with torchvision's NEAREST_EXACT.
const nearestExact = `
import json, sys, torch
torch.set_num_threads(1)
for case in json.load(open(sys.argv[1])):
    h, w = case["source"]
    rows = torch.arange(h, dtype=torch.float32).reshape(1, 1, h, 1).expand(1, 1, h, w)
    columns = torch.arange(w, dtype=torch.float32).reshape(1, 1, 1, w).expand(1, 1, h, w)
    rows, columns = (torch.nn.functional.interpolate(t, size=case["to"], mode="nearest-exact")[0, 0].int() for t in (rows, columns))
    json.dump([rows[:, 0].tolist(), columns[0].tolist()], open(case["out"], "w"))
print("all good")
`

// TestNearestAgainstTorchvision: away from ties, torchvision's NEAREST_EXACT shows the same pixels.
func TestNearestAgainstTorchvision(t *testing.T) {
	python := testkit.Python(t, "torch")
	dir, r := t.TempDir(), rand.New(rand.NewPCG(27, 2))
	type nearestCase struct {
		Source [2]int `json:"source"`
		To     [2]int `json:"to"` // before a crop
		Out    string `json:"out"`

		options Options
	}
	var cases []nearestCase
	add := func(h, w int, o Options) {
		tr := o.Choose(0, 0, h, w)
		cases = append(cases, nearestCase{[2]int{h, w}, [2]int{tr.Y.Whole, tr.X.Whole}, filepath.Join(dir, fmt.Sprint(len(cases))), o})
	}
	add(128, 256, Options{Mode: Stretch, Height: 96, Width: 80})
	for range 60 {
		o := Options{Height: 1 + r.IntN(300), Width: 1 + r.IntN(300)}
		o.ResizeTo = max(o.Height, o.Width) + r.IntN(50)
		for _, o.Mode = range []Mode{Stretch, NotLarger, NotSmaller, CenterCrop} {
			add(1+r.IntN(500), 1+r.IntN(500), o)
		}
	}
	runCases(t, python, nearestExact, filepath.Join(dir, "cases"), cases)
	for _, c := range cases {
		out, err := os.ReadFile(c.Out)
		testkit.Must(t, err)
		var want [2][]int
		testkit.Must(t, json.Unmarshal(out, &want))
		tr := c.options.Choose(0, 0, c.Source[0], c.Source[1])
		for i, a := range []Axis{tr.Y, tr.X} {
			for j := range a.N {
				size := c.Source[i]
				_, tie := exactNearest(new(big.Rat), big.NewRat(int64(size), 1), a.First+j, a.Whole, size)
				if theirs := want[i][a.First+j]; tie > 1e-3 && a.Nearest(j) != theirs {
					t.Fatalf("%+v of %v, axis %d, output %d: pixel %d, torchvision's is %d", c.options, c.Source, i, j, a.Nearest(j), theirs)
				}
			}
		}
	}
}
