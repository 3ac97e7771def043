package shard

import "math/bits"

// RawSet is the set of a dataset's raw samples. It also finds the k-th raw and the k-th encoded
// sample. It takes n/8 bytes for the bits and about n/32 for the search. It is immutable.
type RawSet struct {
	n, count int64
	words    []uint64
	// ranks[i] counts the raw samples before block i; it has one more entry than blocks.
	ranks []int64
	// rawHints[i] is the block that holds raw sample number i·blockBits; encodedHints is the
	// same for encoded samples. A last entry ends the search.
	rawHints, encodedHints []int64
}

const (
	blockWords = 8 // a cache line
	blockBits  = blockWords * 64
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
	r.rawHints = append(r.rawHints, max(blocks-1, 0))
	r.encodedHints = append(r.encodedHints, max(blocks-1, 0))
	return r
}

// index counts a block, and adds it to the hints if it holds the next hinted sample of either
// class.
func (r *RawSet) index(block int64) {
	for _, word := range r.words[block*blockWords:][:blockWords] {
		r.count += int64(bits.OnesCount64(word))
	}
	r.ranks = append(r.ranks, r.count)
	if int64(len(r.rawHints))*blockBits < r.count {
		r.rawHints = append(r.rawHints, block)
	}
	encoded := (block+1)*blockBits - r.count
	if int64(len(r.encodedHints))*blockBits < encoded {
		r.encodedHints = append(r.encodedHints, block)
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

// raw is the raw sample of a rank, 0 <= rank < Count.
func (r *RawSet) raw(rank int64) int64 {
	return r.find(rank, r.rawHints, false)
}

// encoded is the encoded sample of a rank, 0 <= rank < Len-Count.
func (r *RawSet) encoded(rank int64) int64 {
	return r.find(rank, r.encodedHints, true)
}

// find narrows the search to a block, then to a word, then to a bit.
func (r *RawSet) find(rank int64, hints []int64, encoded bool) int64 {
	first, last := hints[rank/blockBits], hints[rank/blockBits+1]
	for first < last {
		middle := (first + last + 1) / 2
		if r.skipped(middle, encoded) <= rank {
			first = middle
		} else {
			last = middle - 1
		}
	}
	rank -= r.skipped(first, encoded)
	for i := first * blockWords; ; i++ {
		word := r.words[i]
		if encoded {
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
func (r *RawSet) skipped(block int64, encoded bool) int64 {
	if encoded {
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
