package archive

import (
	"fmt"
	"hash/crc32"
)

// Sum is the kind of a [Place]'s CRC. The numbers are stored, so they must not change.
type Sum uint8

const (
	NoSum      Sum = iota
	IEEE           // CRC-32, as in zip
	Castagnoli     // CRC-32C, as in TensorFlow's records
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Check compares the sample's unpacked bytes with the archive's checksum, if there is one. The
// error is ErrBad. Unpack already checks what it unpacks.
func (p Place) Check(data []byte) error {
	var sum uint32
	switch p.Sum {
	case NoSum:
		return nil
	case IEEE:
		sum = crc32.ChecksumIEEE(data)
	case Castagnoli:
		sum = crc32.Checksum(data, castagnoli)
	}
	if sum != p.CRC {
		return fmt.Errorf("%w: the checksum that the archive has of it does not match", ErrBad)
	}
	return nil
}

// The checksum of one part of some data can be computed from those of the whole and of the other
// parts, because a CRC is the remainder of a polynomial over GF(2): for two parts it is the first
// one's CRC times x^(bits of the second), plus the second one's. Polynomials are bit-reversed, as
// in the CRCs themselves: the highest bit is the coefficient of x^0.

const (
	polynomial = 0x82f63b78 // Castagnoli's, without the highest power
	one        = 1 << 31
	order      = 1<<31 - 1 // x^order is 1
)

// times multiplies two remainders.
func times(a, b uint32) (product uint32) {
	for m := uint32(one); m != 0; m >>= 1 {
		if a&m != 0 {
			product ^= b
		}
		if carry := b&1 != 0; carry {
			b = b>>1 ^ polynomial
		} else {
			b >>= 1
		}
	}
	return product
}

// power is x to the n.
func power(n int64) uint32 {
	result, square := uint32(one), uint32(one>>1)
	for ; n > 0; n >>= 1 {
		if n&1 != 0 {
			result = times(result, square)
		}
		square = times(square, square)
	}
	return result
}

// middle is the checksum of n bytes between two texts; whole is the checksum of all three.
func middle(whole uint32, before []byte, n int64, after []byte) uint32 {
	first, last := crc32.Checksum(before, castagnoli), crc32.Checksum(after, castagnoli)
	both := times(whole^last, power(order-8*int64(len(after))%order)) // without the last part
	return both ^ times(first, power(8*n%order))
}
