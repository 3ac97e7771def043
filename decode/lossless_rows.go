package decode

import "encoding/binary"

// unpackRow decodes the next row of a plane, whose previous row is in plane, and returns how many
// bytes it took.
func unpackRow(plane, from []byte) (n int, ok bool) {
	groups := len(plane) / losslessGroup
	head := 1 + groups/2
	if len(from) < head || from[0] >= numPredictions {
		return 0, false
	}
	prediction, widths := from[0], from[1:head]
	n = head
	for _, w := range widths {
		if w&15 > 8 || w>>4 > 8 {
			return 0, false
		}
		n += 2 * int(w&15+w>>4)
	}
	if len(from) < n {
		return 0, false
	}
	var eight [8]byte
	data, sum := from[head:n], uint8(0)
	for i := 0; i < len(plane); i += 8 {
		w := uint(widths[i/32] >> (i / 16 % 2 * 4) & 15)
		copy(eight[:], data[:w])
		data = data[w:]
		bits := binary.LittleEndian.Uint64(eight[:])
		for k := range 8 {
			r := uint8(int8(bits>>(uint(k)*w)<<(8-w)) >> (8 - w))
			sum += r
			switch prediction {
			case predictLeft:
				plane[i+k] = sum
			case predictUp:
				plane[i+k] += r
			default:
				plane[i+k] += sum
			}
		}
	}
	return n, true
}

// goRowPacker packs rows in Go.
type goRowPacker struct {
	width     int
	above     [][]byte
	row       []byte
	residuals [numPredictions][]byte
}

func newGoRowPacker(width, planes int) *goRowPacker {
	padded := losslessPadded(width)
	p := &goRowPacker{width: width, row: make([]byte, padded)}
	for range planes {
		p.above = append(p.above, make([]byte, padded))
	}
	for i := range p.residuals {
		p.residuals[i] = make([]byte, padded)
	}
	return p
}

func (p *goRowPacker) restart() {
	for i := range p.above {
		clear(p.above[i])
	}
}

// append packs the next row, of interleaved planes.
func (p *goRowPacker) append(to, pix []byte) []byte {
	n := len(p.above)
	for i, above := range p.above {
		for x := range p.width {
			at := pix[x*n : x*n+n]
			switch {
			case n < 3 || i == 3:
				p.row[x] = at[i]
			case i == 0:
				p.row[x] = at[1]
			case i == 1:
				p.row[x] = at[0] - at[1]
			default:
				p.row[x] = at[2] - at[1]
			}
		}
		for x := p.width; x < len(p.row); x++ {
			p.row[x] = p.row[p.width-1]
		}
		to = p.plane(to, above)
		copy(above, p.row)
	}
	return to
}

func (p *goRowPacker) plane(to, above []byte) []byte {
	var left, corner uint8
	for x, v := range p.row {
		p.residuals[predictLeft][x] = v - left
		p.residuals[predictUp][x] = v - above[x]
		p.residuals[predictGradient][x] = v - above[x] - left + corner
		left, corner = v, above[x]
	}
	best, least := 0, -1
	for i, r := range p.residuals {
		bits := 0
		for x := 0; x < len(r); x += losslessGroup {
			bits += int(widthOf(r[x:]))
		}
		if least < 0 || bits < least {
			best, least = i, bits
		}
	}
	r := p.residuals[best]
	to = append(to, uint8(best))
	for x := 0; x < len(r); x += 2 * losslessGroup {
		to = append(to, widthOf(r[x:])|widthOf(r[x+losslessGroup:])<<4)
	}
	var eight [8]byte
	for x := 0; x < len(r); x += 8 {
		w := uint(widthOf(r[x&^(losslessGroup-1):]))
		bits := uint64(0)
		for k, v := range r[x : x+8] {
			bits |= uint64(v) & (1<<w - 1) << (uint(k) * w)
		}
		binary.LittleEndian.PutUint64(eight[:], bits)
		to = append(to, eight[:w]...)
	}
	return to
}

// widthOf returns the bits that each residual of a group needs.
func widthOf(r []byte) (w uint8) {
	for _, v := range r[:losslessGroup] {
		for w < 8 && (v+1<<w>>1)>>w != 0 {
			w++
		}
	}
	return w
}
