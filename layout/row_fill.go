package layout

// fillSource is the size of the area from which the rest of a filled area is copied: it stays in
// the first-level cache, so that large margins cost no more than writing them.
const fillSource = 4096

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

// A pattern is the bytes of one pixel's elements.
type pattern struct {
	bytes [MaxChannels * 4]byte
	n     int
}

// pixel returns value v in n channels, starting with the given one.
func (c *Converter) pixel(v uint8, channel, n int) (p pattern) {
	size := c.dtype.Size()
	for k := range n {
		store(p.bytes[p.n:], size, c.bits[channel+k][v])
		p.n += size
	}
	return p
}

// fillArea fills the bytes after the first used ones in the first height rows, and all rows
// below, with a pattern whose size divides both.
func fillArea(area []byte, stride, height, used int, p pattern) {
	if used < stride && height > 0 {
		first := area[used:stride]
		fillRun(first, p)
		for y := 1; y < height; y++ {
			copy(area[y*stride+used:(y+1)*stride], first)
		}
	}
	fillRun(area[height*stride:], p)
}

// fillRun repeats a pattern.
func fillRun(run []byte, p pattern) {
	if p.bytes == (pattern{}).bytes {
		clear(run)
		return
	}
	n := copy(run, p.bytes[:p.n])
	for n < min(len(run), fillSource) {
		n += copy(run[n:], run[:n])
	}
	source := run[:n]
	for n < len(run) {
		n += copy(run[n:], source)
	}
}
