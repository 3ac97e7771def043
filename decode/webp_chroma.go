package decode

import "image"

// webpChroma converts a lossy WebP's 4:2:0 planes to RGB as libwebp does. Each pixel's chroma is
// (9a + 3b + 3c + d) / 16 of the four samples around it, rounded in two steps; the conversion to
// RGB is video-range BT.601.
type webpChroma struct {
	m     *image.YCbCr
	width int
}

func newWebPChroma(m *image.YCbCr) webpChroma { return webpChroma{m, m.Bounds().Dx()} }

func (u webpChroma) row(y int, to []byte) {
	near, next := u.chromaRows(y)
	luma := u.m.Y[y*u.m.YStride:][:u.width]
	for x, l := range luma {
		// The sample that covers this pixel, and the one on the pixel's other side.
		a := x / 2
		b := min(max(a-1+x%2*2, 0), (u.width+1)/2-1)
		cb := mixChroma(u.m.Cb, near+a, near+b, next+a, next+b)
		cr := mixChroma(u.m.Cr, near+a, near+b, next+a, next+b)
		to[3*x], to[3*x+1], to[3*x+2] = videoRGB(l, cb, cr)
	}
}

// chromaRows returns where the two chroma rows nearest to luma row y start; at the top and
// bottom edges both are the outermost row.
func (u webpChroma) chromaRows(y int) (near, next int) {
	n := y/2 - 1 + y%2*2
	n = min(max(n, 0), (u.m.Bounds().Dy()+1)/2-1)
	return y / 2 * u.m.CStride, n * u.m.CStride
}

// mixChroma interpolates between the sample at a, its neighbours b in the row and c in the
// column, and d diagonally opposite.
func mixChroma(plane []byte, a, b, c, d int) uint8 {
	va, vb, vc, vd := uint32(plane[a]), uint32(plane[b]), uint32(plane[c]), uint32(plane[d])
	if a == b {
		return uint8((3*va + vc + 2) >> 2) // in an edge column libwebp rounds once
	}
	diagonal := (va + 3*vb + 3*vc + vd + 8) >> 3
	return uint8((diagonal + va) >> 1)
}

// videoRGB converts from studio swing, in libwebp's fixed point.
func videoRGB(y, cb, cr uint8) (r, g, b uint8) {
	scaled := func(v uint8, by int32) int32 { return int32(v) * by >> 8 }
	l := scaled(y, 19077)
	return clip8((l + scaled(cr, 26149) - 14234) >> 6),
		clip8((l - scaled(cb, 6419) - scaled(cr, 13320) + 8708) >> 6),
		clip8((l + scaled(cb, 33050) - 17685) >> 6)
}
