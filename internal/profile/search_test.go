package profile

import (
	"errors"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/batchfs/batchfs/internal/convert"
	"github.com/batchfs/batchfs/shard"
)

// monotone returns loading that only falls and decoding that only rises over some mixes, with
// flat parts, and cases where one of them is always slower.
func monotone(r *rand.Rand, last int) []Point {
	points := make([]Point, last+1)
	load, decode := 10+r.Float64()*300, 10+r.Float64()*300
	step := func(most float64) float64 { return float64(r.IntN(2)) * r.Float64() * most }
	for i := range points {
		points[i] = pointOf(convert.Shares{Raw: float64(i) / float64(last)}, 0, 1/load, 1/decode)
		load, decode = load-min(step(60), load/2), decode+step(60)
	}
	return points
}

// TestSearchFindsTheBest: for any two curves, the search finds a best mix of 11 with at most 4
// measurements, and of 21 with 5, none repeated, the first in the middle. After each step the best
// is among the candidates.
func TestSearchFindsTheBest(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for k := range 20_000 {
		last := tenths * (1 + k%2)
		points := monotone(r, last)
		most := Rate(0)
		for _, p := range points {
			most = max(most, p.Throughput)
		}
		var measured []int
		steps, best, err := search(last, never, func(i int) (Point, error) {
			measured = append(measured, i)
			return points[i], nil
		})
		for _, s := range steps {
			left := Rate(0)
			for _, p := range points[s.From : s.To+1] {
				left = max(left, p.Throughput)
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
		if end := steps[len(steps)-1]; end.From != end.To || end.From != best {
			t.Fatalf("found %d, but left are %v to %v", best, end.From, end.To)
		}
		if measured[0] != last/2 || len(measured) > 3+last/tenths || len(seen) != len(measured) || len(steps) != len(measured) {
			t.Fatalf("measured %v", measured)
		}
	}
}

func never(int) bool { return false }

// TestSearchGoesOn: if raw images load faster, too, larger shares of them are tried even if loading
// limits; an error ends the search.
func TestSearchGoesOn(t *testing.T) {
	_, best, err := search(tenths, func(int) bool { return true }, func(i int) (Point, error) {
		return pointOf(convert.Shares{}, 0, 1/float64(10+i), 1/float64(100+i)), nil
	})
	if best != tenths || err != nil {
		t.Errorf("found %d, %v", best, err)
	}
	broken, calls := errors.New("broken"), 0
	_, _, err = search(tenths, never, func(int) (Point, error) { calls++; return Point{}, broken })
	if err != broken || calls != 1 {
		t.Errorf("%v after %d calls", err, calls)
	}
}

// TestPath: places and mixes are each other's inverse, and the parts of a mix are never negative.
func TestPath(t *testing.T) {
	for _, p := range []path{
		{shard.Encoded}, {shard.Encoded, shard.Raw}, {shard.Encoded, shard.Packed}, {shard.Encoded, shard.Packed, shard.Raw},
	} {
		for i := range 10*p.last() + 1 {
			place := float64(i) / 100
			s := p.mix(place)
			if math.Abs(p.place(s)-place) > 1e-12 {
				t.Errorf("%v at %v: %+v is at %v", p, place, s, p.place(s))
			}
			for f := range shard.Cost(shard.NumCosts) {
				if s.Of(f) < -1e-12 {
					t.Errorf("%v at %v: %+v", p, place, s)
				}
			}
		}
	}
}

// TestFitRecoversCosts: the noiseless mixes of a search yield the exact costs. None is below 0, and
// one mix says nothing about a difference.
func TestFitRecoversCosts(t *testing.T) {
	two := []convert.Shares{{Raw: 0.5}, {Raw: 0.8}, {Raw: 0.9}}
	three := []convert.Shares{{}, {Raw: 1}, {Packed: 1}, {Raw: 0.4, Packed: 0.6}}
	check := func(mixes []convert.Shares, seconds func(s convert.Shares) float64, want costs) {
		var points []Point
		for _, s := range mixes {
			points = append(points, pointOf(s, 0, seconds(s), 0))
		}
		got := fit(points, func(p Point) Rate { return p.Storage })
		for f := range want {
			if math.Abs(got[f]-want[f]) > 1e-6 {
				t.Fatalf("of %v: got %v, want %v", mixes, got, want)
			}
		}
	}
	r := rand.New(rand.NewPCG(3, 4))
	for range 1000 {
		want := costs{r.Float64() * float64(r.IntN(3)), 0, r.Float64() + 0.001}
		check(two, func(s convert.Shares) float64 { return want.at(s) }, want)
		want[shard.Packed] = r.Float64() * float64(r.IntN(3))
		check(three, func(s convert.Shares) float64 { return want.at(s) }, want)
	}
	is := func(seconds float64) func(convert.Shares) float64 {
		return func(convert.Shares) float64 { return seconds }
	}
	check([]convert.Shares{{Raw: 0.5}}, is(1), costs{shard.Encoded: 1, shard.Raw: 1})
	check([]convert.Shares{{Raw: 0.5}, {Raw: 1}}, is(0), costs{})
	// To explain both mixes, encoded images would have to cost less than nothing. Raw ones alone
	// explain 1 second for a half and 3 for 0.9 of them best, by their relative errors, with this.
	rising := func(s convert.Shares) float64 { return 1 + 2*math.Floor(s.Raw+0.3) }
	check([]convert.Shares{{Raw: 0.5}, {Raw: 0.9}}, rising, costs{shard.Raw: (0.5 + 0.3) / (0.5*0.5 + 0.3*0.3)})
}

// TestModelsBest: no mix of two forms in whole percent is better, with and without a cache whose
// hits fall with the share of raw images. A form that is no better than a mix of others is not
// used.
func TestModelsBest(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	p := &profiler{path: path{shard.Encoded, shard.Packed, shard.Raw}, most: 1, hits: &hitTable{}}
	mixes, packed := p.pairs(100), 0
	for range 2000 {
		encoded, kept := 0.001+r.Float64(), r.Float64()
		m := model{
			load:   costs{encoded, encoded * (1 + 2*r.Float64()), encoded * (3 + 5*r.Float64())},
			decode: costs{1 + r.Float64()*4, 0.3 + r.Float64(), 0.001 + 0.3*r.Float64()},
			hits:   func(s convert.Shares) float64 { return kept / (1 + 2*s.Raw) },
		}
		got := m.best(mixes)
		for _, s := range mixes {
			if m.at(s).Throughput > m.at(got).Throughput*(1+1e-6) {
				t.Fatalf("%+v: %v is better than %v", m, s, got)
			}
		}
		if got.Packed > 0 {
			packed++
		}
		m.load[shard.Packed] = m.load[shard.Raw]
		m.decode[shard.Packed] = m.decode[shard.Encoded]
		m.hits = func(convert.Shares) float64 { return kept }
		if got := m.best(mixes); got.Packed > 0 {
			t.Fatalf("%+v: %v", m, got)
		}
	}
	if packed < 500 {
		t.Errorf("packed images are in %d answers only", packed)
	}
}
