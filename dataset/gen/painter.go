package gen

import "math"

// painter draws scenes. Every worker has its own; its output depends on its generator alone.
type painter struct {
	canvas
	tiles *tiles
	r     rng
	alpha []byte // one row
	ridge []int  // one row
}

// row returns the painter's row buffer for n alpha values.
func (p *painter) row(n int) []byte {
	if cap(p.alpha) < n {
		p.alpha = make([]byte, n)
	}
	return p.alpha[:n]
}

// place is a random offset into a tile.
func (p *painter) place() int { return p.r.below(tileSize) }

// gradient fills rows [y0, y1) from one tone to another.
func (p *painter) gradient(y0, y1 int, top, bottom tone) {
	for y := max(y0, 0); y < min(y1, p.h); y++ {
		p.fill(y, 0, p.w, mix(top, bottom, (y-y0)*256/(y1-y0)))
	}
}

// stain blends a tone over rows [y0, y1) where a tile is above a threshold; flatten stretches
// its shapes sideways.
func (p *painter) stain(y0, y1 int, tl *tile, threshold, gain, flatten int, t tone) {
	ox, oy := p.place(), p.place()
	alpha := p.row(p.w)
	for y := max(y0, 0); y < min(y1, p.h); y++ {
		row := &tl[(y*flatten+oy)&tileMask]
		for x := range alpha {
			alpha[x] = clampByte((int(row[(x+ox)&tileMask]) - threshold) * gain)
		}
		p.blend(y, 0, alpha, t)
	}
}

// texturize adds a tile to rows [y0, y1), stretched sideways by flatten.
func (p *painter) texturize(y0, y1 int, tl *tile, amount, flatten int) {
	ox, oy := p.place(), p.place()
	for y := max(y0, 0); y < min(y1, p.h); y++ {
		p.texture(y, 0, p.w, &tl[(y*flatten+oy)&tileMask], ox, amount)
	}
}

// disc blends a round spot; if soft, alpha falls off from strength at the centre with the square
// of the distance, otherwise it is constant up to the rim.
func (p *painter) disc(cx, cy, radius, strength int, soft bool, t tone) {
	p.ellipse(cx, cy, radius, radius, strength, soft, t)
}

// ellipse is a disc with two radii.
func (p *painter) ellipse(cx, cy, rx, ry, strength int, soft bool, t tone) {
	if rx < 1 || ry < 1 {
		return
	}
	for y := max(cy-ry, 0); y < min(cy+ry+1, p.h); y++ {
		half := rx * isqrt(ry*ry-(y-cy)*(y-cy)) / ry
		alpha := p.row(2*half + 1)
		rise := (y - cy) * (y - cy) * 4096 / (ry * ry)
		each := 4096 * 256 / (rx * rx)
		for i := range alpha {
			a := strength
			if soft {
				d := rise + (i-half)*(i-half)*each>>8
				a = strength * max(4096-d, 0) >> 12
			}
			alpha[i] = clampByte(a)
		}
		p.blend(y, cx-half, alpha, t)
	}
}

// ball draws a shaded sphere with a highlight and a surface from a tile.
func (p *painter) ball(cx, cy, radius int, t tone, tl *tile, amount int) {
	if radius < 1 {
		return
	}
	ox, oy := p.place(), p.place()
	bounce := t.lighter(-60)
	for y := max(cy-radius, 0); y < min(cy+radius+1, p.h); y++ {
		dy := y - cy
		span := radius*radius - dy*dy
		half := isqrt(span)
		x0, x1 := max(cx-half, 0), min(cx+half+1, p.w)
		p.fill(y, x0, x1, mix(t, bounce, clamp((dy+radius)*128/radius, 0, 256)))
		surface := &tl[(y+oy)&tileMask]
		for x := x0; x < x1; x++ {
			dx := x - cx
			dz := isqrt(max(span-dx*dx, 0))
			// Light from the upper left and the front: (-4, -5, 6) over about 8.8.
			lit := max((-4*dx-5*dy+6*dz)*29/radius, 0) // 0..256
			shine := max(lit-228, 0)
			v := t.y*(70+lit*3/4)>>8 + shine*shine/6 + int(surface[(x+ox)&tileMask])*amount>>7
			p.y[y*p.w+x] = clampByte(v)
		}
	}
}

// leaf draws an ellipse with radii long and wide, turned by angle (1024 is a full turn), slimmer
// towards its tip, lit along its width and with a vein; it is the brush for leaves and petals.
func (p *painter) leaf(cx, cy, long, wide, angle int, t tone) {
	if long < 1 || wide < 1 {
		return
	}
	sin, cos := isin(angle), icos(angle)
	// Steps per pixel along the leaf's own axes, where the rim is at 1<<16. Their products need
	// more than 32 bits.
	ux, uy := int64(cos<<4/long), int64(sin<<4/long)
	vx, vy := int64(-sin<<4/wide), int64(cos<<4/wide)
	surface, vein := p.place(), int64(3<<14/wide)
	for y := max(cy-long, 0); y < min(cy+long+1, p.h); y++ {
		x0, x1 := turnedSpan(y-cy, long, wide*15/8, sin, cos)
		x0, x1 = max(cx+x0, 0), min(cx+x1, p.w)
		dx, dy := int64(x0-cx), int64(y-cy)
		u, v := dx*ux+dy*uy, dx*vx+dy*vy
		tex := &p.tiles.rough[(y+surface)&tileMask]
		luma := p.y[y*p.w:][:p.w]
		first, last := -1, -2
		for x := x0; x < x1; x++ {
			slim := 1<<16 + 1<<14 - u*5/8
			round := 1<<32 - u*u
			if round > 0 && v*v < (round>>16)*(slim>>8)*(slim>>8) {
				if first < 0 {
					first = x
				}
				last = x
				shade := int(v*24>>16) + int(tex[(x+surface)&tileMask])>>2
				if v > -vein && v < vein {
					shade += 14
				}
				luma[x] = clampByte(t.y + shade)
			}
			u, v = u+ux, v+vx
		}
		if y%2 == 0 {
			p.tint(y, first, last+1, t)
		}
	}
}

// turnedSpan returns the columns [x0, x1) where row dy crosses an ellipse of radii a and b
// around the origin, turned by the angle with the given sin and cos.
func turnedSpan(dy, a, b, sin, cos int) (x0, x1 int) {
	aa, bb := int64(a*a), int64(b*b)
	across := (bb*int64(cos*cos>>8) + aa*int64(sin*sin>>8)) >> 8 // in 1/256
	inside := across - int64(dy*dy)<<8
	if inside < 0 || across == 0 {
		return 0, 0
	}
	half := int(int64(a*b)*isqrt64(inside<<8)/across) + 1
	centre := int(int64(dy) * (int64(sin*cos>>8) * (aa - bb) >> 8) / across)
	return centre - half, centre + half + 1
}

// tint sets the chroma of columns [x0, x1) of row y and keeps the luma.
func (p *painter) tint(y, x0, x1 int, t tone) {
	from, to := y/2*p.cw+(x0+1)/2, y/2*p.cw+(x1+1)/2
	if x0 < 0 || from >= to {
		return
	}
	setAll(p.cb[from:to], byte(t.cb))
	setAll(p.cr[from:to], byte(t.cr))
}

// isqrt is the integer part of a square root; 0 for negative numbers. Square roots are exact to
// the last bit on every processor, unlike most floating-point functions.
func isqrt(n int) int { return int(isqrt64(int64(n))) }

func isqrt64(n int64) int64 {
	if n <= 0 {
		return 0
	}
	return int64(math.Sqrt(float64(n)))
}
