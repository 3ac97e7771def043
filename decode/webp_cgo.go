//go:build cgo

package decode

// #include "bfs_webp.h"
// #cgo noescape bfs_webp_decode
// #cgo nocallback bfs_webp_decode
import "C"

// cWebP decodes with libwebp.
type cWebP struct{ cHandle }

func (c *cWebP) Header(data []byte, complete bool) (Header, error) { return webpHeader(data, complete) }

func (c *cWebP) Decode(dst Image, data []byte, v View) error {
	if err := c.open(); err != nil {
		return err
	}
	to, view := cView(dst, v)
	from, n := cData(data)
	return c.result(C.bfs_webp_decode(c.p, from, n, to, view), "libwebp")
}

// webpScratch estimates what libwebp allocates. Lossy images need a few rows;
// lossless ones, and alpha that is stored that way, all their pixels and the
// images of their transforms.
func webpScratch(width, height int, lossless, alpha bool) int64 {
	const fixed = 1 << 20 // prefix-code tables, for the most part
	pixels := int64(width) * int64(height)
	switch {
	case lossless:
		return fixed + 5*pixels + 128*int64(width)
	case alpha:
		return fixed + 6*pixels + 256*int64(width)
	}
	return fixed/4 + 256*int64(width)
}
