package convert

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"maps"
	"math"
	"slices"
)

// kind is the state of a sample.
type kind uint8

const (
	encoded    kind = iota // can become raw
	chosen                 // becomes raw
	alreadyRaw             // was raw before
	unreadable             // can only be kept
)

// samples are what a choice depends on. *dataset.Dataset has these methods.
type samples interface {
	Len() int
	Label(i int) int
	Path(i int) string
}

// choose returns the samples to convert so that a share of ratio is raw. It considers those
// that are encoded or chosen; see the package comment.
func choose(s samples, kinds []kind, seed uint64, ratio float64) []int32 {
	ranking, raw := rank(s, kinds, seed)
	want := min(max(target(ratio, int64(s.Len()))-raw, 0), int64(len(ranking)))
	best := make([]int32, want)
	for k := range best {
		best[k] = ranking[k].sample
	}
	return best
}

// target is how many of n samples make up a share of ratio.
func target(ratio float64, n int64) int64 {
	return min(int64(math.Floor(ratio*float64(n)+0.5)), n)
}

// candidate is a sample that can become raw.
type candidate struct {
	rank   float64
	key    uint64 // a hash
	sample int32
}

// class has the samples of one label.
type class struct {
	size, raw  int
	candidates []candidate
}

// rank returns the samples that can become raw, best first, and how many already are.
func rank(s samples, kinds []kind, seed uint64) (ranking []candidate, raw int64) {
	classes := map[int]*class{}
	for i, k := range kinds {
		c := classes[s.Label(i)]
		if c == nil {
			c = &class{}
			classes[s.Label(i)] = c
		}
		c.size++
		switch k {
		case alreadyRaw:
			c.raw++
			raw++
		case encoded, chosen:
			c.candidates = append(c.candidates, candidate{key: hash(seed, "sample", s.Path(i)), sample: int32(i)})
		}
	}
	order := func(a, b candidate) int {
		return cmp.Or(cmp.Compare(a.rank, b.rank), cmp.Compare(a.key, b.key), cmp.Compare(a.sample, b.sample))
	}
	for place, label := range shuffled(classes, seed) {
		c := classes[label]
		slices.SortFunc(c.candidates, order)
		stagger := (float64(place) + 0.5) / float64(len(classes))
		for j := range c.candidates {
			c.candidates[j].rank = (float64(c.raw+j+1) - stagger) / float64(c.size)
		}
		ranking = append(ranking, c.candidates...)
		c.candidates = nil
	}
	slices.SortFunc(ranking, order)
	return ranking, raw
}

// shuffled returns the labels in an order that depends on the seed.
func shuffled(classes map[int]*class, seed uint64) []int {
	key := func(label int) uint64 {
		return hash(seed, "class", string(binary.LittleEndian.AppendUint64(nil, uint64(label))))
	}
	return slices.SortedFunc(maps.Keys(classes), func(a, b int) int { return cmp.Or(cmp.Compare(key(a), key(b)), cmp.Compare(a, b)) })
}

// hash depends only on its arguments, on every machine and in every version.
func hash(seed uint64, domain, text string) uint64 {
	b := make([]byte, 0, 128)
	b = binary.LittleEndian.AppendUint64(b, seed)
	b = append(append(append(b, domain...), 0), text...)
	sum := sha256.Sum256(b)
	return binary.LittleEndian.Uint64(sum[:])
}
