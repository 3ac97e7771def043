package decode

import "fmt"

// jpegScene returns a channel of the scene, or of its YCbCr, as a plane.
func jpegScene(channel int) func(x, y int) float64 {
	return func(x, y int) float64 { return float64(scene(x, y)[channel]) }
}

func jpegYCC(rgb func(x, y int) [3]float64, channel int) func(x, y int) float64 {
	return func(x, y int) float64 {
		p := rgb(x, y)
		switch channel {
		case 0:
			return 0.299*p[0] + 0.587*p[1] + 0.114*p[2]
		case 1:
			return 128 - 0.168736*p[0] - 0.331264*p[1] + 0.5*p[2]
		}
		return 128 + 0.5*p[0] - 0.418688*p[1] - 0.081312*p[2]
	}
}

// soft is a scene without the wrap-around of scene's red, so that subsampled chroma loses
// little.
func soft(x, y int) [3]float64 {
	return [3]float64{60 + 2*float64(x), 200 - 2*float64(y) - float64(x), 50 + float64(x) + float64(y)}
}

func softRGB(w, h int) []uint8 {
	return paint(w, h, func(x, y int) [3]uint8 {
		p := soft(x, y)
		return [3]uint8{uint8(p[0] + .5), uint8(p[1] + .5), uint8(p[2] + .5)}
	})
}

// ycc returns the components of a YCbCr JPEG of soft, with the given sampling factors for luma.
func ycc(h, v byte) []jpegPlane {
	return []jpegPlane{{1, h, v, jpegYCC(soft, 0)}, {2, 1, 1, jpegYCC(soft, 1)}, {3, 1, 1, jpegYCC(soft, 2)}}
}

func softLuma(w, h int) []uint8 {
	luma := jpegYCC(soft, 0)
	out := make([]uint8, 0, w*h)
	for y := range h {
		for x := range w {
			out = append(out, uint8(luma(x, y)+.5))
		}
	}
	return out
}

func jpegSamples() (out []sample) {
	add := func(name string, s jpegSpec, rgb, gray []uint8) *sample {
		out = append(out, sample{name: name + ".jpg", data: writeJPEG(s), format: JPEG, orientation: 1,
			w: s.w, h: s.h, rgb: rgb, gray: gray, worst: jpegWorst, mean: 1})
		return &out[len(out)-1]
	}
	for _, size := range [][2]int{{1, 1}, {2, 3}, {7, 9}, {8, 8}, {16, 16}, {17, 33}, {50, 39}} {
		for _, f := range [][2]byte{{1, 1}, {2, 1}, {1, 2}, {2, 2}, {4, 1}, {4, 2}} {
			w, h := size[0], size[1]
			name := fmt.Sprintf("ycc-%dx%d-%dx%d", f[0], f[1], w, h)
			s := add(name, jpegSpec{w: w, h: h, comps: ycc(f[0], f[1]), jfif: true, adobe: -1}, softRGB(w, h), softLuma(w, h))
			if f[0]*f[1] > 1 {
				s.worst, s.mean = 10, 2 // the loss from subsampling soft
			}
		}
	}
	w, h := 37, 29
	rgb, luma := softRGB(w, h), softLuma(w, h)
	spec := jpegSpec{w: w, h: h, comps: ycc(2, 2), jfif: true, adobe: -1}
	s := spec
	s.progressive = true
	add("progressive", s, rgb, luma).worst = 10
	s = spec
	s.separate = true
	add("separate-scans", s, rgb, luma).worst = 10
	s = spec
	s.restart = 2
	add("restarts", s, rgb, luma).worst = 10
	s = spec
	s.stray = []byte{0, 1, 2, 0xff, 0, 3, 0xff, 0xff}
	add("stray-bytes", s, rgb, luma).worst = 10
	s.stray = []byte{0xff, 0xff, 0, 3}
	z := add("stray-fill-bytes", s, rgb, luma)
	z.worst, z.goRefuses = 10, true
	s = spec
	s.comps = ycc(3, 1)
	z = add("three-to-one", s, rgb, luma)
	z.worst, z.goRefuses = 10, true
	s = spec
	s.comps = []jpegPlane{{1, 1, 1, jpegYCC(soft, 0)}}
	grayRGB := paint(w, h, func(x, y int) [3]uint8 { g := luma[y*w+x]; return [3]uint8{g, g, g} })
	add("gray", s, grayRGB, luma)
	s.comps[0].h, s.comps[0].v = 2, 2 // meaningless for a single component
	add("gray-2x2", s, grayRGB, luma)

	exact := sceneRGB(w, h)
	rgbPlanes := func(a, b, c byte) []jpegPlane {
		return []jpegPlane{{a, 1, 1, jpegScene(0)}, {b, 1, 1, jpegScene(1)}, {c, 1, 1, jpegScene(2)}}
	}
	add("rgb-by-adobe", jpegSpec{w: w, h: h, comps: rgbPlanes(1, 2, 3), adobe: 0}, exact, nil)
	add("rgb-by-names", jpegSpec{w: w, h: h, comps: rgbPlanes('R', 'G', 'B'), adobe: -1}, exact, nil)
	return append(out, inkSamples(w, h)...)
}

// inkSamples returns CMYK samples: stored directly, inverted as by Adobe, and as YCCK.
func inkSamples(w, h int) (out []sample) {
	key := func(x, y int) uint8 { return uint8(255 - 2*x - y) } // what the black ink leaves
	rgb := paint(w, h, func(x, y int) [3]uint8 {
		p, k := scene(x, y), int(key(x, y))
		for i := range 3 {
			p[i] = uint8((int(p[i])*k*2 + 255) / 510)
		}
		return [3]uint8(p[:3])
	})
	left := func(i int) func(x, y int) float64 { // what ink i leaves
		if i == 3 {
			return func(x, y int) float64 { return float64(key(x, y)) }
		}
		return jpegScene(i)
	}
	var plain, adobe, ycck []jpegPlane
	for i := range 4 {
		light := left(i)
		plain = append(plain, jpegPlane{byte(i + 1), 1, 1, func(x, y int) float64 { return 255 - light(x, y) }})
		adobe = append(adobe, jpegPlane{byte(i + 1), 1, 1, light})
		ycck = append(ycck, adobe[i])
		if i < 3 {
			ycck[i].at = jpegYCC(func(x, y int) [3]float64 {
				return [3]float64{255 - left(0)(x, y), 255 - left(1)(x, y), 255 - left(2)(x, y)}
			}, i)
		}
	}
	for _, c := range []struct {
		name  string
		adobe int
		comps []jpegPlane
	}{{"cmyk", -1, plain}, {"cmyk-adobe", 0, adobe}, {"ycck", 2, ycck}} {
		out = append(out, sample{name: c.name + ".jpg", format: JPEG, orientation: 1, w: w, h: h, rgb: rgb,
			data: writeJPEG(jpegSpec{w: w, h: h, comps: c.comps, adobe: c.adobe}), worst: jpegWorst, mean: 1})
	}
	return out
}
