package convert

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"maps"
	"math"
	"slices"
)

// kind is the state of a sample before conversion.
type kind uint8

const (
	encoded    kind = iota // can become raw
	alreadyRaw             // is raw
	unreadable             // can only be kept
)

// candidates are the samples of one class.
type candidates struct {
	size  int64   // all samples of the class
	raw   int64   // already raw
	order []int32 // those that can become raw, in the order they are chosen
}

// chooser knows the classes of a dataset. Its choice depends only on the ratio.
type chooser struct {
	classes []candidates
	sizes   []int64
	ties    []uint64
	samples int64
	raw     int64 // already raw
}

// newChooser sorts n samples into classes.
func newChooser(seed uint64, n int, label func(i int) int, path func(i int) string, kinds []kind) *chooser {
	c := &chooser{samples: int64(n)}
	keys := make([]uint64, n)
	byLabel := map[int]int{}
	for i := range n {
		byLabel[label(i)]++
		if kinds[i] == encoded {
			keys[i] = hash(seed, "sample", path(i))
		}
	}
	labels := slices.Sorted(maps.Keys(byLabel))
	for number, l := range labels {
		c.classes = append(c.classes, candidates{size: int64(byLabel[l])})
		c.sizes = append(c.sizes, int64(byLabel[l]))
		c.ties = append(c.ties, hash(seed, "class", string(binary.LittleEndian.AppendUint64(nil, uint64(l)))))
		byLabel[l] = number
	}
	for i := range n {
		class := &c.classes[byLabel[label(i)]]
		switch kinds[i] {
		case alreadyRaw:
			class.raw++
			c.raw++
		case encoded:
			class.order = append(class.order, int32(i))
		}
	}
	for _, class := range c.classes {
		slices.SortFunc(class.order, func(a, b int32) int {
			return cmp.Or(cmp.Compare(keys[a], keys[b]), cmp.Compare(a, b))
		})
	}
	return c
}

// hash depends only on its arguments, on every machine and in every version.
func hash(seed uint64, domain, text string) uint64 {
	b := make([]byte, 0, 128)
	b = binary.LittleEndian.AppendUint64(b, seed)
	b = append(append(append(b, domain...), 0), text...)
	sum := sha256.Sum256(b)
	return binary.LittleEndian.Uint64(sum[:])
}

// target is how many of n samples make up a share of ratio.
func target(ratio float64, n int64) int64 {
	return min(int64(math.Floor(ratio*float64(n)+0.5)), n)
}

// choose returns the samples to convert, ascending, so that a share of ratio is raw. Samples in
// spoilt count as unreadable.
func (c *chooser) choose(ratio float64, spoilt map[int32]bool) []int32 {
	var chosen []int32
	raw, want := c.raw, target(ratio, c.samples)
	give := newPlaces(c.sizes, c.ties)
	next := make([]int, len(c.classes)) // index into each class's order
	for raw < want {
		number, ok := give.next()
		if !ok {
			break // too many samples are unreadable
		}
		class := &c.classes[number]
		if give.taken[number] <= class.raw {
			continue // a sample that is already raw takes the place
		}
		for next[number] < len(class.order) && spoilt[class.order[next[number]]] {
			next[number]++
		}
		if next[number] == len(class.order) {
			continue
		}
		chosen = append(chosen, class.order[next[number]])
		next[number]++
		raw++
	}
	slices.Sort(chosen)
	return chosen
}
