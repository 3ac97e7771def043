package decode

import (
	"encoding/binary"
	"math/bits"
)

// A packed JPEG's body in Go; bfs_tiers.h describes it.

const (
	tiersHeader  = 16
	tiersTable   = 128 // bytes of a quantization table
	tiersMCUs    = 16  // of a chunk
	tiersStreams = 6
	tiersEntry   = 2*tiersStreams + sumBytes // of the table, for a chunk
	tiersRoom    = 10 * tiersMCUs * 264      // for packing a chunk
)

// tiersBlocks is the largest number of blocks in a JPEG of three components. MCUs have up to 4 by 4
// blocks of a component.
func tiersBlocks(width, height int) int64 {
	return 3 * (int64(width+7)/8 + 3) * (int64(height+7)/8 + 3)
}

// tiersMost is an upper bound for the body of a JPEG whose file has size bytes, and for the room to
// make it in. A block's byte H, DC difference and mask take at most 98 bits. An AC coefficient
// takes 2 to 31 bits more; a Huffman code takes at least one, and then as many as the magnitude
// has, which is never less than the 3.5th part. No block takes more than its part of tiersRoom.
func tiersMost(width, height int, size int64) int64 {
	blocks := tiersBlocks(width, height)
	chunks := (int64(width+7)/8/tiersMCUs + 2) * (int64(height+7)/8 + 3)
	const (
		ends = tiersStreams // partly filled last bytes
	)
	return tiersHeader + 3*tiersTable + chunks*(tiersEntry+ends) + min(13*blocks+4*size, 264*blocks) + tiersRoom
}

// A block holds coefficients in zigzag order.
type block [64]int16

// A plane holds a component's blocks, in whole MCUs.
type plane struct {
	h, v   int // sampling factors
	stride int // blocks in a row
	blocks []block
}

func (p *plane) at(x, y int) *block { return &p.blocks[y*p.stride+x] }

// quantized is the content of a JPEG's entropy-coded data.
type quantized struct {
	width, height int
	across, down  int // in MCUs
	hmax, vmax    int
	blocks        int // of an MCU
	count         int // of planes
	planes        []plane
}

// readTiersFrame reads the beginning of a packed JPEG's body, for an image whose size is known from
// the header. It makes no planes.
func readTiersFrame(body []byte, width, height int) (q quantized, err error) {
	if len(body) < tiersHeader || body[0] != 1 && body[0] != 3 {
		return q, corrupt("not the coefficients of a JPEG")
	}
	q = quantized{width: width, height: height, count: int(body[0])}
	for i := range q.count {
		h, v := q.sampling(body, i)
		if h < 1 || h > 4 || v < 1 || v > 4 {
			return q, corrupt("sampling factors of %d and %d", h, v)
		}
		q.hmax, q.vmax, q.blocks = max(q.hmax, h), max(q.vmax, v), q.blocks+h*v
	}
	q.across, q.down = (width+8*q.hmax-1)/(8*q.hmax), (height+8*q.vmax-1)/(8*q.vmax)
	return q, nil
}

func (q *quantized) sampling(body []byte, plane int) (h, v int) {
	return int(body[3+2*plane] >> 4), int(body[3+2*plane] & 15)
}

// readTiers reads the body of a packed JPEG, whose size is known from the header.
func readTiers(body []byte, width, height int) (*quantized, error) {
	q, err := readTiersFrame(body, width, height)
	if err != nil {
		return nil, err
	}
	chunks := (q.across + tiersMCUs - 1) / tiersMCUs * q.down
	table := tiersHeader + int(body[2])*tiersTable
	at := table + chunks*tiersEntry
	if at > len(body) || q.across*q.down*q.blocks > len(body) { // a block takes a byte at least
		return nil, endsEarly(true)
	}
	q.planes = make([]plane, q.count)
	for i := range q.planes {
		p := &q.planes[i]
		p.h, p.v = q.sampling(body, i)
		p.stride = q.across * p.h
		p.blocks = make([]block, p.stride*q.down*p.v)
	}
	return &q, q.readChunks(body[table:at], body[at:])
}

