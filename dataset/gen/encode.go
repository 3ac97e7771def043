package gen

import (
	"bytes"
	"fmt"
	"image"
	"image/jpeg"
	"image/png"
	"io"

	"golang.org/x/image/bmp"
)

type encoder func(to io.Writer, m image.Image) error

// format is a way of encoding pictures.
type format struct {
	name, ext string
	encode    encoder
}

var formats = append([]format{
	{"jpeg", ".jpg", encodeJPEG},
	{"png", ".png", png.Encode},
	{"bmp", ".bmp", bmp.Encode},
	{"ppm", ".ppm", ppmWith("")},
}, webpFormats...)

// Formats returns the values that Options.Format may have, apart from "": jpeg, png, bmp, ppm
// and, in a build with cgo, webp.
func Formats() (names []string) {
	for _, f := range formats {
		names = append(names, f.name)
	}
	return names
}

func encodeJPEG(to io.Writer, m image.Image) error {
	return jpeg.Encode(to, m, &jpeg.Options{Quality: 90})
}

// ppmWith writes a painter's picture as PPM, with something after the header's first token.
func ppmWith(insert string) encoder {
	return func(to io.Writer, m image.Image) error {
		data := fmt.Appendf(nil, "P6%s\n%d %d\n255\n", insert, m.Bounds().Dx(), m.Bounds().Dy())
		for pix := m.(*image.RGBA).Pix; len(pix) > 0; pix = pix[4:] {
			data = append(data, pix[:3]...)
		}
		_, err := to.Write(data)
		return err
	}
}

// maker makes files one after another. Each worker has one.
type maker struct {
	Options
	painter
	ways []format // image i is encoded in the way i modulo their number
}

func newMaker(o Options, t *tiles) *maker {
	m := &maker{Options: o, painter: painter{tiles: t}}
	if m.Kind == Mixed {
		m.ways = mixedFormats()
		return m
	}
	for _, f := range formats {
		if f.name == o.Format || o.Format == "" && f.name == [...]string{Photo: "jpeg", Cityscape: "png"}[o.Kind] {
			m.ways = append(m.ways, f)
		}
	}
	return m
}

// image writes file i and returns its extension.
func (m *maker) image(to *bytes.Buffer, i int) (ext string, err error) {
	f := m.ways[i%len(m.ways)]
	switch m.Kind {
	case Mixed:
		return f.ext, f.encode(to, m.small(i))
	case Cityscape:
		m.cityscape(m.Seed, i)
	default:
		m.photo(m.Seed, i, photoWidth, photoHeight)
	}
	return f.ext, f.encode(to, m.img)
}
