package decode

// pnmLayout is what a PPM's or PGM's header says.
type pnmLayout struct {
	width, height int
	maxval        int
	channels      int
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
	h := Header{Format: PNM, Width: l.width, Height: l.height, Orientation: 1, least: int64(l.raster) + l.rasterBytes()}
	if l.plain { // one digit per sample, and a separator between samples
		h.least = int64(l.raster) + 2*int64(l.width)*int64(l.height)*int64(l.channels) - 1
	}
	return h, nil
}

// sampleBytes is the size of a binary sample.
func (l *pnmLayout) sampleBytes() int {
	if l.maxval > 255 {
		return 2
	}
	return 1
}

func (l *pnmLayout) rowBytes() int64 {
	return int64(l.width) * int64(l.channels) * int64(l.sampleBytes())
}

func (l *pnmLayout) rasterBytes() int64 { return l.rowBytes() * int64(l.height) }

func readPNMLayout(data []byte, complete bool) (l pnmLayout, err error) {
	l.channels, l.plain = 1, data[1] < '5'
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
