package decode

import (
	"errors"
	"fmt"
	"image"
	"image/color"
	"image/jpeg"
	"image/png"
	"io"

	"github.com/batchfs/batchfs/internal/fault"
)

// goCodecs are the codecs that need no C. They keep nothing between images.
var goCodecs = codecs{JPEG: goJPEG, PNG: goPNG, WebP: goWebP, BMP: decodeRaw, PNM: decodeRaw, Packed: packedCodec(goKinds)}

// throughGo emits the rows that one of Go's decoders makes.
func throughGo(dst Image, v view, open func() (row, error)) error {
	return explain(func() error {
		source, err := open()
		if err == nil {
			emit(dst, v, source)
		}
		return err
	})
}

// explain classifies the errors of Go's decoders. Hostile data that makes one of them panic must
// cost one image, not the program.
func explain(decode func() error) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = corrupt("its decoder failed: %v", r)
		}
	}()
	err = decode()
	var ofJPEG jpeg.UnsupportedError
	var ofPNG png.UnsupportedError
	switch {
	case err == nil:
		return nil
	case fault.Of(err) == fault.File:
		return err
	case errors.As(err, &ofJPEG), errors.As(err, &ofPNG):
		return fmt.Errorf("%w: %w", ErrFormat, err)
	case errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, io.EOF):
		return endsEarly(true)
	}
	return fmt.Errorf("%w: %w", ErrCorrupt, err)
}

// rowsOf returns the rows of an image that should be width x height pixels.
func rowsOf(m image.Image, width, height int) (row, error) {
	if m.Bounds() != image.Rect(0, 0, width, height) {
		return nil, fmt.Errorf("%w: Go's decoder reads another size", ErrMismatch)
	}
	switch m := m.(type) {
	case *image.NRGBA:
		return func(y int, to []byte) {
			for x, from := 0, m.Pix[y*m.Stride:]; x < width; x, from = x+1, from[4:] {
				copy(to[3*x:3*x+3], from)
			}
		}, nil
	case *image.NRGBA64:
		return wideRow(width, func(x, y int) color.RGBA64 { return color.RGBA64(m.NRGBA64At(x, y)) }), nil
	case image.RGBA64Image: // all others are opaque
		return wideRow(width, m.RGBA64At), nil
	}
	return nil, unsupported("Go's decoder makes it %T", m)
}

func wideRow(width int, at func(x, y int) color.RGBA64) row {
	return func(y int, to []byte) {
		for x := range width {
			c := at(x, y)
			to[3*x], to[3*x+1], to[3*x+2] = narrow(c.R), narrow(c.G), narrow(c.B)
		}
	}
}

// narrow returns round(v/257).
func narrow(v uint16) uint8 { return uint8((uint32(v) + 128) / 257) }
