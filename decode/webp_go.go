package decode

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"image"
	"io"

	"golang.org/x/image/webp"
)

// goWebP decodes with golang.org/x/image/webp, and converts the planes of lossy images with
// libwebp's arithmetic, to the same bytes.
type goWebP struct{ stateless }

// noError is an error type that x/image/webp never returns: the package does not distinguish
// unsupported from corrupt.
type noError struct{ error }

func (goWebP) Decode(dst Image, data []byte, v View) error {
	w, err := readWebP(data, true)
	if err != nil {
		return err
	}
	if w.h.Width != v.Header.Width || w.h.Height != v.Header.Height {
		return fmt.Errorf("%w: it is %dx%d", ErrMismatch, w.h.Width, w.h.Height)
	}
	return guarded(func() error {
		m, err := webp.Decode(w.image.file(data))
		if err != nil {
			return goError[noError](err)
		}
		source, err := webpRows(m, w.image.width, w.image.height)
		if err != nil {
			return err
		}
		emit(dst, v, inColor(v.Color, w.image.onCanvas(source), nil, v.Header.Width))
		return nil
	})
}

// file returns a reader of a WebP file that contains only the image.
func (i *webpImage) file(data []byte) io.Reader {
	name := "VP8 "
	if i.lossless {
		name = "VP8L"
	}
	body := data[i.from:i.to]
	pad := len(body) & 1
	head := binary.LittleEndian.AppendUint32([]byte("RIFF"), uint32(4+8+len(body)+pad))
	head = append(append(head, "WEBP"...), name...)
	head = binary.LittleEndian.AppendUint32(head, uint32(len(body)))
	return io.MultiReader(bytes.NewReader(head), bytes.NewReader(body), bytes.NewReader(make([]byte, pad)))
}

// onCanvas turns rows of the image into rows of the canvas, black where the image is not.
func (i *webpImage) onCanvas(source row) row {
	return func(y int, to []byte) {
		clear(to)
		if y >= i.y && y-i.y < i.height {
			source(y-i.y, to[3*i.x:][:3*i.width])
		}
	}
}

func webpRows(m image.Image, width, height int) (row, error) {
	if b := m.Bounds(); b.Min.X != 0 || b.Min.Y != 0 || b.Dx() != width || b.Dy() != height {
		return nil, fmt.Errorf("%w: x/image/webp reads another size", ErrMismatch)
	}
	switch m := m.(type) {
	case *image.NRGBA:
		return func(y int, to []byte) { dropFourth(to, m.Pix[y*m.Stride:], width) }, nil
	case *image.YCbCr:
		return newWebPChroma(m).row, nil
	case *image.NYCbCrA:
		return newWebPChroma(&m.YCbCr).row, nil
	}
	return nil, unsupported("x/image/webp makes it %T", m)
}
