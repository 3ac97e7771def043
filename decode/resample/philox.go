package resample

import "math/bits"

// philox is Philox4x32-10: ten rounds that turn a counter into four random words, under a key.
// Never change what it computes.
func philox(counter [4]uint32, key [2]uint32) [4]uint32 {
	for range 10 {
		high0, low0 := bits.Mul32(0xd2511f53, counter[0])
		high1, low1 := bits.Mul32(0xcd9e8d57, counter[2])
		counter = [4]uint32{high1 ^ counter[1] ^ key[0], low1, high0 ^ counter[3] ^ key[1], low0}
		key[0] += 0x9e3779b9
		key[1] += 0xbb67ae85
	}
	return counter
}

// The uses of a sample's blocks of random words.
const (
	blockFlip   = 0
	blockTry    = 1 // and the following, one per try
	blockAnchor = blockTry + tries
)

// draws are the random numbers of one sample in one epoch. Each has a fixed place, and so does
// not depend on how many were drawn before it.
type draws struct {
	key    uint64
	epoch  uint32
	sample uint64
}

// block returns four words, as two numbers of 64 bits.
func (d draws) block(n uint32) [2]uint64 {
	w := philox([4]uint32{n, d.epoch, uint32(d.sample), uint32(d.sample >> 32)}, [2]uint32{uint32(d.key), uint32(d.key >> 32)})
	return [2]uint64{uint64(w[1])<<32 | uint64(w[0]), uint64(w[3])<<32 | uint64(w[2])}
}

// flip returns true with the given probability.
func (d draws) flip(probability float64) bool {
	return float64(uint32(d.block(blockFlip)[0])) < probability*(1<<32)
}

// unit turns the upper 53 bits into a number in [0, 1).
func unit(bits uint64) float64 { return float64(bits>>11) / (1 << 53) }

// below returns a whole number in [0, n).
func below(n int, random uint64) int {
	high, _ := bits.Mul64(random, uint64(n))
	return int(high)
}
