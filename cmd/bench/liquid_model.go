package main

import (
	"fmt"
	"strings"

	"github.com/batchfs/batchfs/shard"
)

var formNames = []string{shard.Encoded.String(), shard.Packed.String(), shard.Raw.String()}

// The forms of Liquid, and all.
var (
	liquidForms = []shard.Cost{shard.Encoded, shard.Raw}
	allForms    = []shard.Cost{shard.Encoded, shard.Packed, shard.Raw}
)

// A mix has the share of the images that each form has. Their sum is 1.
type mix [shard.NumCosts]float64

// alone is a mix of one form.
func alone(f shard.Cost) (m mix) {
	m[f] = 1
	return m
}

// String writes a mix as Liquid does, in tenths: encoded to raw, or encoded to packed to raw.
func (m mix) String() string {
	parts := []string{tenth(m[shard.Encoded]), tenth(m[shard.Packed]), tenth(m[shard.Raw])}
	if m[shard.Packed] == 0 {
		parts = []string{parts[shard.Encoded], parts[shard.Raw]}
	}
	return strings.Join(parts, ":")
}

func tenth(share float64) string { return fmt.Sprintf("%.3g", 10*share) }

// forms says which form each of n images has. Each run of images has its shares, to within an image
// or two.
func (m mix) forms(n int) []shard.Cost {
	var due mix
	list := make([]shard.Cost, n)
	for k := range list {
		for f := range due {
			due[f] += m[f]
		}
		for f := range due {
			if due[f] > due[list[k]]+1e-9 {
				list[k] = shard.Cost(f)
			}
		}
		due[list[k]]--
	}
	return list
}

// takes says what an image of each form costs a mount: bytes of storage, and seconds of all its
// processors together, including the reader of its batches.
type takes struct{ bytes, seconds [shard.NumCosts]float64 }

// onProcessors computes what images would take with another number of processors, if twice as many
// were twice as fast.
func (t takes) onProcessors(more float64) takes {
	for f := range t.seconds {
		t.seconds[f] /= more
	}
	return t
}

// loading and decoding are the seconds that an image of a mix takes of storage and of processors,
// on average. A cache saves an image as many bytes, whatever its form.
func (t takes) loading(m mix, s setting) float64 {
	bytes := -s.cached * t.bytes[shard.Encoded]
	for f, share := range m {
		bytes += share * t.bytes[f]
	}
	return max(0, bytes) / (1e6 * float64(s.mb))
}

func (t takes) decoding(m mix) (seconds float64) {
	for f, share := range m {
		seconds += share * t.seconds[f]
	}
	return seconds
}

// rate is the model of a mount, in images per second: storage and processors work side by side, so
// that it is as fast as the slower of them.
func (t takes) rate(m mix, s setting) float64 { return 1 / max(t.loading(m, s), t.decoding(m)) }

// best is the mix of some forms that is fastest by the model, in steps of 1/steps. Of equally fast
// ones, it is the one with more encoded images, then with more packed ones.
func (t takes) best(of []shard.Cost, s setting, steps int) mix {
	best := alone(shard.Encoded)
	for _, m := range mixesOf(of, steps) {
		if t.rate(m, s) > t.rate(best, s)*(1+1e-9) {
			best = m
		}
	}
	return best
}

// mixesOf are all mixes of some forms in steps of 1/steps, those with more of the first forms
// first.
func mixesOf(of []shard.Cost, steps int) (all []mix) {
	var fill func(m mix, rest []shard.Cost, left int)
	fill = func(m mix, rest []shard.Cost, left int) {
		if len(rest) == 1 {
			m[rest[0]] = float64(left) / float64(steps)
			all = append(all, m)
			return
		}
		for n := left; n >= 0; n-- {
			m[rest[0]] = float64(n) / float64(steps)
			fill(m, rest[1:], left-n)
		}
	}
	fill(mix{}, of, steps)
	return all
}
