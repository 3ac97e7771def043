package gen

import (
	"image"
	"math"
)

// painter draws scenes. Every worker has its own; what it draws depends on its generator alone.
type painter struct {
	img    *image.RGBA
	w, h   int
	tiles  *tiles
	r      rng
	truth  *truth  // of a street; nil: not requested
	shapes []shape // of a picture of kind Coco
}

// start makes the picture w x h. Scenes paint all of it.
func (p *painter) start(w, h int, r rng) {
	p.img, p.w, p.h, p.r = image.NewRGBA(image.Rect(0, 0, w, h)), w, h, r
}

// tone is a colour; its channels may leave 0..255 until they are painted.
type tone struct{ r, g, b int }

// mix interpolates from a (part 0) to b (part 256).
func mix(a, b tone, part int) tone {
	return tone{a.r + (b.r-a.r)*part>>8, a.g + (b.g-a.g)*part>>8, a.b + (b.b-a.b)*part>>8}
}

func (t tone) lighter(d int) tone { return tone{t.r + d, t.g + d, t.b + d} }

// vary returns a random tone close to t.
func (p *painter) vary(t tone, light, colour int) tone {
	t = t.lighter(p.r.between(-light, light))
	return tone{t.r + p.r.between(-colour, colour), t.g, t.b + p.r.between(-colour, colour)}
}

// random returns a tone of channels from low to high.
func (p *painter) random(low, high tone) tone {
	return tone{p.r.between(low.r, high.r), p.r.between(low.g, high.g), p.r.between(low.b, high.b)}
}

// noise reads a tile from a random offset; flatten stretches its shapes sideways.
func (p *painter) noise(t *tile, flatten int) func(x, y int) int {
	ox, oy := p.r.IntN(tileSize), p.r.IntN(tileSize)
	return func(x, y int) int { return int(t[(y*flatten+oy)&tileMask][(x+ox)&tileMask]) }
}

// fill paints columns [x0, x1) of rows [y0, y1). at returns the tone and the alpha, 0..256, of a
// pixel.
func (p *painter) fill(x0, y0, x1, y1 int, at func(x, y int) (tone, int)) {
	x0, x1 = max(x0, 0), min(x1, p.w)
	for y := max(y0, 0); y < min(y1, p.h); y++ {
		for x := x0; x < x1; x++ {
			t, alpha := at(x, y)
			if alpha <= 0 {
				continue
			}
			if p.truth != nil && alpha > 127 {
				p.truth.ids[y*p.w+x] = p.truth.label
			}
			pix := p.img.Pix[4*(y*p.w+x):][:4:4]
			for c, v := range [3]int{t.r, t.g, t.b} {
				old := int(pix[c])
				pix[c] = byte(clamp(old+(v-old)*min(alpha, 256)>>8, 0, 255))
			}
			pix[3] = 255
		}
	}
}

// box paints columns [x0, x1) of rows [y0, y1).
func (p *painter) box(x0, y0, x1, y1 int, t tone) {
	p.fill(x0, y0, x1, y1, func(int, int) (tone, int) { return t, 256 })
}

// gradient fills rows [y0, y1) from one tone to another.
func (p *painter) gradient(y0, y1 int, top, bottom tone) {
	p.fill(0, y0, p.w, y1, func(_, y int) (tone, int) { return mix(top, bottom, (y-y0)*256/(y1-y0)), 256 })
}

// stain blends a tone over rows [y0, y1) where noise is above a threshold.
func (p *painter) stain(y0, y1 int, noise func(x, y int) int, threshold, gain int, t tone) {
	p.fill(0, y0, p.w, y1, func(x, y int) (tone, int) { return t, (noise(x, y) - threshold) * gain })
}

// texture adds noise, times amount/128, to rows [y0, y1).
func (p *painter) texture(y0, y1 int, noise func(x, y int) int, amount int) {
	for y := max(y0, 0); y < min(y1, p.h); y++ {
		for x := range p.w {
			pix, d := p.img.Pix[4*(y*p.w+x):][:3:3], noise(x, y)*amount>>7
			for c, v := range pix {
				pix[c] = byte(clamp(int(v)+d, 0, 255))
			}
		}
	}
}

