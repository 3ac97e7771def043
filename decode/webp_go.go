package decode

import (
	"bytes"
	"image"

	"golang.org/x/image/vp8"
	"golang.org/x/image/vp8l"
)

// goWebP decodes with golang.org/x/image, and converts the planes of lossy images with
// libwebp's arithmetic, to the same bytes.
func goWebP(_ *codecState, dst Image, data []byte, v view) error {
	w, err := readWebP(data, true)
	if err != nil {
		return err
	}
	return throughGo(dst, v, func() (row, error) {
		source, err := w.image.rows(bytes.NewReader(data[w.image.from:w.image.to]))
		return w.image.onCanvas(source), err
	})
}

// rows decodes the VP8 or VP8L data.
func (i *webpImage) rows(data *bytes.Reader) (row, error) {
	if i.lossless {
		m, err := vp8l.Decode(data)
		if err != nil {
			return nil, err
		}
		return rowsOf(m, i.width, i.height)
	}
	d := vp8.NewDecoder()
	d.Init(data, data.Len())
	if _, err := d.DecodeFrameHeader(); err != nil {
		return nil, err
	}
	m, err := d.DecodeFrame()
	if err != nil {
		return nil, err
	}
	_, err = rowsOf(m, i.width, i.height)
	return webpChroma{m}.row, err
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

// webpChroma converts a lossy WebP's 4:2:0 planes to RGB as libwebp does. Each pixel's chroma is
// (9a + 3b + 3c + d) / 16 of the four samples around it, rounded in two steps; the conversion to
// RGB is video-range BT.601.
type webpChroma struct{ *image.YCbCr }

func (u webpChroma) row(y int, to []byte) {
	size := u.Bounds().Size()
	near, next := y/2*u.CStride, nextSample(y, (size.Y+1)/2)*u.CStride
	for x, l := range u.Y[y*u.YStride:][:size.X] {
		a, b := x/2, nextSample(x, (size.X+1)/2)
		cb := mixChroma(u.Cb, near+a, near+b, next+a, next+b)
		cr := mixChroma(u.Cr, near+a, near+b, next+a, next+b)
		to[3*x], to[3*x+1], to[3*x+2] = videoRGB(l, cb, cr)
	}
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
