package gen

import (
	"bytes"
	"cmp"
	"embed"
	"fmt"
	"image"
	"image/color/palette"
	"image/draw"
	"image/jpeg"
	"image/png"
	"io"
	"io/fs"
	"path"
	"slices"

	"golang.org/x/image/bmp"
)

type encoder func(to io.Writer, m image.Image) error

// format is a way of encoding pictures.
type format struct {
	name, ext string
	encode    encoder
}

var formats = []format{
	{"jpeg", ".jpg", jpegWith("")},
	{"png", ".png", png.Encode},
	{"bmp", ".bmp", bmp.Encode},
	{"ppm", ".ppm", ppmWith("")},
}

// Formats returns the values that Options.Format may have, apart from "": jpeg, png, bmp and ppm.
func Formats() (names []string) {
	for _, f := range formats {
		names = append(names, f.name)
	}
	return names
}

// maker makes files one after another. Each worker has one.
type maker struct {
	Options
	painter
	ways []format // image i is encoded by ways[i modulo len(ways)]
}

func newMaker(o Options, t *tiles) *maker {
	m := &maker{Options: o, painter: painter{tiles: t}}
	if m.Kind == Mixed {
		m.ways = mixedFormats()
		return m
	}
	if o.Targets && o.Kind == Cityscape {
		m.truth = &truth{ids: make([]uint16, cityWidth*cityHeight)}
	}
	m.ways = []format{o.format()}
	return m
}

// format is how all files are encoded, unless they are Mixed.
func (o Options) format() format {
	name := cmp.Or(o.Format, [...]string{Photo: "jpeg", Cityscape: "png", Coco: "jpeg"}[o.Kind])
	return formats[slices.Index(Formats(), name)]
}

// image writes file i and returns its extension.
func (m *maker) image(to *bytes.Buffer, i int) (ext string, err error) {
	f := m.ways[i%len(m.ways)]
	switch m.Kind {
	case Mixed:
		return f.ext, f.encode(to, m.small(i))
	case Cityscape:
		m.cityscape(m.Seed, i)
	case Coco:
		coco(&m.painter, m.Seed, i)
	default:
		m.photo(m.Seed, i, photoWidth, photoHeight)
	}
	return f.ext, f.encode(to, m.img)
}

// rare holds files that the encoders used here cannot write, made by decode/testdata/make.py.
//
//go:embed rare
var rare embed.FS

// mixedSizes are widths and heights. Their number does not divide that of the kinds, so that
// eventually every painted kind has every size.
var mixedSizes = [...][2]int{
	{64, 48}, {1, 1}, {160, 120}, {17, 31}, {2, 3}, {320, 240}, {8, 8}, {1, 40}, {127, 129}, {33, 16}, {255, 1}, {375, 500}, {99, 77},
}

// small paints image i of a mixed dataset.
func (m *maker) small(i int) *image.RGBA {
	size := mixedSizes[(i+i/len(m.ways))%len(mixedSizes)]
	// Scenes need some room, so a small picture is a part of a larger one.
	m.photo(m.Seed, i, max(size[0], 48), max(size[1], 48))
	part := image.NewRGBA(image.Rect(0, 0, size[0], size[1]))
	draw.Draw(part, part.Rect, m.img, image.Point{}, draw.Src)
	return part
}

// mixedFormats lists every kind of file, in the order in which they are used.
func mixedFormats() []format {
	all := append(slices.Clone(formats),
		format{"", ".JPEG", as(gray, jpegWith(""))},
		format{"", ".jpeg", jpegWith("\x00\x55\xaa")}, // stray bytes
		format{"", ".PPM", ppmWith(" # a comment")})
	const exif = "\xff\xe1\x00\x22Exif\x00\x00MM\x00*\x00\x00\x00\x08\x00\x01\x01\x12\x00\x03\x00\x00\x00\x01\x00"
	for orientation := '\x01'; orientation <= 8; orientation++ {
		all = append(all, format{"", ".jpg", jpegWith(exif + string(orientation) + "\x00\x00\x00\x00\x00\x00")})
	}
	for _, convert := range []converter{gray, faded, palettes(256), palettes(16), palettes(4), palettes(2), deep, deepGray} {
		all = append(all, format{"", ".png", as(convert, png.Encode)})
	}
	for _, convert := range []converter{gray, faded, palettes(256)} {
		all = append(all, format{"", ".bmp", as(convert, bmp.Encode)})
	}
	files, _ := fs.Glob(rare, "rare/*") // neither this nor reading them can fail
	for _, name := range files {
		data, _ := rare.ReadFile(name)
		all = append(all, format{"", path.Ext(name), func(to io.Writer, _ image.Image) error {
			_, err := to.Write(data)
			return err
		}})
	}
	return all
}

type converter func(m image.Image) image.Image

// as converts pictures before it encodes them.
func as(convert converter, encode encoder) encoder {
	return func(to io.Writer, m image.Image) error { return encode(to, convert(m)) }
}

// jpegWith writes a JPEG with something between its first two markers.
func jpegWith(insert string) encoder {
	return func(to io.Writer, m image.Image) error {
		var plain bytes.Buffer
		if err := jpeg.Encode(&plain, m, &jpeg.Options{Quality: 90}); err != nil {
			return err
		}
		_, err := to.Write(slices.Concat(plain.Bytes()[:2], []byte(insert), plain.Bytes()[2:]))
		return err
	}
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

// redrawn converts a picture by drawing it.
func redrawn(to draw.Image, m image.Image) image.Image {
	draw.Draw(to, m.Bounds(), m, image.Point{}, draw.Src)
	return to
}

func gray(m image.Image) image.Image     { return redrawn(image.NewGray(m.Bounds()), m) }
func deep(m image.Image) image.Image     { return redrawn(image.NewRGBA64(m.Bounds()), m) }
func deepGray(m image.Image) image.Image { return redrawn(image.NewGray16(m.Bounds()), m) }

// palettes returns a conversion to n colours.
func palettes(n int) converter {
	return func(m image.Image) image.Image { return redrawn(image.NewPaletted(m.Bounds(), palette.Plan9[:n]), m) }
}

// faded adds an alpha channel.
func faded(m image.Image) image.Image {
	f := image.NewNRGBA(m.Bounds())
	redrawn(f, m)
	for i := 3; i < len(f.Pix); i += 4 {
		f.Pix[i] = byte(i)
	}
	return f
}
