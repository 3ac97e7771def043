package gen

// pngKinds are all colour types at all depths, with and without interlacing.
func pngKinds() []mixedKind {
	var all []mixedKind
	add := func(pack func(picture, pngStyle) []byte, color, depth int, palette, transparent []byte) {
		for _, interlace := range [2]bool{false, true} {
			style := pngStyle{color: color, depth: depth, interlace: interlace, palette: palette, transparent: transparent, level: pngLevel}
			if (depth+color)%3 == 0 {
				style.filter = pngCycle
			}
			if interlace {
				style.chunk = 512 // some readers do not expect the data in several chunks
			}
			all = append(all, mixedKind{".png", func(m *maker, p picture) []byte {
				return m.png.encode(nil, p.w, p.h, pack(p, style), style)
			}})
		}
	}
	for _, depth := range [4]int{1, 2, 4, 8} {
		add(packGray, pngGray, depth, nil, nil)
		add(packIndexed, pngPalette, depth, cubePalette()[:3<<depth], nil)
	}
	add(packGray, pngGray, 16, nil, nil)
	add(packGray, pngGray, 8, nil, []byte{0, 128})
	add(packColor, pngRGB, 8, nil, nil)
	add(packColor, pngRGB, 16, nil, nil)
	add(packColor, pngRGB, 8, nil, []byte{0, 1, 0, 2, 0, 3})
	add(packIndexed, pngPalette, 8, cubePalette(), []byte{0, 128, 64})
	add(packGrayAlpha, pngGrayAlpha, 8, nil, nil)
	add(packGrayAlpha, pngGrayAlpha, 16, nil, nil)
	add(packColorAlpha, pngRGBA, 8, nil, nil)
	add(packColorAlpha, pngRGBA, 16, nil, nil)
	return all
}

// packGray packs luma into samples of 1 to 16 bits.
func packGray(p picture, s pngStyle) []byte {
	gray := p.gray()
	if s.depth >= 8 {
		return widen(gray, s.depth)
	}
	return packBits(gray, p.w, s.depth, 8-s.depth)
}

// packIndexed packs indices of a palette that begins like cubePalette; a smaller palette has
// only blues and greens.
func packIndexed(p picture, s pngStyle) []byte {
	if s.depth == 8 {
		return p.indexed()
	}
	return packBits(p.indexed(), p.w, s.depth, 0)
}

func packColor(p picture, s pngStyle) []byte      { return widen(p.pix, s.depth) }
func packColorAlpha(p picture, s pngStyle) []byte { return widen(p.withAlpha(1), s.depth) }

func packGrayAlpha(p picture, s pngStyle) []byte {
	var out []byte
	for i, v := range p.gray() {
		out = append(out, v, byte(i*5))
	}
	return widen(out, s.depth)
}

// widen makes 16-bit samples from 8-bit ones if depth is 16, with varying low bytes, so that
// rounding to 8 bits has a visible effect.
func widen(samples []byte, depth int) []byte {
	if depth == 8 {
		return samples
	}
	out := make([]byte, 0, 2*len(samples))
	for i, v := range samples {
		out = append(out, v, byte(i*37))
	}
	return out
}

// packBits packs samples smaller than a byte; each row starts at a byte boundary.
func packBits(samples []byte, w, depth, shift int) []byte {
	stride := (w*depth + 7) / 8
	out := make([]byte, stride*(len(samples)/w))
	for i, v := range samples {
		x, y := i%w, i/w
		v = v >> shift & (1<<depth - 1)
		out[y*stride+x*depth/8] |= v << (8 - depth - x*depth%8)
	}
	return out
}
