package gen

// maker makes files one after another, and reuses its memory. Each worker has one.
type maker struct {
	kind   Kind
	format string
	seed   uint64

	kinds   []mixedKind
	painter painter
	jpeg    jpegCoder
	png     pngCoder
	webp    webpCoder
	rgb     []byte
	out     []byte
}

func newMaker(o Options, noise *tiles) *maker {
	return &maker{kind: o.Kind, format: o.Format, seed: o.Seed, kinds: mixedKinds(), painter: painter{tiles: noise}}
}

// image makes file i and returns its content, valid until the next call, and its extension.
func (m *maker) image(i int) (data []byte, ext string) {
	format := m.format
	switch m.kind {
	case Mixed:
		return m.mixed(i)
	case Cityscape:
		m.painter.cityscape(m.seed, i)
		if format == "" {
			format = "png"
		}
	default:
		m.painter.photo(m.seed, i, photoWidth, photoHeight)
		if format == "" {
			format = "jpeg"
		}
	}
	m.out = m.encode(m.out[:0], format)
	return m.out, extensions[format]
}

var extensions = map[string]string{"jpeg": ".jpg", "png": ".png", "bmp": ".bmp", "ppm": ".ppm", "webp": ".webp"}

// pngLevel is a deflate level that costs little more than the fastest and gives nearly the
// smallest files.
const pngLevel = 4

// encode appends the painter's canvas in the plainest form of each format.
func (m *maker) encode(dst []byte, format string) []byte {
	w, h := m.painter.w, m.painter.h
	if format == "jpeg" {
		return m.jpeg.encode(dst, w, h, m.painter.planes(), jpegStyle{quality: photoQuality})
	}
	m.rgb = m.painter.canvas.rgb(m.rgb[:0])
	switch format {
	case "png":
		return m.png.encode(dst, w, h, m.rgb, pngStyle{color: pngRGB, depth: 8, level: pngLevel})
	case "bmp":
		return appendBMP(dst, w, h, swapRedBlue(m.rgb, 3), 24, nil, false)
	case "ppm":
		return appendPNM(dst, w, h, 3, m.rgb, "")
	}
	return m.webp.encode(dst, w, h, m.rgb, 3)
}

// swapRedBlue turns RGB into BGR, in place.
func swapRedBlue(pix []byte, chans int) []byte {
	for i := 0; i+2 < len(pix); i += chans {
		pix[i], pix[i+2] = pix[i+2], pix[i]
	}
	return pix
}