// readChunks reads all chunks.
func (q *quantized) readChunks(table, data []byte) error {
	for y := range q.down {
		for x := 0; x < q.across; x += tiersMCUs {
			mcus := min(tiersMCUs, q.across-x)
			var c tiersChunk
			data = c.cut(data, table, mcus*q.blocks)
			table = table[tiersEntry:]
			for m := x; m < x+mcus; m++ {
				for i := range q.planes {
					p := &q.planes[i]
					for k := range p.h * p.v {
						c.next(p.at(m*p.h+k%p.h, y*p.v+k/p.h), i)
					}
				}
			}
			if c.bad {
				return corrupt("invalid coefficients")
			}
		}
	}
	return nil
}

// A tiersChunk reads the blocks of a chunk. bad says that the data ended early.
type tiersChunk struct {
	h       []byte
	m, p, q bitStream
	n       bitStream
	v, w    bitStream
	dc      [3]int
	bad     bool
}

// cut takes a chunk of n blocks from data, with the stream sizes in table, and returns the rest.
func (c *tiersChunk) cut(data, table []byte, n int) (rest []byte) {
	take := func(size int) (part []byte) {
		if size > len(data) {
			c.bad, size = true, len(data)
		}
		part, data = data[:size], data[size:]
		return part
	}
	c.h = take(n)
	for i, s := range []*bitStream{&c.m, &c.p, &c.q, &c.n, &c.v, &c.w} {
		s.data, s.short = take(int(binary.LittleEndian.Uint16(table[2*i:]))), &c.bad
	}
	return data
}

// next reads the next block, which belongs to a component.
func (c *tiersChunk) next(to *block, component int) {
	if len(c.h) == 0 {
		c.bad = true
		return
	}
	head := c.h[0]
	c.h = c.h[1:]
	to[0] = c.nextDC(component, [4]int{2, 4, 7, 12}[head>>6])
	last := int(head & 63)
	if last == 0 {
		return
	}
	places := c.m.word(last-1)<<1 | 1<<last
	n := bits.OnesCount64(places)
	more, negative := c.p.word(n), c.p.word(n)
	for ; places != 0; places &= places - 1 {
		to[bits.TrailingZeros64(places)] = c.value(more&1 == 1, negative&1 == 1)
		more, negative = more>>1, negative>>1
	}
}

func (c *tiersChunk) nextDC(component, width int) int16 {
	const beyond = -2048
	d := extended(c.m.next(width), width)
	dc := &c.dc[component]
	if *dc += d; d == beyond {
		*dc = extended(c.m.next(16), 16)
	}
	if *dc != int(int16(*dc)) {
		c.bad = true
	}
	return int16(*dc)
}

// value reads a coefficient that is not 0.
func (c *tiersChunk) value(more, negative bool) int16 {
	magnitude := 1
	if more {
		magnitude = 2 + int(c.q.next(1))
	}
	if magnitude == 3 {
		magnitude += int(c.n.next(4))
	}
	if magnitude == 18 {
		magnitude += int(c.v.next(8))
	}
	switch {
	case magnitude > 127:
		return int16(c.w.next(16))
	case negative:
		return int16(-magnitude)
	}
	return int16(magnitude)
}

// extended returns a value of width bits, the highest of which is its sign.
func extended(v uint32, width int) int { return int(int32(v<<(32-width)) >> (32 - width)) }

// A bitStream is read from the lowest bit of each byte.
type bitStream struct {
	data  []byte
	bits  uint64 // the next count bits, and above them following ones, or zeros
	count int
	short *bool // set when more is read than there is
}

// next returns the next n bits, at most 32.
func (s *bitStream) next(n int) uint32 {
	if s.count < n {
		s.fill()
		if s.count < n {
			*s.short = true
			return 0
		}
	}
	v := s.bits & (1<<n - 1)
	s.bits >>= n
	s.count -= n
	return uint32(v)
}

// word returns the next n bits, at most 64.
func (s *bitStream) word(n int) uint64 {
	low := uint64(s.next(min(n, 32)))
	return low | uint64(s.next(max(0, n-32)))<<32
}

// fill tops up to more than 56 bits, if there are as many.
func (s *bitStream) fill() {
	if len(s.data) >= 8 {
		s.bits |= binary.LittleEndian.Uint64(s.data) << s.count
		n := (63 - s.count) / 8
		s.data = s.data[n:]
		s.count += 8 * n
		return
	}
	for ; s.count <= 56 && len(s.data) > 0; s.count += 8 {
		s.bits |= uint64(s.data[0]) << s.count
		s.data = s.data[1:]
	}
}
