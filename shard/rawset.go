package shard

import "math/bits"

// RawSet is the set of a dataset's raw samples. It also finds the k-th raw and the k-th encoded
// sample. It takes n/8 bytes for the bits and about n/32 for the search. It is immutable.
type RawSet struct {
	n, count int64
	words    []uint64
	// ranks[i] counts the raw samples before block i; it has one more entry than blocks.
	ranks []int64
	// hints[raw][i] is the block that holds raw sample number i·blockBits; hints[encoded] is the
	// same for encoded samples. A last entry ends the search.
	hints [2][]int64
}

const (
	blockWords = 8 // a cache line
	blockBits  = blockWords * 64

	encoded, raw = 0, 1
	classes      = 2 // of samples, by what they cost
)

// NewRawSet calls isRaw once for every sample, in order.
func NewRawSet(n int64, isRaw func(id int64) bool) *RawSet {
	n = max(n, 0)
	blocks := ceilDiv(n, blockBits)
	r := &RawSet{n: n, words: make([]uint64, blocks*blockWords), ranks: make([]int64, 1, blocks+1)}
	for id := range n {
		if isRaw(id) {
			r.words[id/64] |= 1 << (id % 64)
		}
	}
	for block := range blocks {
		r.index(block)
	}
	for class := range r.hints {
		r.hints[class] = append(r.hints[class], max(blocks-1, 0))
	}
	return r
}

// index counts a block, and adds it to the hints if it holds the next hinted sample of either
// class.
func (r *RawSet) index(block int64) {
	for _, word := range r.words[block*blockWords:][:blockWords] {
		r.count += int64(bits.OnesCount64(word))
	}
	r.ranks = append(r.ranks, r.count)
	for class, hints := range r.hints {
		if int64(len(hints))*blockBits < r.skipped(block+1, class) {
			r.hints[class] = append(hints, block)
		}
	}
}

// Len is the number of samples in the dataset.
func (r *RawSet) Len() int64 { return r.n }

// Count is the number of raw samples.
func (r *RawSet) Count() int64 { return r.count }

// Contains says whether a sample is raw; false if there is no such sample.
func (r *RawSet) Contains(id int64) bool {
	return id >= 0 && id < r.n && r.words[id/64]>>(id%64)&1 != 0
}

// class is that of a sample; all are of the first class if r is nil.
func (r *RawSet) class(id int64) int {
	if r != nil && r.Contains(id) {
		return raw
	}
	return encoded
}

// tagOf tells the permutations of the classes apart; 0 if r is nil.
func (r *RawSet) tagOf(class int) uint64 {
	if r == nil {
		return 0
	}
	return [classes]uint64{encoded: 2, raw: 1}[class]
}

// before counts the samples of each class before a sample, 0 <= id <= the number of samples.
func (r *RawSet) before(id int64) [classes]int64 {
	if r == nil {
		return [classes]int64{id}
	}
	block, count := id/blockBits, r.ranks[id/blockBits]
	for _, word := range r.words[block*blockWords : id/64] {
		count += int64(bits.OnesCount64(word))
	}
	if rest := id % 64; rest > 0 {
		count += int64(bits.OnesCount64(r.words[id/64] & (1<<rest - 1)))
	}
	return [classes]int64{encoded: id - count, raw: count}
}

// find is the sample of a rank in its class, 0 <= rank < the number of samples in the class; the
// rank itself if r is nil. It narrows the search to a block, then to a word, then to a bit.
func (r *RawSet) find(rank int64, class int) int64 {
	if r == nil {
		return rank
	}
	hints := r.hints[class][rank/blockBits:]
	first, last := hints[0], hints[1]
	for first < last {
		middle := (first + last + 1) / 2
		if r.skipped(middle, class) <= rank {
			first = middle
		} else {
			last = middle - 1
		}
	}
	rank -= r.skipped(first, class)
	for i := first * blockWords; ; i++ {
		word := r.words[i]
		if class == encoded {
			word = ^word
		}
		here := int64(bits.OnesCount64(word))
		if rank < here {
			return i*64 + bitOf(word, int(rank))
		}
		rank -= here
	}
}

// skipped counts the samples of a class before a block.
func (r *RawSet) skipped(block int64, class int) int64 {
	if class == encoded {
		return block*blockBits - r.ranks[block]
	}
	return r.ranks[block]
}

// bitOf is the place of the set bit of a rank in a word with more than rank set bits. It halves
// the word without branches, which would be unpredictable.
func bitOf(word uint64, rank int) int64 {
	place := 0
	for width := 32; width > 0; width /= 2 {
		below := bits.OnesCount64(word & (1<<width - 1))
		upper := ^((rank - below) >> 63) // all ones if rank >= below
		rank -= below & upper
		word >>= width & upper & 63
		place += width & upper
	}
	return int64(place)
}
