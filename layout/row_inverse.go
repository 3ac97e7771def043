package layout

import "encoding/binary"

// Pixels is the way back: for each element of one channel in src, the value nearest
// to what it stands for, written to dst, which holds at least one byte for each
// element of src. It is the value that the element was made of, or one with the
// same element where the dtype cannot tell them apart.
func (c *Converter) Pixels(dst, src []byte, channel int) {
	c.pixels(dst[:len(src)/c.dtype.Size()], src, channel, 1)
}

// pixels is Pixels for elements that are step elements apart.
func (c *Converter) pixels(dst, src []byte, channel, step int) {
	if c.dtype == Uint8 {
		for i := range dst {
			dst[i] = src[i*step]
		}
		return
	}
	size, mean, std := c.dtype.Size(), c.norm.Mean[channel], c.norm.Std[channel]
	for i := range dst {
		// An element stands for an interval around itself. The value it was made
		// of is in there: nearest to the middle if the interval is narrower than
		// one, else whatever is nearest is in there as well.
		// The product is rounded by itself, on every processor.
		dst[i] = byteOf(float64(float(c.dtype, load(src[i*step*size:], size))*std) + mean)
	}
}

// byteOf is the nearest of 0..255; NaN is 0.
func byteOf(x float64) uint8 {
	switch {
	case x >= 255:
		return 255
	case x > 0:
		return uint8(x + 0.5)
	}
	return 0
}

// load reads one little-endian element.
func load(src []byte, size int) uint32 {
	switch size {
	case 1:
		return uint32(src[0])
	case 2:
		return uint32(binary.LittleEndian.Uint16(src))
	}
	return binary.LittleEndian.Uint32(src)
}

// store writes one little-endian element.
func store(dst []byte, size int, bits uint32) {
	switch size {
	case 1:
		dst[0] = uint8(bits)
	case 2:
		binary.LittleEndian.PutUint16(dst, uint16(bits))
	default:
		binary.LittleEndian.PutUint32(dst, bits)
	}
}
