package decode

import "encoding/binary"

// strips are the parts of a packed image's body that can be decoded alone: bands of rows, or chunks
// of a row of MCUs. They follow one another after a table, which has an entry for each: where it
// ends, and in the last four bytes its CRC-32C.
type strips struct {
	start        int // bytes of the body before them
	across, down int // strips side by side, and from top to bottom
	rows         int // of the image in each
	beyond       int // further rows, above and below, that depend on a strip
	table        []byte
	mcus, blocks int // of a JPEG: MCUs in a row, and blocks in an MCU
}

// sumBytes is the size of an entry's checksum.
const sumBytes = 4

// strips finds the strips of a body, or of its beginning, which must reach up to the first strip.
// ok is false if it does not, or if the body does not fit the image.
func (p *packed) strips(body []byte) (s strips, ok bool) {
	entry := losslessEntry
	if p.kind == kindLossless {
		s = strips{across: 1, down: losslessBands(p.height), rows: losslessBand, start: losslessHead}
		if len(body) > 0 && body[0] == pixelsIndex {
			s.start += losslessPalette
		}
	} else {
		q, err := readTiersFrame(body, p.width, p.height)
		if err != nil {
			return s, false
		}
		entry = tiersEntry
		s = strips{across: (q.across + tiersMCUs - 1) / tiersMCUs, down: q.down, rows: 8 * q.vmax, beyond: 2, mcus: q.across, blocks: q.blocks}
		s.start = tiersHeader + int(body[2])*tiersTable
	}
	size := int64(entry) * int64(s.across) * int64(s.down)
	if int64(len(body)-s.start) < size {
		return s, false
	}
	s.table = body[s.start:][:size]
	s.start += int(size)
	return s, true
}

// each calls f with the place of each strip in the body, and its checksum. It returns false if f
// does, or if a strip ends before it begins.
func (s *strips) each(f func(i int, from, to int64, sum []byte) bool) bool {
	n := s.across * s.down
	entry := len(s.table) / n
	from := int64(s.start)
	for i := range n {
		e := s.table[i*entry:][:entry]
		to := int64(s.start) + int64(binary.LittleEndian.Uint32(e))
		if s.blocks > 0 {
			to = from + int64(s.blocks)*int64(min(tiersMCUs, s.mcus-i%s.across*tiersMCUs))
			for k := range tiersStreams {
				to += int64(binary.LittleEndian.Uint16(e[2*k:]))
			}
		}
		if to < from || !f(i, from, to, e[entry-sumBytes:]) {
			return false
		}
		from = to
	}
	return true
}

// covering returns which rows of strips are read to decode a region at 1/scale.
func (s *strips) covering(r Region, scale int) (first, end int) {
	first = max(0, (r.Y-s.beyond)*scale/s.rows)
	return first, min(s.down, (scale*(r.Y+r.H+s.beyond)+s.rows-1)/s.rows)
}

// part returns which bytes of a packed image, besides those before the strips, are read to decode a
// region. ok is false if these are all bytes, or if head ends before the strips.
func packedPart(head []byte, size int64, r Region, scale int) (from, to int64, ok bool) {
	p, err := readPacked(head, false)
	if err != nil {
		return 0, 0, false
	}
	s, ok := p.strips(head[packedHead:])
	if !ok || r.Y < 0 || r.H < 1 || r.Y+r.H > (p.height+scale-1)/scale {
		return 0, 0, false
	}
	first, end := s.covering(r, scale)
	if end-first == s.down {
		return 0, 0, false // the rest has a checksum, too
	}
	s.each(func(i int, a, b int64, _ []byte) bool {
		if i == first*s.across {
			from = packedHead + a
		}
		if i == end*s.across-1 {
			to = packedHead + b
		}
		return to == 0
	})
	return from, to, from > 0 && from <= to && to <= size
}

// PackedFront is the most bytes before the strips of a packed image of a size. PartOf needs them to
// say which of the strips a region needs.
func PackedFront(height, width int) int64 {
	chunks := ((int64(width)+7)/8/tiersMCUs + 1) * ((int64(height) + 7) / 8)
	return packedHead + max(tiersHeader+3*tiersTable+tiersEntry*chunks, losslessHead+losslessPalette+losslessEntry*int64(losslessBands(height)))
}
