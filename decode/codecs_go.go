package decode

import (
	"errors"
	"fmt"
	"image"
	"io"
)

// goCodecs are the codecs that need no C. They keep nothing between images.
var goCodecs = codecs{JPEG: goJPEG, PNG: goPNG, WebP: goWebP, BMP: decodeBMP, PNM: decodePNM}

// guarded calls one of Go's decoders and turns a panic into an error: hostile data that breaks
// one must cost one image, not the program.
func guarded(decode func() error) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = corrupt("its decoder failed: %v", r)
		}
	}()
	return decode()
}

// goError classifies an error of Go's decoders: E is the error type that means "unsupported".
func goError[E error](err error) error {
	var e E
	switch {
	case errors.As(err, &e):
		return fmt.Errorf("%w: %w", ErrFormat, err)
	case errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF):
		return endsEarly(true)
	}
	return fmt.Errorf("%w: %w", ErrCorrupt, err)
}

// sameSize checks that one of Go's decoders made an image of the size that the header says.
func sameSize(m image.Image, width, height int) error {
	if m.Bounds() != image.Rect(0, 0, width, height) {
		return fmt.Errorf("%w: Go's decoder reads another size", ErrMismatch)
	}
	return nil
}
