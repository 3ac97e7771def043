package main

import (
	"fmt"
	"math"
	"testing"

	"github.com/batchfs/batchfs/shard"
)

// photosTake is what JPEGs took on two processors where packed samples were first measured.
func photosTake() takes {
	const bytes = 97.4e3
	return takes{
		bytes:   [shard.NumCosts]float64{bytes, 1.09 * bytes, 5.77 * bytes},
		seconds: [shard.NumCosts]float64{418e-6 / 2, 202e-6 / 2, 139e-6 / 2},
	}
}

// TestBestMix: the shares and rates that were computed then.
func TestBestMix(t *testing.T) {
	for _, test := range []struct {
		mb     int
		of     []shard.Cost
		want   mix
		images float64
	}{
		{150, liquidForms, mix{1, 0, 0}, 1540},
		{150, allForms, mix{1, 0, 0}, 1540},
		{600, liquidForms, mix{0.95, 0, 0.05}, 4950},
		{600, allForms, mix{0.62, 0.38, 0}, 5954},
		{1200, liquidForms, mix{0.76, 0, 0.24}, 5697},
		{1200, allForms, mix{0, 0.97, 0.03}, 9995},
		{3000, liquidForms, mix{0.40, 0, 0.60}, 7975},
		{3000, allForms, mix{0, 0.65, 0.35}, 11114},
	} {
		s := setting{mb: test.mb}
		got := photosTake().best(test.of, s, 100)
		for f, share := range got {
			if math.Abs(share-test.want[f]) > 0.011 {
				t.Errorf("%v MB/s, %v: %v, not %v", test.mb, test.of, got, test.want)
				break
			}
		}
		if rate := photosTake().rate(got, s); math.Abs(rate/test.images-1) > 0.003 {
			t.Errorf("%v MB/s, %v: %.0f images/s, not %v", test.mb, test.of, rate, test.images)
		}
	}
}

// TestModel: a cache saves bytes, never more than there are, and more processors save seconds.
func TestModel(t *testing.T) {
	p, s := photosTake(), setting{mb: 1, cached: 0.3}
	if got, want := p.loading(alone(shard.Encoded), s), 0.7*97.4e3/1e6; math.Abs(got-want) > 1e-9 {
		t.Errorf("loading takes %v s, not %v", got, want)
	}
	s.cached = 1e4
	if got := p.loading(alone(shard.Raw), s); got != 0 {
		t.Errorf("what is cached takes %v s", got)
	}
	if got, want := p.onProcessors(8).decoding(mix{0.5, 0.5, 0}), (418e-6+202e-6)/2/16; math.Abs(got-want) > 1e-12 {
		t.Errorf("decoding takes %v s, not %v", got, want)
	}
	if got := p.best(allForms, setting{mb: 1}, 10); got != alone(shard.Encoded) {
		t.Errorf("on slow storage, %v is best", got)
	}
}

// TestMixForms: a mix has the right number of images in each form, evenly spread.
func TestMixForms(t *testing.T) {
	for _, m := range []mix{
		{1, 0, 0}, {0, 1, 0}, {0, 0, 1}, {0.5, 0, 0.5}, {0.7, 0.3, 0}, {0, 0.65, 0.35}, {0.2, 0.3, 0.5},
	} {
		var counts [shard.NumCosts]float64
		for k, f := range m.forms(200) {
			counts[f]++
			for f, n := range counts {
				if want := float64(k+1) * m[f]; math.Abs(n-want) > 1.5 {
					t.Fatalf("%v: %v of the first %d are %s", m, n, k+1, shard.Cost(f))
				}
			}
		}
		for f, n := range counts {
			if math.Abs(n-200*m[f]) > 0.5 {
				t.Errorf("%v: %v of 200 are %s", m, n, shard.Cost(f))
			}
		}
	}
}

// TestNames: mixes are written in tenths, and rows begin with settings.
func TestNames(t *testing.T) {
	for of, want := range map[fmt.Stringer]string{
		mix{1, 0, 0}: "10:0", mix{0.63, 0, 0.37}: "6.3:3.7", mix{0, 0.65, 0.35}: "0:6.5:3.5", mix{0, 1, 0}: "0:10:0",
		setting{600, 2, 0}: "600 MB/s, 2 processors", setting{0, 1, 0}: "no limit, 1 processor",
	} {
		if of.String() != want {
			t.Errorf("%v, not %s", of, want)
		}
	}
}
