package gen

// picture is a small RGB picture, 3 bytes per pixel, from which the kinds of a mixed dataset are
// made.
type picture struct {
	w, h int
	pix  []byte
}

// crop copies the w x h upper left corner of a canvas.
func (c *canvas) crop(w, h int) picture {
	all := c.rgb(nil)
	p := picture{w, h, make([]byte, 0, 3*w*h)}
	for y := range h {
		p.pix = append(p.pix, all[3*y*c.w:][:3*w]...)
	}
	return p
}

// stored returns the picture to store so that a viewer that applies the EXIF orientation shows
// p.
func (p picture) stored(orientation int) picture {
	s := picture{p.w, p.h, make([]byte, len(p.pix))}
	if orientation >= 5 {
		s.w, s.h = p.h, p.w
	}
	for y := range s.h {
		for x := range s.w {
			sx, sy := orient(orientation, x, y, s.w, s.h)
			copy(s.pix[3*(y*s.w+x):][:3], p.pix[3*(sy*p.w+sx):])
		}
	}
	return s
}

// orient returns where the stored pixel (x, y) of a w x h file is shown.
func orient(orientation, x, y, w, h int) (int, int) {
	switch orientation {
	case 2:
		return w - 1 - x, y
	case 3:
		return w - 1 - x, h - 1 - y
	case 4:
		return x, h - 1 - y
	case 5:
		return y, x
	case 6:
		return h - 1 - y, x
	case 7:
		return h - 1 - y, w - 1 - x
	case 8:
		return y, w - 1 - x
	}
	return x, y
}

// gray returns the luma of each pixel.
func (p picture) gray() []byte {
	g := make([]byte, 0, p.w*p.h)
	for i := 0; i < len(p.pix); i += 3 {
		g = append(g, byte(rgbTone(int(p.pix[i]), int(p.pix[i+1]), int(p.pix[i+2])).y))
	}
	return g
}

// indexed maps each pixel to the palette of cubePalette.
func (p picture) indexed() []byte {
	g := make([]byte, 0, p.w*p.h)
	for i := 0; i < len(p.pix); i += 3 {
		g = append(g, p.pix[i]>>5<<5|p.pix[i+1]>>5<<2|p.pix[i+2]>>6)
	}
	return g
}

// cubePalette returns 256 colours as RGB: 3 bits of red, 3 of green, 2 of blue.
func cubePalette() []byte {
	var p []byte
	for i := range 256 {
		p = append(p, byte(i>>5*255/7), byte(i>>2&7*255/7), byte(i&3*255/3))
	}
	return p
}

// components splits the picture into planes, converted to the colours of the JPEG kind and
// subsampled by averaging.
func (p picture) components(c jpegKind) []plane {
	n := 3
	switch c.color {
	case jpegGray:
		n = 1
	case jpegCMYK, jpegYCCK:
		n = 4
	}
	planes := make([]plane, n)
	for k := range planes {
		planes[k] = plane{pix: make([]byte, 0, p.w*p.h), w: p.w, h: p.h, stride: p.w, hs: 1, vs: 1}
	}
	for i := 0; i < len(p.pix); i += 3 {
		v := c.color.convert(int(p.pix[i]), int(p.pix[i+1]), int(p.pix[i+2]))
		for k := range planes {
			planes[k].pix = append(planes[k].pix, clampByte(v[k]))
		}
	}
	for k := range planes {
		if full := k == 0 || k == 3; full {
			planes[k].hs, planes[k].vs = c.hs, c.vs
		} else {
			planes[k] = planes[k].shrink(c.hs, c.vs)
		}
	}
	return planes
}

// shrink averages boxes of hs x vs samples.
func (p plane) shrink(hs, vs int) plane {
	s := plane{w: ceilDiv(p.w, hs), h: ceilDiv(p.h, vs), hs: 1, vs: 1}
	s.stride = s.w
	for y := range s.h {
		for x := range s.w {
			sum, n := 0, 0
			for j := y * vs; j < min((y+1)*vs, p.h); j++ {
				for i := x * hs; i < min((x+1)*hs, p.w); i++ {
					sum, n = sum+int(p.pix[j*p.stride+i]), n+1
				}
			}
			s.pix = append(s.pix, byte((sum+n/2)/n))
		}
	}
	return s
}

// jpegColor is the meaning of a JPEG file's components.
type jpegColor uint8

const (
	jpegYCC jpegColor = iota
	jpegGray
	jpegRGB
	jpegCMYK
	jpegYCCK
)

// convert returns a pixel's components. Black takes over what the colours have in common. Ink is
// stored as Adobe does it, inverted, except where YCC represents it.
func (c jpegColor) convert(r, g, b int) [4]int {
	switch c {
	case jpegRGB:
		return [4]int{r, g, b}
	case jpegCMYK, jpegYCCK:
		k := max(r, g, b, 1)
		r, g, b = (r*255+k/2)/k, (g*255+k/2)/k, (b*255+k/2)/k
		if c == jpegCMYK {
			return [4]int{r, g, b, k}
		}
		t := rgbTone(255-r, 255-g, 255-b)
		return [4]int{t.y, t.cb, t.cr, k}
	}
	t := rgbTone(r, g, b)
	return [4]int{t.y, t.cb, t.cr}
}
