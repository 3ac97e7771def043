package gen

// Photo pictures have the typical size and file size of ImageNet's.
const (
	photoWidth   = 500
	photoHeight  = 375
	photoQuality = 90
)

// Cityscape pictures have the size and file size of those in Cityscapes.
const (
	cityWidth  = 2048
	cityHeight = 1024
	cityDetail = 20
	cityGrain  = 3
)

// scenes are what photos show. They alternate by index, so that a small dataset has some of
// each, and the mean size of its files converges early. detail is the strength of the grain that
// brings each scene to the same mean size.
var scenes = [...]struct {
	paint  func(*painter)
	detail int
}{
	{(*painter).landscape, 24},
	{(*painter).stillLife, 27},
	{(*painter).foliage, 23},
	{(*painter).flower, 27},
	{(*painter).surface, 17},
	{func(p *painter) { p.street(100) }, 24},
}

// photo paints image index of a dataset at any size.
func (p *painter) photo(seed uint64, index, w, h int) {
	p.resize(w, h)
	p.r = imageRNG(seed, index)
	s := scenes[index%len(scenes)]
	s.paint(p)
	p.soften()
	p.expose(p.tiles, &p.r, s.detail*p.r.between(70, 130)/100, p.r.between(6, 10), p.r.between(10, 70))
}

// cityscape paints image index of a dataset of streets.
func (p *painter) cityscape(seed uint64, index int) {
	p.resize(cityWidth, cityHeight)
	p.r = imageRNG(seed, index)
	p.street(cityDetail)
	p.soften()
	p.expose(p.tiles, &p.r, cityGrain, 1, p.r.between(0, 40))
}

// landscape paints a sky, ranges of hills that fade with distance, and a meadow or a lake.
func (p *painter) landscape() {
	zenith, low := p.skyTones()
	horizon := p.h * p.r.between(40, 62) / 100
	p.gradient(0, horizon+1, zenith, low)
	p.stain(0, horizon, p.tiles.soft, p.r.between(-10, 25), p.r.between(3, 7), 3, rgbTone(250, 250, 252))
	if p.r.chance(40) {
		x, y := p.r.below(p.w), p.r.below(horizon+1)
		p.disc(x, y, p.h/2, 120, true, rgbTone(255, 240, 200))
		p.disc(x, y, p.h/24+1, 255, false, rgbTone(255, 250, 230))
	}
	ranges := p.r.between(2, 4)
	rock := rgbTone(p.r.between(50, 110), p.r.between(60, 100), p.r.between(50, 90))
	for i := range ranges {
		near := (i + 1) * 256 / ranges
		base := horizon - p.h*(ranges-i)*p.r.between(2, 5)/100
		p.hills(base, p.h*p.r.between(6, 16)/100, mix(low.lighter(-30), rock, near), near)
	}
	if p.r.chance(35) {
		p.lake(horizon)
	} else {
		p.meadow(horizon)
	}
	for range p.r.between(0, 4) {
		p.tree(p.r.below(p.w), horizon+p.h*p.r.between(5, 30)/100, p.h*p.r.between(20, 50)/100)
	}
}

func (p *painter) skyTones() (zenith, low tone) {
	switch p.r.below(4) {
	case 0: // evening
		return rgbTone(70, 80, 130).vary(&p.r, 20, 6), rgbTone(250, 180, 120).vary(&p.r, 20, 10)
	case 1: // overcast
		return rgbTone(150, 160, 172).vary(&p.r, 20, 4), rgbTone(215, 218, 222).vary(&p.r, 10, 3)
	}
	return rgbTone(60, 120, 200).vary(&p.r, 25, 8), rgbTone(190, 215, 238).vary(&p.r, 15, 5)
}

// hills fills everything below a ridge.
func (p *painter) hills(base, height int, t tone, near int) {
	if cap(p.ridge) < p.w {
		p.ridge = make([]int, p.w)
	}
	ridge := p.ridge[:p.w]
	soft, rough := &p.tiles.soft[p.place()], &p.tiles.rough[p.place()]
	offset, top := p.place(), p.h
	for x := range ridge {
		at := (x + offset) & tileMask
		ridge[x] = base - height*(int(soft[at])*3+int(rough[at]))/256
		top = min(top, ridge[x])
	}
	oy := p.place()
	for y := max(top, 0); y < p.h; y++ {
		relief := &p.tiles.relief[(y*2+oy)&tileMask]
		luma := p.y[y*p.w:][:p.w]
		for x, r := range ridge {
			if y >= r {
				luma[x] = clampByte(t.y + int(relief[(x+offset)&tileMask])*near>>10)
			}
		}
		if y%2 == 0 {
			cb, cr := p.cb[y/2*p.cw:][:p.cw], p.cr[y/2*p.cw:][:p.cw]
			for x := range cb {
				if y >= ridge[2*x] {
					cb[x], cr[x] = byte(t.cb), byte(t.cr)
				}
			}
		}
	}
}

