package decode

// gray601 weighs RGB by BT.601, in 16-bit fixed point; rows.c uses the same formula.
func gray601(r, g, b uint8) uint8 {
	return uint8((19595*uint32(r) + 38470*uint32(g) + 7471*uint32(b) + 32768) >> 16)
}

// pixel converts an RGB pixel; for gray, only the first byte is used.
func (c Color) pixel(r, g, b uint8) [3]uint8 {
	if c == Gray {
		return [3]uint8{gray601(r, g, b)}
	}
	return [3]uint8{r, g, b}
}

// put writes a pixel of the stored image, if it is in the region, as stored.
func (v *view) put(dst Image, x, y int, pixel [3]uint8) {
	if x -= v.Region.X; x < 0 || x >= v.Region.W {
		return
	}
	if y -= v.Region.Y; y < 0 || y >= v.Region.H {
		return
	}
	n := v.Color.Channels()
	copy(dst.Pix[y*dst.Stride+x*n:][:n], pixel[:])
}

// weigh converts pixels that are step bytes apart to gray. Green is byte 1 of each pixel; red
// and blue are the given bytes.
func weigh(to, from []byte, step, red, blue int) {
	for i := range to {
		p := from[i*step : i*step+3]
		to[i] = gray601(p[red], p[1], p[blue])
	}
}

// repeat expands gray pixels to RGB.
func repeat(to, from []byte) {
	for x, g := range from {
		p := to[3*x : 3*x+3]
		p[0], p[1], p[2] = g, g, g
	}
}

// row writes row y of a whole image, as packed pixels: RGB from Go's decoders, whatever the colour.
type row func(y int, to []byte)

// emit cuts a view out of a whole image's rows and places it in dst.
func emit(dst Image, v view, source row) {
	if v.Color == Gray {
		rgb, line := source, make([]byte, 3*v.Header.Width)
		source = func(y int, to []byte) {
			rgb(y, line)
			weigh(to, line, 3, 0, 2)
		}
	}
	c := v.Color.Channels()
	p := place(v.Orientation, v.Region.W, v.Region.H, v.Color.Channels(), dst.Stride)
	width, _ := v.Header.At(v.Scale)
	if v.Scale != 1 {
		source = averaged(source, v, width)
	}
	line := make([]byte, width*c)
	for y := range v.Region.H {
		source(v.Region.Y+y, line)
		at := p.base + y*p.dy
		for x := range v.Region.W {
			copy(dst.Pix[at+x*p.dx:][:c], line[(v.Region.X+x)*c:])
		}
	}
}

// averaged scales rows down by the view's scale: each pixel is the mean of the pixels it covers.
func averaged(source row, v view, width int) row {
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
