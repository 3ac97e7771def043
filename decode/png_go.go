package decode

import (
	"bytes"
	"image"
	"image/png"
	"io"
	"strings"
)

// goPNG decodes with image/png, which is given only the chunks that determine the pixels.
func goPNG(_ *kept, dst Image, data []byte, v View) error {
	critical, err := pngCritical(data)
	if err != nil {
		return err
	}
	return guarded(func() error {
		m, err := png.Decode(critical)
		if err != nil {
			return goError[png.UnsupportedError](err)
		}
		source, err := pngRows(m, v.Header.Width, v.Header.Height)
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

func pngRows(m image.Image, n, height int) (row, error) {
	if err := sameSize(m, n, height); err != nil {
		return nil, err
	}
	switch m := m.(type) {
	case *image.Gray:
		return func(y int, to []byte) { repeat(to, m.Pix[y*m.Stride:][:n]) }, nil
	case *image.Gray16:
		return func(y int, to []byte) { narrow(to, m.Pix[y*m.Stride:], n, 1) }, nil
	case *image.RGBA:
		return func(y int, to []byte) { dropFourth(to, m.Pix[y*m.Stride:], n) }, nil
	case *image.NRGBA:
		return func(y int, to []byte) { dropFourth(to, m.Pix[y*m.Stride:], n) }, nil
	case *image.RGBA64:
		return func(y int, to []byte) { narrow(to, m.Pix[y*m.Stride:], n, 4) }, nil
	case *image.NRGBA64:
		return func(y int, to []byte) { narrow(to, m.Pix[y*m.Stride:], n, 4) }, nil
	case *image.Paletted:
		return func(y int, to []byte) {
			for x, i := range m.Pix[y*m.Stride:][:n] {
				r, g, b, _ := m.Palette[i].RGBA() // opaque, since tRNS is not read
				to[3*x], to[3*x+1], to[3*x+2] = uint8(r>>8), uint8(g>>8), uint8(b>>8)
			}
		}, nil
	}
	return nil, unsupported("image/png makes it %T", m)
}

// narrow converts n pixels of 1 or 4 channels from 16 bits to RGB in 8, round(v/257).
func narrow(to, from []byte, n, channels int) {
	for i := range 3 * n {
		p := from[2*(i/3*channels+i%3%channels):]
		to[i] = uint8((uint32(p[0])<<8 | uint32(p[1]) + 128) / 257)
	}
}
