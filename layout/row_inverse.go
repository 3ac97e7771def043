package layout

import "encoding/binary"

// pixels is the inverse conversion: for each of the elements of one channel in src, which are step
// elements apart, it writes the value nearest to the element's number to dst. The result is the
// value that the element was made from, or one with the same element if the dtype cannot tell
// them apart.
func (c *Converter) pixels(dst, src []byte, channel, step int) {
	if c.dtype == Uint8 {
		for i := range dst {
			dst[i] = src[i*step]
		}
		return
	}
	size, mean, std := c.dtype.Size(), c.norm.Mean[channel], c.norm.Std[channel]
	for i := range dst {
		// An element stands for an interval of values around itself, which contains the
		// original one. If the interval is narrower than one, the original value is the
		// nearest to its middle; otherwise the nearest value lies in the interval too.
		// The conversion forces the product to be rounded separately on every processor.
		dst[i] = byteOf(float64(float(c.dtype, load(src[i*step*size:], size))*std) + mean)
	}
}

// byteOf returns the nearest of 0..255; NaN becomes 0.
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
