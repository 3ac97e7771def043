package decode

import (
	"bytes"
	"fmt"
	"image"
	"image/jpeg"
	"io"
)

// goJPEG decodes with image/jpeg, and converts its planes to pixels as libjpeg does. It supports
// fewer sampling factors than libjpeg, and upsamples CMYK by repetition. Scaled images are
// averages of the whole image's pixels.
type goJPEG struct{ stateless }

func (goJPEG) Decode(dst Image, data []byte, v View) error {
	frame, err := readJPEGFrame(data, true)
	if err != nil {
		return err
	}
	if err := checkScans(data, v.Header); err != nil {
		return err
	}
	return guarded(func() error {
		m, err := jpeg.Decode(jpegReader(data, &frame))
		if err != nil {
			return goError[jpeg.UnsupportedError](err)
		}
		if b := m.Bounds(); b.Min.X != 0 || b.Min.Y != 0 || b.Dx() != v.Header.Width || b.Dy() != v.Header.Height {
			return fmt.Errorf("%w: image/jpeg reads another size", ErrMismatch)
		}
		source, err := jpegRows(m, &frame, v.Color)
		if err != nil {
			return err
		}
		emit(dst, v, source)
		return nil
	})
}

// adobeMarker is an APP14 segment without a colour transform.
const adobeMarker = "\xff\xee\x00\x0eAdobe\x00\x64\x00\x00\x00\x00\x00"

// jpegReader reads data, and adds an Adobe marker to CMYK files without one, which image/jpeg
// refuses.
func jpegReader(data []byte, f *jpegFrame) io.Reader {
	if f.components != 4 || f.adobe {
		return bytes.NewReader(data)
	}
	return io.MultiReader(bytes.NewReader(data[:2]), bytes.NewReader([]byte(adobeMarker)), bytes.NewReader(data[2:]))
}

func jpegRows(m image.Image, f *jpegFrame, c Color) (row, error) {
	var gray, rgb row
	switch m := m.(type) {
	case *image.Gray:
		gray = func(y int, to []byte) { copy(to, m.Pix[y*m.Stride:][:f.width]) }
	case *image.YCbCr:
		if c == Gray {
			gray = func(y int, to []byte) { copy(to, m.Y[y*m.YStride:][:f.width]) }
		} else {
			rgb = newJPEGChroma(m).row
		}
	case *image.RGBA:
		rgb = func(y int, to []byte) { dropFourth(to, m.Pix[y*m.Stride:], f.width) }
	case *image.CMYK:
		rgb = func(y int, to []byte) { multiplyInk(to, m.Pix[y*m.Stride:], f.width, f.adobe) }
	default:
		return nil, unsupported("image/jpeg makes it %T", m)
	}
	return inColor(c, rgb, gray, f.width), nil
}

// multiplyInk converts n CMYK pixels to RGB. image/jpeg has inverted them, which is correct only
// for Adobe's files.
func multiplyInk(to, from []byte, n int, adobe bool) {
	flip := uint8(255)
	if !adobe {
		flip = 0
	}
	for x := range n {
		p := from[4*x : 4*x+4]
		k := uint32(p[3] ^ flip)
		for i := range 3 {
			to[3*x+i] = uint8((uint32(p[i]^flip)*k + 127) / 255)
		}
	}
}