// ellipse blends an ellipse; if soft, it fades towards its rim.
func (p *painter) ellipse(cx, cy, rx, ry, alpha int, soft bool, t tone) {
	rx, ry = max(rx, 1), max(ry, 1)
	p.fill(cx-rx, cy-ry, cx+rx+1, cy+ry+1, func(x, y int) (tone, int) {
		inside := 4096 - (x-cx)*(x-cx)*4096/(rx*rx) - (y-cy)*(y-cy)*4096/(ry*ry)
		if inside > 0 && !soft {
			return t, alpha
		}
		return t, alpha * inside >> 12
	})
}

// ball paints a shaded sphere with a highlight and a rough surface.
func (p *painter) ball(cx, cy, radius int, t tone, roughness int) {
	surface := p.noise(p.tiles.rough, 1)
	p.fill(cx-radius, cy-radius, cx+radius+1, cy+radius+1, func(x, y int) (tone, int) {
		dx, dy := x-cx, y-cy
		front := radius*radius - dx*dx - dy*dy
		if front < 0 {
			return t, 0
		}
		// Light from the upper left and the front: (-4, -5, 6) over about 8.8. Square roots are
		// exact on every processor, unlike most floating-point functions.
		lit := max((-4*dx-5*dy+6*int(math.Sqrt(float64(front))))*29/radius, 0) // 0..256
		shine := max(lit-228, 0)
		part := 70 + lit*3/4
		return tone{t.r * part >> 8, t.g * part >> 8, t.b * part >> 8}.lighter(shine*shine/6 + surface(x, y)*roughness>>7), 256
	})
}

// leaf paints an ellipse with radii long and wide, turned by angle (1024 is a full turn), slimmer
// towards its tip, and lit along its width.
func (p *painter) leaf(cx, cy, long, wide, angle int, t tone) {
	sin, cos := isin(angle), isin(angle+256)
	surface := p.noise(p.tiles.rough, 1)
	p.fill(cx-long, cy-long, cx+long+1, cy+long+1, func(x, y int) (tone, int) {
		u := ((x-cx)*cos + (y-cy)*sin) / long // the rim is at 4096
		v := ((y-cy)*cos - (x-cx)*sin) / wide
		slim := 5120 - u*5/8
		if u < -4096 || u > 4096 || u*u+(v*4096/slim)*(v*4096/slim) > 4096*4096 {
			return t, 0
		}
		return t.lighter(v*24>>12 + surface(x, y)>>2), 256
	})
}

// isin is the sine of a/1024 of a turn, 4096 for 1, by Bhaskara's formula in integers.
func isin(a int) int {
	a &= 1023
	sign := 1
	if a >= 512 {
		a, sign = a-512, -1
	}
	p := a * (512 - a)
	return sign * 4 * p * 4096 / ((5*512*512 - 4*p) / 4)
}

// finish adds what a camera does to every picture: edges that are slightly blurred, darker corners,
// and grain, in 1/128. The vignette is the corners' loss in 1/256.
func (p *painter) finish(grain, vignette int) {
	noise := p.noise(p.tiles.grain, 1)
	scale := vignette << 16 / ((p.w*p.w+p.h*p.h)/4 + 1)
	for y := range p.h {
		row := p.img.Pix[4*y*p.w:][:4*p.w]
		below := p.img.Pix[4*min(y+1, p.h-1)*p.w:][:4*p.w]
		dy := y - p.h/2
		for x := range p.w {
			right := 4 * min(x+1, p.w-1)
			dx := x - p.w/2
			keep := 256 - (dx*dx+dy*dy)*scale>>16
			for c := range 3 {
				i := 4*x + c
				v := (5*int(row[i]) + int(row[right+c]) + int(below[i]) + int(below[right+c])) >> 3
				row[i] = byte(clamp(v*keep>>8+noise(x+c*99, y)*grain>>7, 0, 255))
			}
		}
	}
}
