package decode

import "encoding/binary"

// pnmLayout is what a PPM's or PGM's header says.
type pnmLayout struct {
	width, height int
	maxval        int
	channels      int
	size          int  // of a binary sample
	plain         bool // numbers in ASCII
	raster        int  // where the samples start
}

// isPNM reports whether data starts like a PPM or PGM: P2, P3, P5 or P6, then white space or a
// comment.
func isPNM(data []byte) bool {
	if len(data) < 3 || data[0] != 'P' {
		return false
	}
	switch data[1] {
	case '2', '3', '5', '6':
		return isSpace(data[2]) || data[2] == '#'
	}
	return false
}

func isSpace(b byte) bool { return b == ' ' || b >= '\t' && b <= '\r' }

func pnmHeader(data []byte, complete bool) (Header, error) {
	l, err := readPNMLayout(data, complete)
	if err != nil {
		return Header{}, err
	}
	h := Header{Format: PNM, Width: l.width, Height: l.height, Orientation: 1, least: l.raw().end(), stored: uint8(l.channels * l.size)}
	if l.plain { // one digit per sample, and a separator between samples
		h.least = int64(l.raster) + 2*int64(l.width)*int64(l.height)*int64(l.channels) - 1
	}
	return h, nil
}

// raw returns the place of binary samples.
func (l *pnmLayout) raw() rawRows {
	return rawRows{int64(l.raster), int64(l.width) * int64(l.channels) * int64(l.size), int64(l.height), false}
}

func readPNMLayout(data []byte, complete bool) (l pnmLayout, err error) {
	l.channels, l.size, l.plain = 1, 1, data[1] < '5'
	if data[1] == '3' || data[1] == '6' {
		l.channels = 3
	}
	p := 2
	for _, to := range [...]*int{&l.width, &l.height, &l.maxval} {
		n, end := pnmNumber(data, p)
		if end < 0 || end >= len(data) {
			return l, endsEarly(complete)
		}
		if end == p {
			return l, corrupt("something that is no number in its header")
		}
		*to, p = n, end
	}
	if err := checkSide(int64(l.width), int64(l.height)); err != nil {
		return l, err
	}
	if l.maxval < 1 || l.maxval > 65535 {
		return l, corrupt("a maximum of %d", l.maxval)
	}
	if l.maxval > 255 {
		l.size = 2
	}
	if !isSpace(data[p]) {
		return l, corrupt("its header does not end in white space")
	}
	l.raster = p + 1
	return l, nil
}

// pnmNumber reads a decimal number after white space and comments, and returns where it ends: p
// if there is none, -1 if data ends before it. Numbers too large for any field are capped at a
// value that is still too large.
func pnmNumber(data []byte, p int) (n, end int) {
	start := p
	for ; p < len(data); p++ {
		if data[p] == '#' {
			for p < len(data) && data[p] != '\n' && data[p] != '\r' {
				p++
			}
		} else if !isSpace(data[p]) {
			break
		}
	}
	if p >= len(data) {
		return 0, -1
	}
	first := p
	for ; p < len(data) && data[p]-'0' < 10; p++ {
		n = min(n*10+int(data[p]-'0'), 1<<27)
	}
	if p == first {
		return 0, start
	}
	return n, p
}

// decodePNM reads PPM and PGM, raw and plain, with any maximum: samples become
// round(v*255/maximum).
func decodePNM(_ *kept, dst Image, data []byte, v view) error {
	l, err := readPNMLayout(data, true)
	if err != nil {
		return err
	}
	if !l.plain && l.raw().end() > int64(len(data)) {
		return endsEarly(true)
	}
	if l.plain || l.maxval != 255 {
		return l.decodeSamples(dst, data, v)
	}
	for y := range v.Region.H {
		from := data[l.at(v.Region.X, v.Region.Y+y):][:v.Region.W*l.channels]
		to := dst.Pix[y*dst.Stride:][:v.Region.W*v.Color.Channels()]
		switch {
		case l.channels == v.Color.Channels():
			copy(to, from)
		case v.Color == Gray:
			weigh(to, from, 3, 0, 2)
		default:
			repeat(to, from)
		}
	}
	return nil
}

// at returns where the binary samples of a pixel start.
func (l *pnmLayout) at(x, y int) int { return l.raster + (y*l.width+x)*l.channels*l.size }

// decodeSamples decodes what must be read number by number. It reads a plain image as a whole,
// whatever the region, to find its pixels and the end of the image.
func (l *pnmLayout) decodeSamples(dst Image, data []byte, v view) (err error) {
	read := v.Region
	if l.plain {
		read = Region{W: l.width, H: l.height}
	}
	p := l.raster
	for y := read.Y; y < read.Y+read.H; y++ {
		if !l.plain {
			p = l.at(read.X, y)
		}
		for x := read.X; x < read.X+read.W; x++ {
			var s [3]uint8
			for i := range l.channels {
				if s[i], p, err = l.sample(data, p); err != nil {
					return err
				}
			}
			if l.channels == 1 {
				s[1], s[2] = s[0], s[0]
			}
			v.put(dst, x, y, v.Color.pixel(s[0], s[1], s[2]))
		}
	}
	return nil
}

// sample reads one sample, in 8 bits, and returns where it ends.
func (l *pnmLayout) sample(data []byte, p int) (s uint8, end int, err error) {
	v := 0
	switch {
	case l.plain:
		if v, end = pnmNumber(data, p); end < 0 {
			return 0, 0, endsEarly(true)
		}
		if end == p {
			return 0, 0, corrupt("something that is no number among its samples")
		}
	case l.size == 2:
		v, end = int(binary.BigEndian.Uint16(data[p:])), p+2
	default:
		v, end = int(data[p]), p+1
	}
	if v > l.maxval {
		return 0, 0, l.excess(v)
	}
	return l.eight(v), end, nil
}

// eight returns a sample in 8 bits.
func (l *pnmLayout) eight(v int) uint8 { return uint8((2*255*v + l.maxval) / (2 * l.maxval)) }

func (l *pnmLayout) excess(v int) error {
	return corrupt("a sample of %d where %d is the most", v, l.maxval)
}
