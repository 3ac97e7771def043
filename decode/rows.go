package decode

// gray601 weighs RGB as BT.601 does, in 16-bit fixed point; rows.c has the same.
func gray601(r, g, b uint8) uint8 {
	return uint8((19595*uint32(r) + 38470*uint32(g) + 7471*uint32(b) + 32768) >> 16)
}

// weigh makes gray of pixels that are step bytes apart, with red and blue at the given
// bytes of each, and green at 1.
func weigh(to, from []byte, step, red, blue int) {
	for i := range to {
		p := from[i*step : i*step+3]
		to[i] = gray601(p[red], p[1], p[blue])
	}
}

// repeat makes RGB of gray pixels.
func repeat(to, from []byte) {
	for x, g := range from {
		p := to[3*x : 3*x+3]
		p[0], p[1], p[2] = g, g, g
	}
}

// row makes row y of a whole image, as packed pixels of the wanted colour.
type row func(y int, to []byte)

// grayOf makes gray rows of RGB ones.
func grayOf(rgb row, width int) row {
	line := make([]byte, 3*width)
	return func(y int, to []byte) {
		rgb(y, line)
		weigh(to, line, 3, 0, 2)
	}
}

// rgbOf makes RGB rows of gray ones.
func rgbOf(gray row, width int) row {
	line := make([]byte, width)
	return func(y int, to []byte) {
		gray(y, line)
		repeat(to, line)
	}
}

// emit cuts a view out of a whole image's rows and places it in dst.
func emit(dst Image, v View, source row) {
	c := v.Color.Channels()
	p := v.placement(dst.Stride)
	width, _ := v.Header.At(v.Scale)
	if v.Scale != 1 {
		source = averaged(source, v, width)
	}
	inPlace := p.dx == c && v.Region.W == width
	line := make([]byte, width*c)
	for y := range v.Region.H {
		at := p.base + y*p.dy
		if inPlace {
			source(v.Region.Y+y, dst.Pix[at:at+width*c])
			continue
		}
		source(v.Region.Y+y, line)
		placeRow(dst.Pix, at, p.dx, line[v.Region.X*c:][:v.Region.W*c], c)
	}
}

// placeRow puts a row's pixels dx apart.
func placeRow(pix []byte, at, dx int, line []byte, c int) {
	for x := 0; x < len(line); x += c {
		copy(pix[at:at+c], line[x:x+c])
		at += dx
	}
}

// averaged makes rows of an image that is smaller by the view's scale: each
// pixel the mean of those it covers.
func averaged(source row, v View, width int) row {
	c, s := v.Color.Channels(), v.Scale
	line := make([]byte, v.Header.Width*c)
	sum := make([]uint32, width*c)
	return func(y int, to []byte) {
		clear(sum)
		top, bottom := y*s, min((y+1)*s, v.Header.Height)
		for sy := top; sy < bottom; sy++ {
			source(sy, line)
			for i, b := range line {
				sum[i/c/s*c+i%c] += uint32(b)
			}
		}
		for i := range to {
			n := uint32((min((i/c+1)*s, v.Header.Width) - i/c*s) * (bottom - top))
			to[i] = uint8((sum[i] + n/2) / n)
		}
	}
}