// meadow covers the ground with grass that gets coarser towards the viewer.
func (p *painter) meadow(horizon int) {
	grass := rgbTone(p.r.between(70, 150), p.r.between(100, 140), p.r.between(40, 70))
	p.gradient(horizon, p.h+1, mix(grass, rgbTone(170, 180, 150), 90), grass.lighter(-25))
	p.stain(horizon, p.h, p.tiles.soft, 10, 2, 5, grass.vary(&p.r, 25, 12))
	ox, oy := p.place(), p.place()
	for y := horizon; y < p.h; y++ {
		depth := (y - horizon) * 256 / (p.h - horizon)
		p.texture(y, 0, p.w, &p.tiles.fine[(y*(4-depth/86)+oy)&tileMask], ox, 50+depth/2)
		p.texture(y, 0, p.w, &p.tiles.rough[(y*3+oy)&tileMask], ox, 30)
	}
}

// lake mirrors what is above it, with ripples.
func (p *painter) lake(horizon int) {
	oy := p.place()
	for y := horizon; y < p.h; y++ {
		from := clamp(2*horizon-y, 0, p.h-1)
		wave := &p.tiles.rough[(y*6+oy)&tileMask]
		push := (y - horizon) * 64 / (p.h - horizon)
		luma, mirror := p.y[y*p.w:][:p.w], p.y[from*p.w:][:p.w]
		for x := range luma {
			shift := int(wave[(x/2+oy)&tileMask]) * push >> 8
			luma[x] = clampByte(int(mirror[clamp(x+shift, 0, p.w-1)])*7>>3 - 8 + shift/2)
		}
		if y%2 == 0 {
			copy(p.cb[y/2*p.cw:][:p.cw], p.cb[from/2*p.cw:][:p.cw])
			copy(p.cr[y/2*p.cw:][:p.cw], p.cr[from/2*p.cw:][:p.cw])
		}
	}
}

// tree paints a trunk at (x, foot), and a crown of many tufts, dark ones behind.
func (p *painter) tree(x, foot, height int) {
	bark := rgbTone(75, 58, 42).vary(&p.r, 10, 3)
	green := rgbTone(p.r.between(45, 110), p.r.between(80, 115), p.r.between(25, 50))
	p.ellipse(x, foot, height/3, height/24, 110, true, rgbTone(20, 24, 18))
	p.fillRect(x-height/30, foot-height/2, x+height/30+1, foot, bark)
	tufts, size := 160+height, 2+min(height/22, 8+height/60)
	for i := range tufts {
		dx := p.r.between(-height, height) * 10 / 32
		dy := p.r.between(-height, height) * 10 / 34
		if dx*dx+dy*dy > height*height/10 {
			continue
		}
		light := i*60/tufts - 40 - dy*60/(height+1) - dx*40/(height+1)
		p.leaf(x+dx, foot-height*2/3+dy, size, size*3/4, p.r.below(1024), green.lighter(light).vary(&p.r, 16, 3))
	}
}

// stillLife paints something like fruit on a table.
func (p *painter) stillLife() {
	wall := rgbTone(p.r.between(60, 210), p.r.between(60, 200), p.r.between(60, 200))
	edge := p.h * p.r.between(40, 65) / 100
	p.gradient(0, edge+1, wall.lighter(15), wall.lighter(-35))
	p.stain(0, edge, p.tiles.soft, 0, 2, 1, wall.vary(&p.r, 40, 15))
	p.texturize(0, edge, p.tiles.relief, p.r.between(0, 30), 1)
	wood := rgbTone(p.r.between(110, 180), p.r.between(80, 120), p.r.between(40, 80))
	p.gradient(edge, p.h+1, wood.lighter(-25), wood.lighter(20))
	p.texturize(edge, p.h, p.tiles.rough, 46, 9)
	p.texturize(edge, p.h, p.tiles.fine, 60, 3)
	n := p.r.between(3, 8)
	for i := range n {
		radius := p.h * p.r.between(9, 20) / 100
		x := p.w*(2*p.r.below(n)+1)/(2*n) + p.r.between(-radius, radius)/2
		foot := edge + (p.h-edge)*(2*i+1)/(2*n)
		fruit := tone{p.r.between(90, 190), 128 + p.r.between(-60, 10), 128 + p.r.between(-10, 60)}
		p.ellipse(x+radius/3, foot, radius*3/2, radius/3+1, 200, true, rgbTone(15, 12, 10))
		p.ball(x, foot-radius*9/10, radius, fruit, p.tiles.rough, p.r.between(10, 40))
	}
}

