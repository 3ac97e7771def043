package decode

import (
	"bytes"
	"fmt"
	"image"

	"golang.org/x/image/webp"
)

// goWebP decodes with golang.org/x/image/webp, and makes pixels of the planes of
// lossy images with libwebp's arithmetic, to the same bytes.
type goWebP struct{ stateless }

func (goWebP) Header(data []byte, complete bool) (Header, error) { return webpHeader(data, complete) }

// noError is an error type that x/image/webp never returns: it does not tell
// what it does not support from what is corrupt.
type noError struct{ error }

func (goWebP) Decode(dst Image, data []byte, v View) error {
	return guarded(func() error {
		m, err := webp.Decode(bytes.NewReader(data))
		if err != nil {
			return goError[noError](err)
		}
		source, err := webpRows(m, v.Header)
		if err != nil {
			return err
		}
		emit(dst, v, inColor(v.Color, source, nil, v.Header.Width))
		return nil
	})
}

func webpRows(m image.Image, h Header) (row, error) {
	if b := m.Bounds(); b.Min.X != 0 || b.Min.Y != 0 || b.Dx() != h.Width || b.Dy() != h.Height {
		return nil, fmt.Errorf("%w: x/image/webp reads another size", ErrMismatch)
	}
	switch m := m.(type) {
	case *image.NRGBA:
		return func(y int, to []byte) { dropFourth(to, m.Pix[y*m.Stride:], h.Width) }, nil
	case *image.YCbCr:
		return newWebPChroma(m).row, nil
	case *image.NYCbCrA:
		return newWebPChroma(&m.YCbCr).row, nil
	}
	return nil, unsupported("x/image/webp makes it %T", m)
}
