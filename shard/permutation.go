package shard

import "math/bits"

// golden is 2^64 over the golden ratio, made odd: SplitMix64's increment.
const golden = 0x9e3779b97f4a7c15

const (
	rounds  = 8 // even: each step of encrypt does two
	minBits = 8
)

// permutation is P of the package comment, for one number of samples and one key. What it computes
// must never change: it is part of the contract, see OrderVersion.
type permutation struct {
	n        uint64
	lowBits  uint
	lowMask  uint64
	highMask uint64
	keys     [rounds]roundKey
}

type roundKey struct {
	add, mul uint64
}

// newPermutation derives the keys of a permutation of [0, n), n > 0.
func newPermutation(n, seed, epoch, tag uint64) permutation {
	width := uint(max(bits.Len64(n), minBits))
	p := permutation{n: n, lowBits: width / 2}
	p.lowMask = 1<<p.lowBits - 1
	p.highMask = 1<<(width-p.lowBits) - 1
	state := mix(seed + golden)
	state = mix((state ^ epoch) + golden)
	state = mix((state ^ tag) + golden)
	for i := range p.keys {
		state += golden
		p.keys[i].add = mix(state)
		state += golden
		p.keys[i].mul = mix(state) | 1
	}
	return p
}

// at is the element at place x < n.
func (p *permutation) at(x uint64) uint64 {
	for {
		if x = p.encrypt(x); x < p.n {
			return x
		}
	}
}

func (p *permutation) encrypt(x uint64) uint64 {
	low, high, k := x&p.lowMask, x>>(p.lowBits&63), &p.keys
	high ^= k[0].scramble(low) & p.highMask
	low ^= k[1].scramble(high) & p.lowMask
	high ^= k[2].scramble(low) & p.highMask
	low ^= k[3].scramble(high) & p.lowMask
	high ^= k[4].scramble(low) & p.highMask
	low ^= k[5].scramble(high) & p.lowMask
	high ^= k[6].scramble(low) & p.highMask
	low ^= k[7].scramble(high) & p.lowMask
	return high<<(p.lowBits&63) | low
}

// scramble is F of the package comment. Folding the 128-bit product carries every bit of x into
// the low bits that are used: downwards through its upper word, upwards through its lower word.
func (k *roundKey) scramble(x uint64) uint64 {
	high, low := bits.Mul64(x^k.add, k.mul)
	return high ^ low
}

// mix is SplitMix64's finalizer, a bijection.
func mix(z uint64) uint64 {
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

// blend spreads the samples of several costs evenly over all places, and orders the samples of each
// cost independently. The last cost takes its places first, the cost before it takes places from
// what is left, and so on. Two costs are spread to within one sample, three to within two.
type blend struct {
	of     uint64
	counts [NumCosts]uint64
	orders [NumCosts]permutation
}

// newBlend orders counts of samples of each cost. order makes the permutation for a cost.
func newBlend(counts [NumCosts]int64, order func(cost Cost, n uint64) permutation) (b blend) {
	for cost, n := range counts {
		if n > 0 {
			b.orders[cost] = order(Cost(cost), uint64(n))
		}
		b.counts[cost] = uint64(n)
		b.of += uint64(n)
	}
	return b
}

// at is the cost of the sample at place p, and its rank among samples of that cost.
func (b *blend) at(p uint64) (cost Cost, rank uint64) {
	left := b.of
	for cost = NumCosts - 1; cost > 0; cost-- {
		count := b.counts[cost]
		if count == 0 {
			continue
		}
		is, rank := spread{chosen: count, of: left}.at(p)
		if is {
			return cost, b.orders[cost].at(rank)
		}
		p, left = rank, left-count
	}
	return cost, b.orders[cost].at(p)
}

// spread is Bresenham's algorithm: it chooses evenly spread places. Place p is chosen iff
// floor((p+1)·chosen/of) > floor(p·chosen/of).
type spread struct {
	chosen, of uint64
}

// at says whether place p is chosen, and its rank among the places of its kind.
func (s spread) at(p uint64) (chosen bool, rank uint64) {
	before, rest := mulDiv(p, s.chosen, s.of)
	if rest+s.chosen >= s.of {
		return true, before
	}
	return false, p - before
}
