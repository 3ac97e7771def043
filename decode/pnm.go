package decode

// pnmLayout is the content of a PPM's or PGM's header.
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

// decodePlain reads a plain image as a whole, whatever the region, to find its pixels and the end
// of the image. Samples become round(v*255/maximum).
func (l *pnmLayout) decodePlain(dst Image, data []byte, v view) error {
	p := l.raster
	for y := range l.height {
		for x := range l.width {
			var s [3]uint8
			for i := range l.channels {
				n, end := pnmNumber(data, p)
				switch {
				case end < 0:
					return endsEarly(true)
				case end == p:
					return corrupt("something that is no number among its samples")
				case n > l.maxval:
					return l.excess(n)
				}
				s[i], p = l.eight(n), end
			}
			if l.channels == 1 {
				s[1], s[2] = s[0], s[0]
			}
			v.put(dst, x, y, v.Color.pixel(s[0], s[1], s[2]))
		}
	}
	return nil
}

// eight returns a sample in 8 bits.
func (l *pnmLayout) eight(v int) uint8 { return uint8((2*255*v + l.maxval) / (2 * l.maxval)) }

func (l *pnmLayout) excess(v int) error {
	return corrupt("a sample of %d where %d is the most", v, l.maxval)
}
