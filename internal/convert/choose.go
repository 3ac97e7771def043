package convert

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"maps"
	"math"
	"slices"
)

// standing says whether a sample can be chosen for a form.
type standing uint8

const (
	eligible standing = iota // can get it
	counted                  // has it already
	excluded                 // cannot get it, or keeps another form
)

// samples are what a choice depends on. *dataset.Dataset has these methods.
type samples interface {
	Len() int
	Label(i int) int
	Path(i int) string
}

// choose returns the eligible samples to convert so that the share ratio has the form; see the
// package comment.
func choose(s samples, standings []standing, seed uint64, ratio float64) []int32 {
	ranking, already := rank(s, standings, seed)
	want := min(max(countOf(ratio, int64(s.Len()))-already, 0), int64(len(ranking)))
	best := make([]int32, want)
	for k := range best {
		best[k] = ranking[k].sample
	}
	return best
}

// countOf is how many of n samples make up the share ratio.
func countOf(ratio float64, n int64) int64 {
	return min(int64(math.Floor(ratio*float64(n)+0.5)), n)
}

// candidate is an eligible sample.
type candidate struct {
	rank   float64
	key    uint64 // a hash
	sample int32
}

// rank returns the eligible samples, best first, and how many samples already have the form.
func rank(s samples, standings []standing, seed uint64) (ranking []candidate, already int64) {
	size, ranked := map[int]int{}, map[int]int{} // by label; samples that have the form already come first
	for i, standing := range standings {
		label := s.Label(i)
		size[label]++
		switch standing {
		case counted:
			ranked[label]++
			already++
		case eligible:
			ranking = append(ranking, candidate{key: hash(seed, "sample", s.Path(i)), sample: int32(i)})
		}
	}
	order := func(a, b candidate) int {
		return cmp.Or(cmp.Compare(a.rank, b.rank), cmp.Compare(a.key, b.key), cmp.Compare(a.sample, b.sample))
	}
	slices.SortFunc(ranking, order)
	stagger := staggered(size, seed)
	for k := range ranking {
		label := s.Label(int(ranking[k].sample))
		ranked[label]++
		ranking[k].rank = (float64(ranked[label]) - stagger[label]) / float64(size[label])
	}
	slices.SortFunc(ranking, order)
	return ranking, already
}

// staggered spreads the labels evenly from 0 to 1, in an order that depends on the seed.
func staggered(size map[int]int, seed uint64) map[int]float64 {
	key := func(label int) uint64 {
		return hash(seed, "class", string(binary.LittleEndian.AppendUint64(nil, uint64(label))))
	}
	labels := slices.SortedFunc(maps.Keys(size), func(a, b int) int { return cmp.Or(cmp.Compare(key(a), key(b)), cmp.Compare(a, b)) })
	stagger := map[int]float64{}
	for place, label := range labels {
		stagger[label] = (float64(place) + 0.5) / float64(len(labels))
	}
	return stagger
}

// hash depends only on its arguments, on every machine and in every version.
func hash(seed uint64, domain, text string) uint64 {
	b := make([]byte, 0, 128)
	b = binary.LittleEndian.AppendUint64(b, seed)
	b = append(append(append(b, domain...), 0), text...)
	sum := sha256.Sum256(b)
	return binary.LittleEndian.Uint64(sum[:])
}
