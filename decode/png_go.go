package decode

import (
	"bytes"
	"image"
	"image/color"
	"image/png"
	"io"
	"strings"
)

// goPNG decodes with image/png, which is given only the chunks that determine the pixels.
type goPNG struct{ stateless }

func (goPNG) Decode(dst Image, data []byte, v View) error {
	critical, err := pngCritical(data)
	if err != nil {
		return err
	}
	return guarded(func() error {
		m, err := png.Decode(critical)
		if err != nil {
			return goError[png.UnsupportedError](err)
		}
		source, err := pngRows(m, v.Header, v.Color)
		if err != nil {
			return err
		}
		emit(dst, v, source)
		return nil
	})
}

// pngCritical returns a reader of a PNG's critical chunks alone: image/png is stricter about
// ancillary chunks than this package, and accepts unknown critical ones.
func pngCritical(data []byte) (io.Reader, error) {
	parts := []io.Reader{strings.NewReader(pngSignature)}
	for p := len(pngSignature); ; {
		chunk, ok := pngChunk(data, p)
		if !ok {
			return nil, endsEarly(true)
		}
		ancillary := chunk[4]&0x20 != 0 // lower-case first letter
		name := string(chunk[4:8])
		switch {
		case ancillary || name == "PLTE" && strangeSuggestion(data, chunk):
		case name == "IHDR", name == "PLTE", name == "IDAT":
			parts = append(parts, bytes.NewReader(chunk))
		case name == "IEND":
			return io.MultiReader(append(parts, bytes.NewReader(chunk))...), nil
		default:
			return nil, corrupt("an unknown critical chunk")
		}
		p += len(chunk)
	}
}

// strangeSuggestion reports whether a palette is only suggested, for a colour image, and has an
// impossible size but a correct checksum.
func strangeSuggestion(data, palette []byte) bool {
	const kindAt = len(pngSignature) + 8 + 9
	n := len(palette) - pngOverhead
	return data[kindAt]&3 == 2 && (n > 3*256 || n%3 != 0) && pngSound(palette[4:])
}

func pngRows(m image.Image, h Header, c Color) (row, error) {
	if err := sameSize(m, h.Width, h.Height); err != nil {
		return nil, err
	}
	var gray, rgb row
	n := h.Width
	switch m := m.(type) {
	case *image.Gray:
		gray = func(y int, to []byte) { copy(to, m.Pix[y*m.Stride:][:n]) }
	case *image.Gray16:
		gray = func(y int, to []byte) { narrow(to, m.Pix[y*m.Stride:], n, 1, 1) }
	case *image.RGBA:
		rgb = func(y int, to []byte) { dropFourth(to, m.Pix[y*m.Stride:], n) }
	case *image.NRGBA:
		rgb = func(y int, to []byte) { dropFourth(to, m.Pix[y*m.Stride:], n) }
	case *image.RGBA64:
		rgb = func(y int, to []byte) { narrow(to, m.Pix[y*m.Stride:], n, 4, 3) }
	case *image.NRGBA64:
		rgb = func(y int, to []byte) { narrow(to, m.Pix[y*m.Stride:], n, 4, 3) }
	case *image.Paletted:
		table := paletteRGB(m.Palette)
		rgb = func(y int, to []byte) { lookUp(to, m.Pix[y*m.Stride:][:n], &table) }
	default:
		return nil, unsupported("image/png makes it %T", m)
	}
	return inColor(c, rgb, gray, n), nil
}

// narrow converts 16 bits to 8, round(v/257), and keeps the first channels of each pixel.
func narrow(to, from []byte, pixels, channels, keep int) {
	i := 0
	for x := range pixels {
		for c := range keep {
			p := from[2*(x*channels+c):]
			to[i] = uint8((uint32(p[0])<<8 | uint32(p[1]) + 128) / 257)
			i++
		}
	}
}

// paletteRGB returns a palette's colours. They are opaque, since tRNS is not read.
func paletteRGB(p color.Palette) (t [256][3]uint8) {
	for i, c := range p {
		if c, ok := c.(color.RGBA); ok {
			t[i] = [3]uint8{c.R, c.G, c.B}
		}
	}
	return t
}

func lookUp(to, indices []byte, table *[256][3]uint8) {
	for x, i := range indices {
		copy(to[3*x:3*x+3], table[i][:])
	}
}
