//go:build cgo

package decode

// #include "bfs_png.h"
// #cgo noescape bfs_png_decode
// #cgo nocallback bfs_png_decode
import "C"

// cPNG decodes with libpng.
type cPNG struct{ cHandle }

func (c *cPNG) Header(data []byte, complete bool) (Header, error) { return pngHeader(data, complete) }

func (c *cPNG) Decode(dst Image, data []byte, v View) error {
	// A region above the last row stops there; libpng sees no more.
	if v.Region.Y+v.Region.H < v.Header.Height && !pngComplete(data) {
		return endsEarly(true)
	}
	if err := c.open(); err != nil {
		return err
	}
	to, view := cView(dst, v)
	from, n := cData(data)
	return c.result(C.bfs_png_decode(c.p, from, n, to, view), "libpng")
}

// pngComplete reports whether the file's chunks reach its IEND, for regions
// that do not need its last rows.
func pngComplete(data []byte) bool {
	for p := int64(len(pngSignature)); p < int64(len(data)); {
		n, name, ok := pngHead(data, int(p))
		p += pngOverhead + n
		if !ok || p > int64(len(data)) {
			return false
		}
		if name == "IEND" {
			return true
		}
	}
	return false
}

// pngScratch estimates what libpng and zlib allocate: two rows as stored and
// one as converted, and the window to inflate.
func pngScratch(width, height, bits int, interlaced bool) int64 {
	const fixed = 64 << 10
	return fixed + 3*int64(width)*max(int64(bits+7)/8, 4)
}
