package decode

import (
	"bytes"
	"compress/zlib"
	"encoding/binary"
	"hash/crc32"
)

// A PNG writer for tests: image/png's can neither interlace nor write gray with alpha, and
// chooses the depth itself. It cycles through all five filters, or the given ones.
type pngSpec struct {
	w, h, kind, depth int
	interlaced        bool
	palette           []byte
	sample            func(x, y, channel int) uint16 // its low depth bits
	before            []byte                         // chunks before IDAT
	after             []byte                         // and after
	filters           []int                          // of the rows, cyclically; nil: all
	damage            func(idat []byte) []byte       // changes the compressed data
	split             func(idat []byte) [][]byte     // into IDATs; nil: halves
}

var pngChannels = map[int]int{0: 1, 2: 3, 3: 1, 4: 2, 6: 4}

func chunk(name string, data []byte) []byte {
	b := binary.BigEndian.AppendUint32(nil, uint32(len(data)))
	b = append(append(b, name...), data...)
	return binary.BigEndian.AppendUint32(b, crc32.ChecksumIEEE(b[4:]))
}

func writePNG(s pngSpec) []byte {
	head := binary.BigEndian.AppendUint32(nil, uint32(s.w))
	head = binary.BigEndian.AppendUint32(head, uint32(s.h))
	head = append(head, byte(s.depth), byte(s.kind), 0, 0, 0)
	var raw bytes.Buffer
	if s.interlaced {
		head[12] = 1
		for _, p := range [7][4]int{{0, 0, 8, 8}, {4, 0, 8, 8}, {0, 4, 4, 8}, {2, 0, 4, 4}, {0, 2, 2, 4}, {1, 0, 2, 2}, {0, 1, 1, 2}} {
			s.pass(&raw, p[0], p[1], p[2], p[3])
		}
	} else {
		s.pass(&raw, 0, 0, 1, 1)
	}
	out := append([]byte(pngSignature), chunk("IHDR", head)...)
	if s.palette != nil {
		out = append(out, chunk("PLTE", s.palette)...)
	}
	out = append(out, s.before...)
	idat := deflated(raw.Bytes())
	if s.damage != nil {
		idat = s.damage(idat)
	}
	half := len(idat) / 2
	parts := [][]byte{idat[:half], idat[half:]}
	if s.split != nil {
		parts = s.split(idat)
	}
	for _, p := range parts {
		out = append(out, chunk("IDAT", p)...)
	}
	out = append(out, s.after...)
	return append(out, chunk("IEND", nil)...)
}

func deflated(raw []byte) []byte {
	var b bytes.Buffer
	z := zlib.NewWriter(&b)
	z.Write(raw)
	z.Close()
	return b.Bytes()
}

// pass writes the rows of every dy-th line from y0, of every dx-th pixel from x0.
func (s *pngSpec) pass(to *bytes.Buffer, x0, y0, dx, dy int) {
	if x0 >= s.w {
		return
	}
	filters := s.filters
	if filters == nil {
		filters = []int{0, 1, 2, 3, 4}
	}
	channels := pngChannels[s.kind]
	step := max(1, channels*s.depth/8)
	var above []byte
	for y, n := y0, 0; y < s.h; y, n = y+dy, n+1 {
		var line []byte
		bit := 0
		for x := x0; x < s.w; x += dx {
			for c := range channels {
				v := s.sample(x, y, c)
				if s.depth == 16 {
					line = binary.BigEndian.AppendUint16(line, v)
					continue
				}
				if bit%8 == 0 {
					line = append(line, 0)
				}
				line[len(line)-1] |= byte(v) << (8 - s.depth - bit%8)
				bit += s.depth
			}
		}
		if above == nil {
			above = make([]byte, len(line))
		}
		filter := filters[n%len(filters)]
		to.WriteByte(byte(filter))
		to.Write(pngFiltered(filter, line, above, step))
		above = line
	}
}

func pngFiltered(filter int, line, above []byte, step int) []byte {
	out := make([]byte, len(line))
	for i := range line {
		var a, c int
		b := int(above[i])
		if i >= step {
			a, c = int(line[i-step]), int(above[i-step])
		}
		out[i] = line[i] - byte([]int{0, a, b, (a + b) / 2, paeth(a, b, c)}[filter])
	}
	return out
}

func paeth(a, b, c int) int {
	p := a + b - c
	pa, pb, pc := max(p-a, a-p), max(p-b, b-p), max(p-c, c-p)
	switch {
	case pa <= pb && pa <= pc:
		return a
	case pb <= pc:
		return b
	}
	return c
}