// foliage paints leaves on leaves, the lighter ones on top, with an occasional berry.
func (p *painter) foliage() {
	green := rgbTone(p.r.between(40, 150), p.r.between(80, 130), p.r.between(20, 70))
	p.gradient(0, p.h, green.lighter(-75), green.lighter(-90))
	p.texturize(0, p.h, p.tiles.rough, 60, 1)
	n := p.r.between(220, 340)
	size := p.h * p.r.between(5, 10) / 100
	for i := range n {
		t := green.lighter(i*90/n-65).vary(&p.r, 14, 5)
		p.leaf(p.r.below(p.w), p.r.below(p.h), size+p.r.below(size+1), size/2+p.r.below(size/3+1)+1, p.r.below(1024), t)
		if p.r.chance(4) {
			p.ball(p.r.below(p.w), p.r.below(p.h), size/2+1, rgbTone(190, 40, 40).vary(&p.r, 20, 15), p.tiles.fine, 8)
		}
	}
	p.texturize(0, p.h, p.tiles.fine, 56, 1)
}

// flower paints petals around a centre, in front of a blurred background.
func (p *painter) flower() {
	back := rgbTone(p.r.between(30, 120), p.r.between(60, 140), p.r.between(30, 110))
	p.gradient(0, p.h, back.lighter(20), back.lighter(-30))
	p.stain(0, p.h, p.tiles.soft, 5, 3, 1, back.vary(&p.r, 50, 25))
	for range p.r.between(8, 22) {
		t := back.vary(&p.r, 60, 25).lighter(40)
		p.disc(p.r.below(p.w), p.r.below(p.h), p.h*p.r.between(3, 12)/100, p.r.between(40, 120), false, t)
	}
	cx, cy := p.w*p.r.between(35, 65)/100, p.h*p.r.between(35, 60)/100
	size := p.h * p.r.between(20, 34) / 100
	p.fillRect(cx-size/24-1, cy, cx+size/24+1, p.h, rgbTone(60, 100, 45))
	petal := tone{p.r.between(130, 220), 128 + p.r.between(-50, 50), 128 + p.r.between(-20, 60)}
	for ring := range 2 {
		n, long := p.r.between(8, 15), size/2-ring*size/8
		turn := p.r.below(1024)
		for i := range n {
			angle := turn + i*1024/n
			x, y := cx+icos(angle)*long/4096, cy+isin(angle)*long/4096
			p.leaf(x, y, long+1, long*7/n+2, angle, petal.lighter(ring*18-10).vary(&p.r, 12, 4))
		}
	}
	p.ball(cx, cy, size/5+1, rgbTone(220, 170, 40).vary(&p.r, 25, 10), p.tiles.fine, 120)
	p.texturize(0, p.h, p.tiles.fine, 12, 1)
}

// surface paints stone, sand, bark or cloth, close up.
func (p *painter) surface() {
	a := rgbTone(p.r.between(70, 200), p.r.between(60, 170), p.r.between(50, 150))
	b := a.vary(&p.r, 60, 12)
	p.gradient(0, p.h, a, a.lighter(-15))
	stretch := p.r.between(1, 5)
	p.stain(0, p.h, p.tiles.soft, p.r.between(-20, 20), p.r.between(2, 8), stretch, b)
	p.stain(0, p.h, p.tiles.rough, p.r.between(5, 30), p.r.between(3, 9), stretch, a.vary(&p.r, 70, 10))
	p.texturize(0, p.h, p.tiles.relief, p.r.between(60, 110), stretch)
	p.texturize(0, p.h, p.tiles.fine, p.r.between(20, 60), 1)
}
