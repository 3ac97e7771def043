package decode

import (
	"bytes"
	"fmt"
)

func bmpSamples() (out []sample) {
	add := func(name string, s bmpSpec, at func(x, y int) [3]uint8) {
		out = append(out, sample{name: name + ".bmp", data: writeBMP(s), format: BMP, orientation: 1, w: s.w, h: s.h, rgb: paint(s.w, s.h, at)})
	}
	color := func(x, y int) [3]uint8 { p := scene(x, y); return [3]uint8(p[:3]) }
	packed := func(x, y int) uint32 {
		p := scene(x, y)
		return uint32(p[0])<<16 | uint32(p[1])<<8 | uint32(p[2]) | uint32(p[3])<<24
	}
	var palette [][3]uint8
	for i := range 256 {
		palette = append(palette, [3]uint8{byte(i * 7), byte(255 - i), byte(i * 3)})
	}
	for _, size := range [][2]int{{1, 1}, {3, 2}, {31, 17}, {32, 5}} {
		w, h := size[0], size[1]
		name := fmt.Sprintf("-%dx%d", w, h)
		for _, topDown := range []bool{false, true} {
			add(fmt.Sprintf("24%s-%t", name, topDown), bmpSpec{w: w, h: h, bits: 24, topDown: topDown, pixel: packed}, color)
			add(fmt.Sprintf("32%s-%t", name, topDown), bmpSpec{w: w, h: h, bits: 32, topDown: topDown, pixel: packed, gap: 6}, color)
		}
		add("24-core"+name, bmpSpec{w: w, h: h, bits: 24, info: bmpCore, pixel: packed}, color)
		add("24-v5"+name, bmpSpec{w: w, h: h, bits: 24, info: 124, pixel: packed}, color)
		for _, bits := range []int{1, 2, 4, 8} {
			index := func(x, y int) uint32 { return uint32(x*5+y*3+x*y) & (1<<bits - 1) }
			at := func(x, y int) [3]uint8 { return palette[index(x, y)] }
			add(fmt.Sprintf("%d%s", bits, name), bmpSpec{w: w, h: h, bits: bits, palette: palette[:1<<bits], pixel: index}, at)
			add(fmt.Sprintf("%d-core%s", bits, name), bmpSpec{w: w, h: h, bits: bits, info: bmpCore, palette: palette[:1<<bits], pixel: index}, at)
		}
		bmpFieldSamples(w, h, name, add)
		bmpRLESamples(w, h, name, palette, add)
	}
	add("short-palette", bmpSpec{w: 9, h: 9, bits: 8, palette: palette[:10], colors: 10, pixel: func(x, y int) uint32 { return uint32(x + y) }},
		func(x, y int) [3]uint8 {
			if x+y < 10 {
				return palette[x+y]
			}
			return [3]uint8{}
		})
	return out
}

func bmpFieldSamples(w, h int, name string, add func(string, bmpSpec, func(x, y int) [3]uint8)) {
	pixel := func(x, y int) uint32 { return uint32(x*40503+y*30011+x*y) * 2654435761 }
	for _, c := range []struct {
		name  string
		bits  int
		info  int
		masks []uint32
		kind  uint32
	}{
		{"555", 16, 40, nil, bmpRGB},
		{"565", 16, 40, []uint32{0xf800, 0x07e0, 0x001f}, bmpBitfields},
		{"444-alpha", 16, 40, []uint32{0x0f00, 0x00f0, 0x000f, 0xf000}, bmpAlphaBitfields},
		{"rgbx", 32, 108, []uint32{0xff, 0xff00, 0xff0000, 0xff000000}, bmpBitfields},
		{"10-bits", 32, 40, []uint32{0x3ff00000, 0x000ffc00, 0x000003ff}, bmpBitfields},
		{"one-bit", 32, 52, []uint32{1, 2, 0xfffffffc}, bmpBitfields},
	} {
		masks := c.masks
		if masks == nil {
			masks = []uint32{0x7c00, 0x03e0, 0x001f}
		}
		add(c.name+name, bmpSpec{w: w, h: h, bits: c.bits, info: c.info, masks: c.masks, compression: c.kind, pixel: pixel},
			func(x, y int) (p [3]uint8) {
				for i, m := range masks[:3] {
					low := uint64(m & -m)
					most := uint64(m) / low
					v := uint64(pixel(x, y)&m) / low
					p[i] = uint8((v*510 + most) / (2 * most))
				}
				return p
			})
	}
}

