package keep

import (
	"encoding/binary"
	"math/rand/v2"
)

// coin is a stream of random bits.
type coin struct {
	numbers *rand.ChaCha8
	bits    uint64 // unused bits of the last number, below a 1
}

func newCoin(seed uint64, epoch int) *coin {
	var key [32]byte
	binary.LittleEndian.PutUint64(key[:], seed)
	binary.LittleEndian.PutUint64(key[8:], uint64(epoch))
	return &coin{numbers: rand.NewChaCha8(key), bits: 1}
}

// toss returns 0 or 1.
func (c *coin) toss() int32 {
	if c.bits == 1 {
		c.bits = c.numbers.Uint64() | 1<<63
	}
	bit := int32(c.bits & 1)
	c.bits >>= 1
	return bit
}
