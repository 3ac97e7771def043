package layout

import (
	"bytes"
	"encoding/binary"
)

// fillSource is the size of the area from which the rest of a filled area is copied: it stays in
// the first-level cache, so that large margins cost no more than writing them.
const fillSource = 341 * maxChannels * 4 // a multiple of any pixel's size

// Fill writes a whole slot, one sample of s, as if every pixel had the value fill.
func (c *Converter) Fill(dst []byte, s Spec, fill uint8) {
	c.mustFit(dst, s)
	c.fillMargins(dst, s, 0, 0, fill)
}

// mustFit panics if a slot or its description does not match the tables: writing would overrun
// the slot.
func (c *Converter) mustFit(slot []byte, s Spec) {
	if s.DType != c.dtype || s.C != c.channels || int64(len(slot)) != s.SampleBytes() {
		panic("layout: a slot of another shape or dtype than the converter's")
	}
}

// fillMargins fills everything to the right of and below the height x width pixels at the top
// left of a slot.
func (c *Converter) fillMargins(slot []byte, s Spec, height, width int, fill uint8) {
	if height == s.H && width == s.W || len(slot) == 0 {
		return
	}
	size := c.dtype.Size()
	if s.Order == NHWC {
		fillArea(slot, s.W*s.C*size, height, width*s.C*size, c.pixel(fill, 0, s.C))
		return
	}
	plane := len(slot) / s.C
	for k := range s.C {
		fillArea(slot[k*plane:(k+1)*plane], s.W*size, height, width*size, c.pixel(fill, k, 1))
	}
}

// pixel returns the bytes of value v's elements in n channels, starting with channel.
func (c *Converter) pixel(v uint8, channel, n int) []byte {
	size := c.dtype.Size()
	p := make([]byte, 0, (maxChannels+1)*4) // the last element is written with 4 bytes
	for k := range n {
		p = binary.LittleEndian.AppendUint32(p, c.bits[channel+k][v])[:len(p)+size]
	}
	return p
}

// fillArea fills the bytes after the first used ones in the first height rows, and all rows
// below, with a pattern whose size divides both.
func fillArea(area []byte, stride, height, used int, pattern []byte) {
	if used < stride && height > 0 {
		first := area[used:stride]
		fillRun(first, pattern)
		for y := 1; y < height; y++ {
			copy(area[y*stride+used:(y+1)*stride], first)
		}
	}
	fillRun(area[height*stride:], pattern)
}

// fillRun repeats a pattern.
func fillRun(run, pattern []byte) {
	if bytes.Count(pattern, []byte{0}) == len(pattern) {
		clear(run)
		return
	}
	for n := copy(run, pattern); n < len(run); {
		n += copy(run[n:], run[:min(n, fillSource)])
	}
}
