package decode

import "fmt"

func pngSamples() (out []sample) {
	palette := make([]byte, 0, 256*3)
	for i := range 256 {
		palette = append(palette, byte(i*7), byte(255-i), byte(i*3))
	}
	for kind, depths := range map[int][]int{0: {1, 2, 4, 8, 16}, 2: {8, 16}, 3: {1, 2, 4, 8}, 4: {8, 16}, 6: {8, 16}} {
		for _, depth := range depths {
			for _, size := range [][2]int{{1, 1}, {5, 3}, {33, 19}} {
				for _, interlaced := range []bool{false, true} {
					out = append(out, pngSample(kind, depth, size[0], size[1], interlaced, palette))
				}
			}
		}
	}
	// A palette with fewer entries than indices: those beyond its end are black.
	short := pngSample(3, 8, 33, 19, false, palette)
	const entries = 40
	short.name = "short-palette.png"
	short.data = writePNG(pngSpec{w: 33, h: 19, kind: 3, depth: 8, palette: palette[:3*entries], sample: pngScene(8)})
	short.rgb = paint(33, 19, func(x, y int) (p [3]uint8) {
		if i := int(pngScene(8)(x, y, 0)); i < entries {
			copy(p[:], palette[3*i:])
		}
		return p
	})
	out = append(out, short)
	// All rows depend on the one above.
	for _, filter := range []int{2, 3, 4} {
		for _, kind := range []int{2, 6} {
			s := pngSample(kind, 8, 33, 19, false, nil)
			s.name = fmt.Sprintf("kind%d-filter%d.png", kind, filter)
			s.data = writePNG(pngSpec{w: 33, h: 19, kind: kind, depth: 8, filters: []int{filter}, sample: pngScene(8)})
			out = append(out, s)
		}
	}
	return out
}

// pngScene returns samples of the given depth that differ in every channel.
func pngScene(depth int) func(x, y, c int) uint16 {
	return func(x, y, c int) uint16 {
		v := uint32(x*2531 + y*4127 + c*19001 + x*y*97)
		return uint16(v & 0xffff >> (16 - depth))
	}
}

func pngSample(kind, depth, w, h int, interlaced bool, palette []byte) sample {
	at := pngScene(depth)
	full := uint32(1)<<depth - 1
	spec := pngSpec{w: w, h: h, kind: kind, depth: depth, interlaced: interlaced, sample: at}
	if kind == 3 {
		spec.palette = palette[:3*(full+1)]
		spec.before = chunk("tRNS", []byte{0, 128})
	}
	rgb := paint(w, h, func(x, y int) (p [3]uint8) {
		for c := range p {
			switch kind {
			case 3:
				p[c] = palette[3*int(at(x, y, 0))+c]
			case 0, 4:
				p[c] = uint8((uint32(at(x, y, 0))*510 + full) / (2 * full))
			default:
				p[c] = uint8((uint32(at(x, y, c))*510 + full) / (2 * full))
			}
		}
		return p
	})
	return sample{name: fmt.Sprintf("kind%d-%d-%dx%d-%t.png", kind, depth, w, h, interlaced), format: PNG, orientation: 1,
		w: w, h: h, data: writePNG(spec), rgb: rgb}
}
