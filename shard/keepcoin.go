package shard

import "math/bits"

// coin is a stream of random numbers: SplitMix64, keyed like a permutation.
type coin struct {
	state uint64
	bits  uint64 // unused bits of the last number drawn for bits, below a 1
}

// tagKeep follows the tags of the permutations.
const tagKeep = 3

func newCoin(seed uint64, epoch int) *coin {
	state := mix(seed + golden)
	state = mix((state ^ uint64(epoch)) + golden)
	return &coin{state: mix((state ^ tagKeep) + golden), bits: 1}
}

func (c *coin) number() uint64 {
	c.state += golden
	return mix(c.state)
}

// bit returns 0 or 1.
func (c *coin) bit() uint32 {
	if c.bits == 1 {
		c.bits = c.number() | 1<<63
	}
	bit := uint32(c.bits & 1)
	c.bits >>= 1
	return bit
}

// below returns a number from 0 to n-1.
func (c *coin) below(n uint64) uint64 {
	high, _ := bits.Mul64(c.number(), n)
	return high
}
