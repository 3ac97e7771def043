package gen

// A mixed dataset cycles through all kinds of files, with other sizes each time, so that the
// first images include every kind once.

// mixedSizes are widths and heights of the pictures; their number has no factor in common with
// that of the kinds, so that eventually every kind has every size.
var mixedSizes = [...][2]int{
	{64, 48}, {1, 1}, {160, 120}, {17, 31}, {2, 3}, {320, 240}, {8, 8}, {1, 40}, {127, 129},
	{33, 16}, {255, 1}, {375, 500}, {99, 77},
}

// mixedKind is one kind of file.
type mixedKind struct {
	ext  string
	make func(m *maker, p picture) []byte
}

// jpegKind is a kind of JPEG file: what it holds, how the first component is sampled relative to
// the others, and its style.
type jpegKind struct {
	color  jpegColor
	hs, vs int
	style  jpegStyle
}

// mixed makes image i of a mixed dataset.
func (m *maker) mixed(i int) (data []byte, ext string) {
	kind := m.kinds[i%len(m.kinds)]
	size := mixedSizes[(i+i/len(m.kinds))%len(mixedSizes)]
	w, h := size[0], size[1]
	// Scenes need some room; small pictures are part of a larger one.
	m.painter.photo(m.seed, i, max(w, 48), max(h, 48))
	data = kind.make(m, m.painter.crop(w, h))
	return data, kind.ext
}

// mixedKinds lists every kind of file, in the order in which they are used.
func mixedKinds() []mixedKind {
	var all []mixedKind
	for _, k := range jpegKinds() {
		all = append(all, mixedKind{".jpg", func(m *maker, p picture) []byte {
			if k.style.orientation > 0 {
				p = p.stored(k.style.orientation)
			}
			return m.jpeg.encode(nil, p.w, p.h, p.components(k), k.style)
		}})
	}
	all[0].ext, all[1].ext = ".jpeg", ".JPG"
	all = append(all, pngKinds()...)
	all = append(all, rawKinds()...)
	return append(all, webpKinds()...)
}

func jpegKinds() []jpegKind {
	plain := jpegStyle{quality: 90}
	all := []jpegKind{
		{jpegYCC, 2, 2, plain},
		{jpegYCC, 1, 1, jpegStyle{quality: 95, optimize: true}},
		{jpegYCC, 2, 1, jpegStyle{quality: 85}},
		{jpegYCC, 1, 2, jpegStyle{quality: 75, optimize: true}},
		{jpegYCC, 4, 1, jpegStyle{quality: 60}},
		{jpegGray, 1, 1, plain},
		{jpegRGB, 1, 1, jpegStyle{quality: 90, adobe: 1}},
		{jpegYCC, 2, 2, jpegStyle{quality: 90, restart: 2}},
		{jpegYCC, 2, 2, jpegStyle{quality: 90, stray: true}},
		{jpegYCC, 2, 2, jpegStyle{quality: 90, progressive: true}},
		{jpegYCC, 1, 1, jpegStyle{quality: 98, progressive: true, restart: 3}},
		{jpegGray, 1, 1, jpegStyle{quality: 80, progressive: true}},
		{jpegCMYK, 1, 1, jpegStyle{quality: 90, adobe: 1}},
		{jpegYCCK, 1, 1, jpegStyle{quality: 90, adobe: 3}},
		{jpegYCCK, 2, 2, jpegStyle{quality: 90, adobe: 3}},
		{jpegCMYK, 1, 1, jpegStyle{quality: 90, adobe: 1, progressive: true}},
	}
	for orientation := 1; orientation <= 8; orientation++ {
		all = append(all, jpegKind{jpegYCC, 2, 1 + orientation%2, jpegStyle{
			quality: 90, orientation: orientation, bigEndian: orientation%3 == 0, progressive: orientation == 7,
		}})
	}
	return all
}

// rawKinds are the formats that store uncompressed pixels.
func rawKinds() []mixedKind {
	var all []mixedKind
	for _, topDown := range [2]bool{false, true} {
		all = append(all,
			mixedKind{".bmp", func(_ *maker, p picture) []byte {
				return appendBMP(nil, p.w, p.h, swapRedBlue(p.pix, 3), 24, nil, topDown)
			}},
			mixedKind{".bmp", func(_ *maker, p picture) []byte {
				return appendBMP(nil, p.w, p.h, swapRedBlue(p.withAlpha(0), 4), 32, nil, topDown)
			}},
			mixedKind{".bmp", func(_ *maker, p picture) []byte {
				colors := picture{256, 1, cubePalette()}
				return appendBMP(nil, p.w, p.h, p.indexed(), 8, swapRedBlue(colors.withAlpha(0), 4), topDown)
			}})
	}
	return append(all,
		mixedKind{".ppm", func(_ *maker, p picture) []byte { return appendPNM(nil, p.w, p.h, 3, p.pix, "") }},
		mixedKind{".PPM", func(_ *maker, p picture) []byte { return appendPNM(nil, p.w, p.h, 3, p.pix, "a comment") }},
		mixedKind{".pgm", func(_ *maker, p picture) []byte { return appendPNM(nil, p.w, p.h, 1, p.gray(), "") }},
	)
}

func webpKinds() []mixedKind {
	return []mixedKind{
		{".webp", func(m *maker, p picture) []byte { return m.webp.encode(nil, p.w, p.h, p.pix, 3) }},
		{".webp", func(m *maker, p picture) []byte { return m.webp.encode(nil, p.w, p.h, p.withAlpha(1), 4) }},
	}
}

// withAlpha appends a fourth byte to each pixel: 0 if step is 0, else a gradient.
func (p picture) withAlpha(step int) []byte {
	out := make([]byte, 0, 4*p.w*p.h)
	for i := 0; i < len(p.pix); i += 3 {
		out = append(out, p.pix[i], p.pix[i+1], p.pix[i+2], byte(i*step))
	}
	return out
}
