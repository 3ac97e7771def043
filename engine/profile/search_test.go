package profile

import (
	"errors"
	"math"
	"math/rand/v2"
	"testing"
)

// monotone returns loading that only falls and decoding that only rises over 11 mixes, with
// flat parts, and cases where one of them is always slower.
func monotone(r *rand.Rand) []Point {
	points := make([]Point, tenths+1)
	load, decode := 10+r.Float64()*300, 10+r.Float64()*300
	step := func(most float64) float64 { return float64(r.IntN(2)) * r.Float64() * most }
	for i := range points {
		points[i] = Point{RawRatio: float64(i) / tenths, Loading: Rate(load), Decoding: Rate(decode)}
		load, decode = load-min(step(60), load/2), decode+step(60)
	}
	return points
}

// TestSearchFindsTheBest: for any two curves, the search finds a best mix with at most 4
// measurements, none repeated, the first in the middle. After each step the best is among
// the candidates.
func TestSearchFindsTheBest(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 20_000 {
		points := monotone(r)
		most := Rate(0)
		for _, p := range points {
			most = max(most, p.Throughput())
		}
		var measured []int
		best, err := search(tenths, false, func(i int) (Point, error) {
			measured = append(measured, i)
			return points[i], nil
		}, func(_ Point, from, to int) {
			left := Rate(0)
			for i := from; i <= to; i++ {
				left = max(left, points[i].Throughput())
			}
			if left != most {
				t.Fatalf("%v: %d to %d are left, without the best", points, from, to)
			}
		})
		if err != nil || points[best].Throughput() != most {
			t.Fatalf("%v: found %d, %v", points, best, err)
		}
		seen := map[int]bool{}
		for _, i := range measured {
			seen[i] = true
		}
		if measured[0] != 5 || len(measured) > 4 || len(seen) != len(measured) {
			t.Fatalf("measured %v", measured)
		}
	}
}

func TestSearchWhereRawLoadsFaster(t *testing.T) {
	best, err := search(tenths, true, func(i int) (Point, error) {
		return Point{Loading: Rate(10 + i), Decoding: Rate(100 + i)}, nil
	}, func(Point, int, int) {})
	if best != tenths || err != nil {
		t.Errorf("found %d, %v", best, err)
	}
}

func TestSearchEndsWithAnError(t *testing.T) {
	broken := errors.New("broken")
	calls := 0
	_, err := search(tenths, false, func(int) (Point, error) { calls++; return Point{}, broken }, func(Point, int, int) {})
	if err != broken || calls != 1 {
		t.Errorf("%v after %d calls", err, calls)
	}
}

// TestFitRecoversCosts: the noiseless mixes of a search yield the exact costs.
func TestFitRecoversCosts(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for range 1000 {
		want := line{r.Float64() * float64(r.IntN(3)), r.Float64() + 0.001}
		raw := []float64{0.5, 0.8, 0.9}
		var seconds []float64
		for _, x := range raw {
			seconds = append(seconds, want.at(x))
		}
		if got := fit(raw, seconds); math.Abs(got.encoded-want.encoded) > 1e-9 || math.Abs(got.raw-want.raw) > 1e-9 {
			t.Fatalf("got %v, want %v", got, want)
		}
	}
	if got := fit([]float64{0.5, 0.9}, []float64{1, 3}); got.encoded != 0 || got.raw <= 0 {
		t.Errorf("costs below 0: %v", got)
	}
	if got := fit([]float64{0.5}, []float64{2}); got != (line{2, 2}) {
		t.Errorf("one mix: %v", got)
	}
	if got := fit([]float64{0.5, 1}, []float64{0, 0}); got != (line{}) {
		t.Errorf("nothing costs anything: %v", got)
	}
}

// TestModelsBest: matches a fine grid, with and without a cache whose hits fall with the
// share of raw images, and never below the least share.
func TestModelsBest(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	for range 2000 {
		encoded := 0.001 + r.Float64()
		kept := r.Float64()
		m := model{
			load:   line{encoded, encoded * (1 + 5*r.Float64())},
			decode: line{r.Float64() * 4, 0.001 + 0.3*r.Float64()},
			hits:   func(raw float64) float64 { return kept / (1 + 2*raw) },
		}
		if m.decode.raw > m.decode.encoded {
			continue
		}
		least := float64(r.IntN(2)) * r.Float64()
		got := m.best(least)
		if got < least || got > 1 {
			t.Fatalf("%v is not within %v to 1", got, least)
		}
		for i := range 1001 {
			x := least + (1-least)*float64(i)/1000
			if m.at(x).Throughput() > m.at(got).Throughput()*(1+1e-6) {
				t.Fatalf("%+v: %v is better than %v", m, x, got)
			}
		}
	}
}
