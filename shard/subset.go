package shard

import "math/bits"

// subset is a set of numbers below n. It counts the members before a number, and finds a member or
// non-member by rank. It takes n/8 bytes for the bits and about n/32 for the search. It is
// immutable.
type subset struct {
	words []uint64
	// ranks[i] counts the members before block i; it has one more entry than blocks.
	ranks []int64
	// hints[in][i] is the block that holds member number i·blockBits; hints[out] is the same for
	// non-members. A last entry ends the search.
	hints [2][]int64
}

const (
	blockWords = 8 // a cache line
	blockBits  = blockWords * 64

	out, in = 0, 1
)

// wordsOf is the number of words of a subset of the numbers below n: whole blocks.
func wordsOf(n int64) int64 { return ceilDiv(n, blockBits) * blockWords }

// newSubset keeps the words, whose number must be wordsOf(n).
func newSubset(words []uint64) *subset {
	blocks := int64(len(words)) / blockWords
	s := &subset{words: words, ranks: make([]int64, 1, blocks+1)}
	for block := range blocks {
		s.index(block)
	}
	for side := range s.hints {
		s.hints[side] = append(s.hints[side], max(blocks-1, 0))
	}
	return s
}

// index counts the members of a block, and adds the block to the hints if it holds the next hinted
// number of either side.
func (s *subset) index(block int64) {
	count := s.ranks[block]
	for _, word := range s.words[block*blockWords:][:blockWords] {
		count += int64(bits.OnesCount64(word))
	}
	s.ranks = append(s.ranks, count)
	for side, hints := range s.hints {
		if int64(len(hints))*blockBits < s.skipped(block+1, side) {
			s.hints[side] = append(hints, block)
		}
	}
}

func (s *subset) contains(i int64) bool { return s.words[i/64]>>(i%64)&1 != 0 }

// before counts the members before i, 0 <= i <= n.
func (s *subset) before(i int64) int64 {
	block := i / blockBits
	count := s.ranks[block]
	for _, word := range s.words[block*blockWords : i/64] {
		count += int64(bits.OnesCount64(word))
	}
	if rest := i % 64; rest > 0 {
		count += int64(bits.OnesCount64(s.words[i/64] & (1<<rest - 1)))
	}
	return count
}

// find is the member of a rank, or the non-member of that rank. It must exist. find narrows the
// search to a block, then to a word, then to a bit.
func (s *subset) find(rank int64, member bool) int64 {
	side, flip := in, uint64(0)
	if !member {
		side, flip = out, ^flip
	}
	hints := s.hints[side][rank/blockBits:]
	first, last := hints[0], hints[1]
	for first < last {
		middle := (first + last + 1) / 2
		if s.skipped(middle, side) <= rank {
			first = middle
		} else {
			last = middle - 1
		}
	}
	rank -= s.skipped(first, side)
	for i := first * blockWords; ; i++ {
		word := s.words[i] ^ flip
		here := int64(bits.OnesCount64(word))
		if rank < here {
			return i*64 + bitOf(word, int(rank))
		}
		rank -= here
	}
}

// skipped counts the numbers of one side before a block.
func (s *subset) skipped(block int64, side int) int64 {
	if side == out {
		return block*blockBits - s.ranks[block]
	}
	return s.ranks[block]
}

// bitOf is the position of the set bit of a rank in a word with more than rank set bits. It halves
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
