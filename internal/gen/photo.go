package gen

// Photos have the typical size and file size of ImageNet's, cityscapes those of Cityscapes.
const (
	photoWidth, photoHeight = 500, 375
	cityWidth, cityHeight   = 2048, 1024
)

// scenes are what photos show. They alternate by index, so that a small dataset has some of
// each. grain brings each scene to the same mean file size.
var scenes = [...]struct {
	paint func(*painter)
	grain int
}{
	{(*painter).landscape, 29},
	{(*painter).stillLife, 38},
	{(*painter).foliage, 28},
	{(*painter).street, 34},
}

// photo paints image index of a dataset at any size.
func (p *painter) photo(seed uint64, index, w, h int) {
	p.start(w, h, newRNG(seed, uint64(index)))
	s := scenes[index%len(scenes)]
	s.paint(p)
	p.finish(s.grain*p.r.between(70, 130)/100, p.r.between(10, 70))
}

// cityscape paints image index of a dataset of streets.
func (p *painter) cityscape(seed uint64, index int) {
	p.start(cityWidth, cityHeight, newRNG(seed, uint64(index)))
	p.street()
	p.finish(2, p.r.between(0, 40))
}

// sky paints rows [0, horizon) and returns its tone there.
func (p *painter) sky(horizon int) tone {
	zenith, low := tone{60, 120, 200}, tone{190, 215, 238}
	if p.r.IntN(3) == 0 { // evening
		zenith, low = tone{70, 80, 130}, tone{250, 180, 120}
	}
	low = p.vary(low, 15, 8)
	p.gradient(0, horizon, p.vary(zenith, 25, 10), low)
	p.stain(0, horizon, p.noise(p.tiles.soft, 3), p.r.between(-10, 25), p.r.between(3, 7), tone{250, 250, 252})
	return low
}

// landscape paints hills that fade with distance under a sky, and a meadow with trees.
func (p *painter) landscape() {
	horizon := p.h * p.r.between(40, 62) / 100
	low := p.sky(horizon + 1)
	rock := p.random(tone{50, 60, 50}, tone{110, 100, 90})
	ranges := p.r.between(2, 4)
	for i := range ranges {
		near := (i + 1) * 256 / ranges
		base, height := horizon-p.h*(ranges-i)*p.r.between(2, 5)/100, p.h*p.r.between(6, 16)/100
		t, soft, rough := mix(low.lighter(-30), rock, near), p.noise(p.tiles.soft, 1), p.noise(p.tiles.rough, 1)
		p.fill(0, 0, p.w, p.h, func(x, y int) (tone, int) {
			if y < base-height*(3*soft(x, 0)+rough(x, 0)/2)/256 {
				return t, 0
			}
			return t.lighter(rough(x, y*2) * near >> 10), 256
		})
	}
	grass := p.random(tone{70, 100, 30}, tone{130, 150, 70})
	p.gradient(horizon, p.h+1, mix(grass, tone{170, 180, 150}, 90), grass.lighter(-25))
	p.stain(horizon, p.h, p.noise(p.tiles.soft, 5), 10, 2, p.vary(grass, 25, 20))
	p.texture(horizon, p.h, p.noise(p.tiles.fine, 2), 90)
	p.texture(horizon, p.h, p.noise(p.tiles.rough, 3), 30)
	for range p.r.between(0, 4) {
		p.tree(p.r.IntN(p.w), horizon+p.h*p.r.between(5, 30)/100, p.h*p.r.between(20, 50)/100)
	}
}

// tree paints a trunk at (x, foot), and a crown of many tufts, dark ones behind.
func (p *painter) tree(x, foot, height int) {
	green := p.random(tone{45, 80, 25}, tone{110, 120, 50})
	p.ellipse(x, foot, height/3, height/24, 110, true, tone{20, 24, 18})
	p.box(x-height/30, foot-height/2, x+height/30+1, foot, tone{75, 58, 42})
	tufts, size := 160+height, 2+min(height/22, 8+height/60)
	for i := range tufts {
		dx, dy := p.r.between(-height, height)/3, p.r.between(-height, height)/3
		if dx*dx+dy*dy > height*height/10 {
			continue
		}
		light := i*60/tufts - 40 - dy*60/(height+1) - dx*40/(height+1)
		p.leaf(x+dx, foot-height*2/3+dy, size, size*3/4, p.r.IntN(1024), p.vary(green.lighter(light), 16, 6))
	}
}

// stillLife paints something like fruit on a table.
func (p *painter) stillLife() {
	wall, wood := p.random(tone{60, 60, 60}, tone{210, 200, 200}), p.random(tone{110, 80, 40}, tone{180, 120, 80})
	edge := p.h * p.r.between(40, 65) / 100
	p.gradient(0, edge+1, wall.lighter(15), wall.lighter(-35))
	p.stain(0, edge, p.noise(p.tiles.soft, 1), 0, 2, p.vary(wall, 40, 20))
	p.gradient(edge, p.h+1, wood.lighter(-25), wood.lighter(20))
	p.texture(edge, p.h, p.noise(p.tiles.rough, 9), 46)
	p.texture(edge, p.h, p.noise(p.tiles.fine, 3), 60)
	n := p.r.between(3, 8)
	for i := range n {
		radius := p.h * p.r.between(9, 20) / 100
		x := p.w*(2*p.r.IntN(n)+1)/(2*n) + p.r.between(-radius, radius)/2
		foot := edge + (p.h-edge)*(2*i+1)/(2*n)
		p.ellipse(x+radius/3, foot, radius*3/2, radius/3+1, 200, true, tone{15, 12, 10})
		p.ball(x, foot-radius*9/10, radius, p.random(tone{120, 50, 20}, tone{250, 220, 90}), p.r.between(10, 40))
	}
}

// foliage paints leaves on leaves, the lighter ones on top.
func (p *painter) foliage() {
	green := p.random(tone{40, 90, 20}, tone{140, 150, 70})
	p.gradient(0, p.h, green.lighter(-75), green.lighter(-90))
	p.texture(0, p.h, p.noise(p.tiles.rough, 1), 60)
	n, size := p.r.between(220, 340), p.h*p.r.between(5, 10)/100
	for i := range n {
		t := p.vary(green.lighter(i*90/n-65), 14, 10)
		p.leaf(p.r.IntN(p.w), p.r.IntN(p.h), size+p.r.IntN(size+1), size/2+p.r.IntN(size/3+1)+1, p.r.IntN(1024), t)
	}
	p.texture(0, p.h, p.noise(p.tiles.fine, 1), 56)
}