// bmpRLESamples encode each row as a run and literals, skip the middle row, and move past the
// end of every third one.
func bmpRLESamples(w, h int, name string, palette [][3]uint8, add func(string, bmpSpec, func(x, y int) [3]uint8)) {
	for _, bits := range []int{4, 8} {
		index := func(x, y int) uint8 {
			switch {
			case y == h/2 && h > 2:
				return 0
			case x < 2:
				return uint8(y) & 15
			}
			return uint8(x+y) & 15
		}
		var data []byte
		for y := h - 1; y >= 0; y-- {
			if y == h/2 && h > 2 {
				data = append(data, 0, 2, 0, 1) // down one row
				continue
			}
			run := min(2, w)
			b := index(0, y)
			if bits == 4 {
				b |= b << 4
			}
			data = append(data, byte(run), b)
			for x := run; x < w; {
				n := min(w-x, 200)
				if n < 3 {
					data = append(data, 1, index(x, y)<<(8-bits)|index(x, y)&15)
					x++
					continue
				}
				data = append(data, 0, byte(n))
				var literal []byte
				for i := range n {
					if bits == 8 {
						literal = append(literal, index(x+i, y))
					} else if i%2 == 0 {
						literal = append(literal, index(x+i, y)<<4)
					} else {
						literal[i/2] |= index(x+i, y)
					}
				}
				if len(literal)%2 == 1 {
					literal = append(literal, 0)
				}
				data = append(data, literal...)
				x += n
			}
			data = append(data, 0, 0)
		}
		data = append(data, 0, 1)
		kind := map[int]uint32{4: bmpRLE4, 8: bmpRLE8}[bits]
		add(fmt.Sprintf("rle%d%s", bits, name), bmpSpec{w: w, h: h, bits: bits, palette: palette[:1<<bits], compression: kind, data: data},
			func(x, y int) [3]uint8 { return palette[index(x, y)] })
	}
}

func pnmSamples() (out []sample) {
	for _, kind := range []byte{'2', '3', '5', '6'} {
		for _, maxval := range []int{1, 7, 100, 255, 256, 1000, 65535} {
			for _, size := range [][2]int{{1, 1}, {7, 5}, {20, 3}} {
				w, h := size[0], size[1]
				at := func(x, y, c int) int { return (x*977 + y*331 + c*12347 + x*y*53) % (maxval + 1) }
				s := sample{name: fmt.Sprintf("p%c-%d-%dx%d.pnm", kind, maxval, w, h), format: PNM, orientation: 1, w: w, h: h,
					data: writePNM(kind, w, h, maxval, at)}
				s.rgb = paint(w, h, func(x, y int) (p [3]uint8) {
					for c := range p {
						if kind == '2' || kind == '5' {
							c = 0
						}
						p[c] = uint8((at(x, y, c)*510 + maxval) / (2 * maxval))
					}
					if kind == '2' || kind == '5' {
						p[1], p[2] = p[0], p[0]
					}
					return p
				})
				if kind < '5' {
					// The white space at the end, and all digits of the last number except the
					// first.
					trimmed := bytes.TrimRight(s.data, " \n")
					s.loose = len(s.data) - bytes.LastIndexAny(trimmed, " \n") - 2
				}
				out = append(out, s)
			}
		}
	}
	return out
}
