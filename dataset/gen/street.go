package gen

// street paints a view down a road, as from a car: houses on both sides, trees, other cars,
// people. All of it shares one perspective: at depth z, a metre is focus/z pixels, and the road
// lies camera tenths of a metre below the eye. detail is the strength of rough textures, in
// percent.
func (p *painter) street(detail int) {
	v := view{focus: p.w * 9 / 16, x: p.w * p.r.between(45, 55) / 100, y: p.h * p.r.between(40, 48) / 100}
	zenith, low := p.skyTones()
	p.gradient(0, v.y+1, zenith, low)
	p.stain(0, v.y, p.tiles.soft, p.r.between(0, 30), 4, 2, rgbTone(245, 245, 248))
	p.road(v, detail)
	half := p.r.between(8, 12) // metres from the middle of the road to the houses
	for _, side := range [2]int{-1, 1} {
		p.houses(v, side, half, detail)
	}
	for z := 70; z > 8; z -= p.r.between(2, 3+z/8) { // far before near
		side := 2*p.r.below(2) - 1
		switch p.r.below(4) {
		case 0:
			x, foot := v.at(side*(half-1)*10, z)
			p.tree(x, foot, v.metres(p.r.between(50, 90), z))
		case 1:
			p.person(v, side*p.r.between(50, 10*half-15), z)
		case 2:
			p.lamp(v, side*(half-2)*10, z)
		default:
			p.car(v, side*p.r.between(20, 45), z)
		}
	}
}

// view is where the road vanishes, and the size in pixels of a metre at a distance of one.
type view struct{ focus, x, y int }

const camera = 16 // height of the eye above the road, in tenths of a metre

// metres returns the length in pixels of d tenths of a metre at z metres.
func (v view) metres(d, z int) int { return v.focus * d / (10 * z) }

// at returns where a point of the road, d tenths of a metre from its middle, is seen.
func (v view) at(d, z int) (x, y int) { return v.x + v.metres(d, z), v.y + v.metres(camera, z) }

// road paints asphalt, pavements and lane markings, a row at a time.
func (p *painter) road(v view, detail int) {
	asphalt := rgbTone(96, 96, 100).vary(&p.r, 20, 2)
	pavement := asphalt.lighter(35).vary(&p.r, 8, 3)
	paint := rgbTone(215, 215, 210)
	ox, oy := p.place(), p.place()
	for y := v.y + 1; y < p.h; y++ {
		tenth := max((y-v.y)*16/camera, 1) // a tenth of a metre, in 1/16 pixels
		z := v.focus * camera / (y - v.y)  // in tenths of a metre
		p.fill(y, 0, p.w, pavement)
		edge := 60 * tenth / 16
		p.fill(y, v.x-edge, v.x+edge, asphalt)
		p.fill(y, v.x-edge-tenth/6, v.x-edge, asphalt.lighter(-30))
		p.fill(y, v.x+edge, v.x+edge+tenth/6, asphalt.lighter(-30))
		if z/30%2 == 0 {
			p.fill(y, v.x-tenth/16-1, v.x+tenth/16+1, paint)
		}
		for _, side := range [2]int{-1, 1} {
			x := v.x + side*54*tenth/16
			p.fill(y, x-tenth/16, x+tenth/16+1, paint)
		}
		p.texture(y, 0, p.w, &p.tiles.fine[(y+oy)&tileMask], ox, detail/2)
		p.texture(y, 0, p.w, &p.tiles.soft[(z+oy)&tileMask], ox, 10+detail/5)
	}
}

// houses paints one side of the street. Depth follows from the column, so windows are arithmetic
// on column and row.
func (p *painter) houses(v view, side, half, detail int) {
	walls := [...]tone{
		rgbTone(196, 178, 150), rgbTone(170, 120, 96), rgbTone(205, 198, 186), rgbTone(160, 160, 158),
		rgbTone(200, 170, 110), rgbTone(150, 96, 80), rgbTone(140, 150, 150), rgbTone(214, 196, 170),
	}
	z0 := 4
	for z0 < 160 {
		z1 := z0 + p.r.between(8, 18)
		wall := walls[p.r.below(len(walls))].vary(&p.r, 15, 4)
		h := house{wall: wall, roof: p.r.between(90, 200), window: p.r.between(14, 22), floor: p.r.between(28, 36), grain: detail / 5, ox: p.place()}
		x0, _ := v.at(side*half*10, z1)
		x1, _ := v.at(side*half*10, z0)
		if side < 0 {
			x0, x1 = x1, x0
		}
		for x := max(x0, 0); x < min(x1, p.w); x++ {
			p.facade(v, h, x, side, half)
		}
		z0 = z1
	}
}

// house is one building: lengths in tenths of a metre.
type house struct {
	wall                tone
	roof, window, floor int
	grain, ox           int // strength and place of its texture
}

