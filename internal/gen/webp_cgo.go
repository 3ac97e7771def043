//go:build cgo

package gen

// #cgo !static LDFLAGS: -lwebp -lm
// #cgo static,!sharpyuv LDFLAGS: -l:libwebp.a -lm
// #cgo static,sharpyuv LDFLAGS: -l:libwebp.a -l:libsharpyuv.a -lm
// #include <webp/encode.h>
import "C"

import (
	"errors"
	"image"
	"io"
	"unsafe"
)

var webpFormats = []format{{"webp", ".webp", encodeWebP}}

// encodeWebP writes a lossless WebP. Its bytes, but not its pixels, depend on libwebp's version.
func encodeWebP(to io.Writer, picture image.Image) error {
	m := picture.(*image.RGBA)
	var out *C.uint8_t
	n := C.WebPEncodeLosslessRGBA((*C.uint8_t)(&m.Pix[0]), C.int(m.Rect.Dx()), C.int(m.Rect.Dy()), C.int(m.Stride), &out)
	if n == 0 {
		return errors.New("libwebp cannot encode the image: out of memory")
	}
	defer C.WebPFree(unsafe.Pointer(out))
	_, err := to.Write(unsafe.Slice((*byte)(out), n))
	return err
}
