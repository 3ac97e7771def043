package integration

import (
	"fmt"
	"image"
	"image/color"
	"path/filepath"
	"testing"
)

// masked is a dataset of PNGs of one size, with masks beside them.
type masked struct{ dir string }

const (
	maskedImages            = 14
	maskedBatch             = 4
	maskedHeight, maskedWid = 24, 33
)

func newMasked(t testing.TB) masked {
	t.Helper()
	m := masked{filepath.Join(scratch(t), "masked")}
	for id := range maskedImages {
		rgb := noise(uint64(300+id), maskedHeight, maskedWid)
		writeFile(t, filepath.Join(m.dir, fmt.Sprintf("images/%02d.png", id)), asPNG(opaque(maskedHeight, maskedWid, rgb)))
		m.write(t, id)
	}
	return m
}

func (m masked) mask(id int) string {
	return filepath.Join(m.dir, "masks", fmt.Sprintf("%02d.png", id))
}

// write writes the mask of an image, with a palette.
func (m masked) write(t testing.TB, id int) {
	t.Helper()
	mask := image.NewPaletted(image.Rect(0, 0, maskedWid, maskedHeight), nil)
	for k := range 21 {
		mask.Palette = append(mask.Palette, color.Gray{Y: uint8(255 - k)})
	}
	for i := range mask.Pix {
		mask.Pix[i] = byte((id*5 + i*i) % 21)
	}
	writeFile(t, m.mask(id), asPNG(mask))
}