// facade paints one column of a house.
func (p *painter) facade(v view, h house, x, side, half int) {
	away := max(side*(x-v.x), 1)
	z := v.focus * half * 10 / away                   // in tenths of a metre
	unit := half * 10 << 16 / away                    // tenths of a metre per pixel, in 1/65536
	haze := min(z/8, 140)                             // far houses fade
	inWindow := z%(2*h.window) > h.window*2/3         // windows alternate with wall
	top := max(v.y-(h.roof-camera)*away/(half*10), 0) // roofs are above the eye
	foot := min(v.y+camera*away/(half*10)+1, p.h)     // and the road is below
	wall := mix(h.wall, rgbTone(190, 200, 210), haze)
	glass := mix(rgbTone(50, 62, 75), wall, 60+haze/2)
	frame, shop := wall.lighter(25), wall.lighter(-50)
	for y := top; y < foot; y++ {
		height := camera + (v.y-y)*unit>>16
		level := height % h.floor
		t := wall
		switch {
		case height > h.roof-6:
			t = shop
		case height < h.floor && inWindow:
			t = shop
		case inWindow && level > h.floor/3 && level < h.floor*9/10:
			t = glass.lighter(level)
		case inWindow && level > h.floor/4:
			t = frame
		}
		plaster := int(p.tiles.rough[(height*4)&tileMask][(z+h.ox)&tileMask]) >> 3
		grain := int(p.tiles.fine[y&tileMask][(x+h.ox)&tileMask]) * h.grain >> 7
		p.y[y*p.w+x] = clampByte(t.y + plaster + grain)
		if x%2 == 0 && y%2 == 0 {
			p.cb[y/2*p.cw+x/2], p.cr[y/2*p.cw+x/2] = byte(t.cb), byte(t.cr)
		}
	}
}

// car paints a car from behind, or from the front.
func (p *painter) car(v view, d, z int) {
	cx, foot := v.at(d, z)
	w, h := v.metres(9, z), v.metres(15, z) // half the width, and the height
	paint := tone{p.r.between(30, 210), 128 + p.r.between(-25, 25), 128 + p.r.between(-20, 40)}
	dark := rgbTone(18, 18, 20)
	p.ellipse(cx, foot, w*5/4, h/8+1, 230, true, dark)
	p.fillRect(cx-w*9/10, foot-h/4, cx-w*6/10, foot, dark)
	p.fillRect(cx+w*6/10, foot-h/4, cx+w*9/10, foot, dark)
	for y := foot - h; y < foot-h/8; y++ {
		rise := foot - y
		half := w
		if rise > h*6/10 { // the cabin narrows towards the roof
			half = w - w*(rise-h*6/10)/(h+1)
		}
		p.fill(y, cx-half, cx+half, paint.lighter(rise*60/(h+1)-25))
		if rise > h*63/100 && rise < h*93/100 {
			p.fill(y, cx-half*85/100, cx+half*85/100, rgbTone(45, 55, 65).lighter(rise*40/(h+1)-20))
		}
	}
	lights := rgbTone(190, 30, 30)
	if p.r.chance(40) {
		lights = rgbTone(235, 235, 220)
	}
	p.fillRect(cx-w*95/100, foot-h*55/100, cx-w*65/100, foot-h*43/100, lights)
	p.fillRect(cx+w*65/100, foot-h*55/100, cx+w*95/100, foot-h*43/100, lights)
	p.fillRect(cx-w/4, foot-h*40/100, cx+w/4, foot-h*32/100, rgbTone(225, 225, 215))
}

// person paints a standing or walking person.
func (p *painter) person(v view, d, z int) {
	cx, foot := v.at(d, z)
	h := v.metres(17, z)
	coat := tone{p.r.between(30, 190), 128 + p.r.between(-30, 30), 128 + p.r.between(-25, 40)}
	p.ellipse(cx, foot, h/4, h/24+1, 150, true, rgbTone(20, 20, 20))
	p.fillRect(cx-h/12, foot-h/2, cx-h/60, foot, rgbTone(45, 45, 60))
	p.fillRect(cx+h/60, foot-h/2, cx+h/12+1, foot, rgbTone(40, 40, 52))
	p.ellipse(cx, foot-h*62/100, h/8+1, h/5, 250, false, coat)
	p.ellipse(cx, foot-h*91/100, h/16+1, h/12+1, 250, false, rgbTone(205, 160, 130).vary(&p.r, 30, 4))
}

// lamp paints a pole with an arm over the road.
func (p *painter) lamp(v view, d, z int) {
	cx, foot := v.at(d, z)
	h, w := v.metres(70, z), v.metres(1, z)+1
	steel := rgbTone(80, 84, 86)
	p.fillRect(cx-w/2, foot-h, cx+(w+1)/2, foot, steel)
	arm := v.metres(15, z)
	if d > 0 {
		arm = -arm
	}
	p.fillRect(min(cx, cx+arm), foot-h, max(cx, cx+arm), foot-h+w, steel)
}
