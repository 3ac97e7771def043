package decode

import (
	"bytes"
	"image"
	"image/png"
	"io"
	"strings"
)

// goPNG decodes with image/png, which is given only the chunks that determine the pixels.
func goPNG(_ *codecState, dst Image, data []byte, v view) error {
	critical, err := pngCritical(data)
	if err != nil {
		return err
	}
	return throughGo(dst, v, func() (row, error) {
		m, err := png.Decode(critical)
		if err != nil {
			return nil, err
		}
		return rowsOf(m, v.Header.Width, v.Header.Height)
	})
}

// pngCritical returns a reader of a PNG's critical chunks alone: image/png is stricter about
// ancillary chunks than this package, and accepts unknown critical ones.
func pngCritical(data []byte) (io.Reader, error) {
	parts := []io.Reader{strings.NewReader(pngSignature)}
	for chunk := range pngChunks(data, len(pngSignature)) {
		ancillary := chunk[4]&0x20 != 0 // lower-case first letter
		switch name := string(chunk[4:8]); {
		case ancillary || name == "PLTE" && strangeSuggestion(data, chunk):
		case name == "IHDR", name == "PLTE", name == "IDAT":
			parts = append(parts, bytes.NewReader(chunk))
		case name == "IEND":
			return io.MultiReader(append(parts, bytes.NewReader(chunk))...), nil
		default:
			return nil, corrupt("an unknown critical chunk")
		}
	}
	return nil, endsEarly(true)
}

// strangeSuggestion reports whether a palette is only suggested, for a colour image, and has an
// impossible size but a correct checksum.
func strangeSuggestion(data, palette []byte) bool {
	const kindAt = len(pngSignature) + 8 + 9
	n := len(palette) - pngOverhead
	return data[kindAt]&3 == 2 && (n > 3*256 || n%3 != 0) && pngSound(palette[4:])
}

// goStoredPNG is storedPNG in Go.
func goStoredPNG(to, data []byte, pixel int) error {
	critical, err := pngCritical(data)
	if err != nil {
		return err
	}
	var m image.Image
	err = explain(func() (err error) {
		m, err = png.Decode(critical)
		return err
	})
	if err != nil {
		return err
	}
	bits, kind := pngDepth(data)
	switch m := m.(type) {
	case *image.Gray:
		copy(to, m.Pix)
		for i := range to {
			to[i] = to[i] / (255 / (1<<min(bits, 8) - 1))
		}
	case *image.Paletted:
		copy(to, m.Pix)
	case *image.Gray16:
		copy(to, m.Pix)
	case *image.RGBA:
		storedChannels(to, m.Pix, kind, 1)
	case *image.NRGBA:
		storedChannels(to, m.Pix, kind, 1)
	case *image.RGBA64:
		storedChannels(to, m.Pix, kind, 2)
	case *image.NRGBA64:
		storedChannels(to, m.Pix, kind, 2)
	default:
		return unsupported("Go's decoder makes it %T", m)
	}
	return nil
}

// storedChannels copies those channels of RGBA pixels that a colour type has.
func storedChannels(to, rgba []byte, kind byte, size int) {
	channels := map[byte][]int{2: {0, 1, 2}, 4: {0, 3}, 6: {0, 1, 2, 3}}[kind]
	for ; len(rgba) >= 4*size; rgba = rgba[4*size:] {
		for _, c := range channels {
			to = to[copy(to[:size], rgba[c*size:]):]
		}
	}
}
