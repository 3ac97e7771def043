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
		points[i] = pointOf(float64(i)/tenths, 0, 1/load, 1/decode)
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
			most = max(most, p.Throughput)
		}
		var measured []int
		steps, best, err := search(false, func(i int) (Point, error) {
			measured = append(measured, i)
			return points[i], nil
		})
		for _, s := range steps {
			left := Rate(0)
			for _, p := range points {
				if p.RawRatio >= s.From && p.RawRatio <= s.To {
					left = max(left, p.Throughput)
				}
			}
			if left != most {
				t.Fatalf("%v: %v to %v are left, without the best", points, s.From, s.To)
			}
		}
		if err != nil || points[best].Throughput != most {
			t.Fatalf("%v: found %d, %v", points, best, err)
		}
		seen := map[int]bool{}
		for _, i := range measured {
			seen[i] = true
		}
		if last := steps[len(steps)-1]; last.From != last.To || last.From != points[best].RawRatio {
			t.Fatalf("found %d, but left are %v to %v", best, last.From, last.To)
		}
		if measured[0] != 5 || len(measured) > 4 || len(seen) != len(measured) || len(steps) != len(measured) {
			t.Fatalf("measured %v", measured)
		}
	}
}

func TestSearchWhereRawLoadsFaster(t *testing.T) {
	_, best, err := search(true, func(i int) (Point, error) {
		return pointOf(0, 0, 1/float64(10+i), 1/float64(100+i)), nil
	})
	if best != tenths || err != nil {
		t.Errorf("found %d, %v", best, err)
	}
}

func TestSearchEndsWithAnError(t *testing.T) {
	broken := errors.New("broken")
	calls := 0
	_, _, err := search(false, func(int) (Point, error) { calls++; return Point{}, broken })
	if err != broken || calls != 1 {
		t.Errorf("%v after %d calls", err, calls)
	}
}

// TestFitRecoversCosts: the noiseless mixes of a search yield the exact costs.
func TestFitRecoversCosts(t *testing.T) {
	fitted := func(raw, seconds []float64) line {
		var points []Point
		for i, x := range raw {
			points = append(points, pointOf(x, 0, seconds[i], 0))
		}
		return fit(points, func(p Point) Rate { return p.Storage })
	}
	r := rand.New(rand.NewPCG(3, 4))
	for range 1000 {
		want := line{r.Float64() * float64(r.IntN(3)), r.Float64() + 0.001}
		raw := []float64{0.5, 0.8, 0.9}
		var seconds []float64
		for _, x := range raw {
			seconds = append(seconds, want.at(x))
		}
		if got := fitted(raw, seconds); math.Abs(got.encoded-want.encoded) > 1e-9 || math.Abs(got.raw-want.raw) > 1e-9 {
			t.Fatalf("got %v, want %v", got, want)
		}
	}
	if got := fitted([]float64{0.5, 0.9}, []float64{1, 3}); got.encoded != 0 || got.raw <= 0 {
		t.Errorf("costs below 0: %v", got)
	}
	if got := fitted([]float64{0.5}, []float64{2}); got != (line{2, 2}) {
		t.Errorf("one mix: %v", got)
	}
	if got := fitted([]float64{0.5, 1}, []float64{0, 0}); got != (line{}) {
		t.Errorf("nothing costs anything: %v", got)
	}
}

// TestModelsBest: no whole percent is better, with and without a cache whose hits fall with the
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
		for i := range 101 {
			x := float64(i) / 100
			if x > least && m.at(x).Throughput > m.at(got).Throughput*(1+1e-6) {
				t.Fatalf("%+v: %v is better than %v", m, x, got)
			}
		}
	}
}
