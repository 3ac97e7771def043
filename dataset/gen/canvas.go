package gen

// canvas is a picture being painted, in JPEG's form: luma at full size, chroma at half size. The
// most frequent kind of file therefore needs no conversion.
type canvas struct {
	w, h      int
	cw, ch    int // of the chroma planes
	y, cb, cr []byte
}

// resize makes the canvas w x h, with arbitrary content, and reuses its memory if possible.
func (c *canvas) resize(w, h int) {
	c.w, c.h, c.cw, c.ch = w, h, (w+1)/2, (h+1)/2
	if cap(c.y) < w*h {
		c.y, c.cb, c.cr = make([]byte, w*h), make([]byte, c.cw*c.ch), make([]byte, c.cw*c.ch)
	}
	if n := c.cw * c.ch; cap(c.cb) < n {
		c.cb, c.cr = make([]byte, n), make([]byte, n)
	}
	c.y, c.cb, c.cr = c.y[:w*h], c.cb[:c.cw*c.ch], c.cr[:c.cw*c.ch]
}

// planes returns the canvas as components of a JPEG file, 4:2:0.
func (c *canvas) planes() []plane {
	return []plane{
		{c.y, c.w, c.h, c.w, 2, 2}, {c.cb, c.cw, c.ch, c.cw, 1, 1}, {c.cr, c.cw, c.ch, c.cw, 1, 1},
	}
}

// rgb converts the canvas to RGB, appended to dst.
func (c *canvas) rgb(dst []byte) []byte {
	start := len(dst)
	dst = append(dst, make([]byte, 3*c.w*c.h)...)
	for y := range c.h {
		out := dst[start+3*y*c.w:][:3*c.w]
		luma := c.y[y*c.w:][:c.w]
		cb, cr := c.cb[y/2*c.cw:][:c.cw], c.cr[y/2*c.cw:][:c.cw]
		for x, v := range luma {
			// The usual JFIF conversion, with 16 fractional bits.
			v, b, r := int(v)<<16+1<<15, int(cb[x/2])-128, int(cr[x/2])-128
			p := out[3*x : 3*x+3 : 3*x+3]
			p[0] = clampByte((v + 91881*r) >> 16)
			p[1] = clampByte((v - 22554*b - 46802*r) >> 16)
			p[2] = clampByte((v + 116130*b) >> 16)
		}
	}
	return dst
}

// tone is a colour in the canvas's form.
type tone struct{ y, cb, cr int }

func rgbTone(r, g, b int) tone {
	return tone{
		(19595*r + 38470*g + 7471*b + 1<<15) >> 16,
		128 + (-11056*r-21712*g+32768*b+1<<15)>>16,
		128 + (32768*r-27440*g-5328*b+1<<15)>>16,
	}
}

// mix interpolates from a (part 0) to b (part 256).
func mix(a, b tone, part int) tone {
	return tone{a.y + (b.y-a.y)*part>>8, a.cb + (b.cb-a.cb)*part>>8, a.cr + (b.cr-a.cr)*part>>8}
}

// lighter adds to the luma.
func (t tone) lighter(d int) tone { return tone{clamp(t.y+d, 0, 255), t.cb, t.cr} }

// vary returns a random tone close to t.
func (t tone) vary(r *rng, luma, chroma int) tone {
	return tone{clamp(t.y+r.between(-luma, luma), 0, 255), t.cb + r.between(-chroma, chroma), t.cr + r.between(-chroma, chroma)}
}

// fill paints columns [x0, x1) of row y.
func (c *canvas) fill(y, x0, x1 int, t tone) {
	x0, x1 = max(x0, 0), min(x1, c.w)
	if y < 0 || y >= c.h || x0 >= x1 {
		return
	}
	setAll(c.y[y*c.w+x0:y*c.w+x1], byte(t.y))
	if y%2 == 0 {
		from, to := y/2*c.cw+(x0+1)/2, y/2*c.cw+(x1+1)/2
		setAll(c.cb[from:to], byte(t.cb))
		setAll(c.cr[from:to], byte(t.cr))
	}
}

func setAll(b []byte, v byte) {
	for i := range b {
		b[i] = v
	}
}

// fillRect paints columns [x0, x1) of rows [y0, y1).
func (c *canvas) fillRect(x0, y0, x1, y1 int, t tone) {
	for y := max(y0, 0); y < min(y1, c.h); y++ {
		c.fill(y, x0, x1, t)
	}
}

