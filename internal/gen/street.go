package gen

import "image"

// view is a camera in the middle of a road: at depth z metres, a metre is focus/z pixels, and
// the road vanishes at (x, y).
type view struct{ focus, x, y int }

const camera = 16 // height of the eye above the road, in tenths of a metre

// metres returns the length in pixels of d tenths of a metre at z metres.
func (v view) metres(d, z int) int { return v.focus * d / (10 * z) }

// street paints a view down a road, as from a car, in one perspective: houses on both sides, trees,
// and other cars.
func (p *painter) street() {
	v := view{focus: p.w * 9 / 16, x: p.w * p.r.between(45, 55) / 100, y: p.h * p.r.between(40, 48) / 100}
	p.truth.is(sky)
	p.sky(v.y + 1)
	p.road(v)
	half := p.r.between(8, 12) // metres from the middle of the road to the houses
	for _, side := range [2]int{-1, 1} {
		for z := 4; z < 160; {
			to := z + p.r.between(8, 18)
			p.truth.is(building)
			p.house(v, side, half, z, to)
			z = to
		}
	}
	for z := 70; z > 8; z -= p.r.between(2, 3+z/8) { // far before near
		side := 2*p.r.IntN(2) - 1
		foot := v.y + v.metres(camera, z)
		if p.r.IntN(2) == 0 {
			p.truth.is(vegetation)
			p.tree(v.x+v.metres(side*(half-1)*10, z), foot, v.metres(p.r.between(50, 90), z))
		} else {
			p.truth.is(car)
			p.car(v.x+v.metres(side*p.r.between(20, 45), z), foot, v.metres(9, z), v.metres(15, z))
		}
	}
	if p.truth != nil {
		people(p, v)
	}
}

// people paints people on the pavements.
func people(p *painter, v view) {
	for z := 40; z > 9; z -= p.r.between(2, 9) { // far before near
		side := 2*p.r.IntN(2) - 1
		standing(p, v.x+v.metres(side*p.r.between(60, 75), z), v.y+v.metres(camera, z), v.metres(p.r.between(15, 19), z))
	}
}

// standing paints a standing person.
func standing(p *painter, cx, foot, h int) {
	w := h / 5 // half of it
	p.truth.next(image.Rect(cx-w, foot-h, cx+w, foot))
	coat, trousers := p.random(tone{20, 20, 20}, tone{220, 210, 210}), p.random(tone{20, 20, 30}, tone{90, 90, 120})
	p.box(cx-w*7/10, foot-h/2, cx-w/10, foot, trousers)
	p.box(cx+w/10, foot-h/2, cx+w*7/10, foot, trousers)
	p.box(cx-w, foot-h*82/100, cx+w, foot-h*45/100, coat)
	p.box(cx-w/2, foot-h, cx+w/2, foot-h*83/100, p.vary(tone{190, 140, 110}, 40, 10))
}

// road paints asphalt, pavements and lane markings.
func (p *painter) road(v view) {
	asphalt := p.vary(tone{96, 96, 100}, 20, 2)
	pavement, paint := p.vary(asphalt.lighter(35), 8, 3), tone{215, 215, 210}
	p.fill(0, v.y+1, p.w, p.h, func(x, y int) (tone, int) {
		below := y - v.y
		p.truth.is(road)
		across := max(x-v.x, v.x-x) * camera / below // from the middle, in tenths of a metre
		switch dash := v.focus * camera / below / 30 % 2; {
		case across == 0 && dash == 0, across >= 53 && across <= 54:
			return paint, 256
		case across < 60:
			return asphalt, 256
		}
		p.truth.is(sidewalk)
		return pavement, 256
	})
	p.texture(v.y+1, p.h, p.noise(p.tiles.fine, 1), 20)
	p.texture(v.y+1, p.h, p.noise(p.tiles.soft, 6), 15)
}

// house paints the house from z0 to z1 metres away on one side of the street. Depth follows from
// the column, so windows are arithmetic on column and row. Lengths are in tenths of a metre.
func (p *painter) house(v view, side, half, z0, z1 int) {
	walls := [...]tone{{196, 178, 150}, {170, 120, 96}, {205, 198, 186}, {160, 160, 158}, {200, 170, 110}, {150, 96, 80}}
	wall := p.vary(walls[p.r.IntN(len(walls))], 15, 8)
	roof, window, floor := p.r.between(90, 200), p.r.between(14, 22), p.r.between(28, 36)
	plaster, grain := p.noise(p.tiles.rough, 1), p.noise(p.tiles.fine, 1)
	x0, x1 := v.x+v.metres(side*half*10, z1), v.x+v.metres(side*half*10, z0)
	p.fill(min(x0, x1), 0, max(x0, x1), p.h, func(x, y int) (tone, int) {
		away := max(side*(x-v.x), 1)
		z := v.focus * half * 10 / away
		height := camera + (v.y-y)*half*10/away
		if height < 0 || height > roof {
			return wall, 0
		}
		haze := min(z/8, 140) // far houses fade
		t, level := mix(wall, tone{190, 200, 210}, haze), height%floor
		switch inWindow := z%(2*window) > window*2/3; {
		case height > roof-6, height < floor && inWindow: // the eaves, a shop
			t = t.lighter(-50)
		case inWindow && level > floor/3 && level < floor*9/10:
			t = mix(tone{50, 62, 75}, t, 60+haze/2).lighter(level)
		case inWindow && level > floor/4: // a window's frame
			t = t.lighter(25)
		}
		return t.lighter(plaster(z, height*4)>>3 + grain(x, y)>>5), 256
	})
}

// car paints a car, half of it w wide and all of it h high, from behind or from the front.
func (p *painter) car(cx, foot, w, h int) {
	paint, dark := p.random(tone{20, 20, 20}, tone{220, 210, 210}), tone{18, 18, 20}
	p.ellipse(cx, foot, w*5/4, h/8+1, 230, true, dark)
	p.box(cx-w*9/10, foot-h/4, cx-w*6/10, foot, dark)
	p.box(cx+w*6/10, foot-h/4, cx+w*9/10, foot, dark)
	p.fill(cx-w, foot-h, cx+w, foot-h/8, func(x, y int) (tone, int) {
		rise, aside := foot-y, max(x-cx, cx-x)
		half := w - max(w*(rise-h*6/10)/(h+1), 0) // the cabin narrows towards the roof
		switch {
		case aside > half:
			return dark, 0
		case rise > h*63/100 && rise < h*93/100 && aside < half*85/100:
			return tone{45, 55, 65}.lighter(rise*40/(h+1) - 20), 256
		}
		return paint.lighter(rise*60/(h+1) - 25), 256
	})
	lights := [...]tone{{190, 30, 30}, {235, 235, 220}}[p.r.IntN(2)]
	p.box(cx-w*95/100, foot-h*55/100, cx-w*65/100, foot-h*43/100, lights)
	p.box(cx+w*65/100, foot-h*55/100, cx+w*95/100, foot-h*43/100, lights)
}