// blend paints len(alpha) pixels of row y, starting at column x0, each with its alpha.
func (c *canvas) blend(y, x0 int, alpha []byte, t tone) {
	if x0 < 0 {
		alpha, x0 = alpha[min(-x0, len(alpha)):], 0
	}
	if y < 0 || y >= c.h || x0 >= c.w {
		return
	}
	alpha = alpha[:min(len(alpha), c.w-x0)]
	luma := c.y[y*c.w+x0:][:len(alpha)]
	for i, a := range alpha {
		v := int(luma[i])
		luma[i] = byte(v + ((t.y-v)*int(a)+128)>>8)
	}
	if y%2 == 1 {
		return
	}
	cb, cr := c.cb[y/2*c.cw:][:c.cw], c.cr[y/2*c.cw:][:c.cw]
	for i := x0 & 1; i < len(alpha); i += 2 {
		a, k := int(alpha[i]), (x0+i)/2
		cb[k] = byte(int(cb[k]) + ((t.cb-int(cb[k]))*a+128)>>8)
		cr[k] = byte(int(cr[k]) + ((t.cr-int(cr[k]))*a+128)>>8)
	}
}

// texture adds a row of a tile, times amount/128, to the luma of columns [x0, x1) of row y.
func (c *canvas) texture(y, x0, x1 int, row *[tileSize]int8, offset, amount int) {
	x0, x1 = max(x0, 0), min(x1, c.w)
	if y < 0 || y >= c.h || x0 >= x1 {
		return
	}
	for i, v := range c.y[y*c.w+x0 : y*c.w+x1] {
		c.y[y*c.w+x0+i] = clampByte(int(v) + int(row[(x0+i+offset)&tileMask])*amount>>7)
	}
}

// soften moves each pixel halfway towards the mean of the 2 x 2 around its corner, because
// cameras do not draw edges that are one pixel sharp.
func (c *canvas) soften() {
	for y := range c.h {
		row := c.y[y*c.w:][:c.w]
		below := row
		if y+1 < c.h {
			below = c.y[(y+1)*c.w:][:c.w]
		}
		left := int(row[0]) + int(below[0])
		for x := range row {
			v := int(row[x])
			sum := v + int(below[x])
			row[x] = byte((left + sum + 4*v + 4) >> 3)
			left = sum
		}
	}
}

// expose adds grain, slightly coloured, and darkens the corners: the last steps of every
// picture. luma and chroma are the grain's strength in 1/128, vignette the corners' loss in
// 1/256.
func (c *canvas) expose(t *tiles, r *rng, luma, chroma, vignette int) {
	ox, oy := r.below(tileSize), r.below(tileSize)
	// The loss grows with the square of the distance from the centre.
	scale := vignette << 16 / ((c.w*c.w+c.h*c.h)/4 + 1)
	for y := range c.h {
		row := c.y[y*c.w:][:c.w]
		grain := &t.grain[(y+oy)&tileMask]
		dy := y - c.h/2
		for x, v := range row {
			dx := x - c.w/2
			keep := 256 - (dx*dx+dy*dy)*scale>>16
			row[x] = clampByte(int(v)*keep>>8 + (int(grain[(x+ox)&tileMask])*luma+64)>>7)
		}
	}
	for y := range c.ch {
		cb, cr := c.cb[y*c.cw:][:c.cw], c.cr[y*c.cw:][:c.cw]
		fine := &t.fine[(y+oy)&tileMask]
		for x := range cb {
			cb[x] = clampByte(int(cb[x]) + (int(fine[(x+ox)&tileMask])*chroma+64)>>7)
			cr[x] = clampByte(int(cr[x]) + (int(fine[(x+oy)&tileMask])*chroma+64)>>7)
		}
	}
}

// isin is the sine of a/1024 of a turn, 4096 for 1, by Bhaskara's formula in integers, so that
// pictures are the same everywhere.
func isin(a int) int {
	a &= 1023
	sign := 1
	if a >= 512 {
		a, sign = a-512, -1
	}
	p := a * (512 - a)
	return sign * 4 * p * 4096 / ((5*512*512 - 4*p) / 4)
}

func icos(a int) int { return isin(a + 256) }
