package decode

import (
	"bytes"
	"image"
	"image/jpeg"
	"io"
)

// goJPEG decodes with image/jpeg, and converts its planes to pixels as libjpeg does. It supports
// fewer sampling factors than libjpeg, and upsamples CMYK by repetition. Scaled images are
// averages of the whole image's pixels.
func goJPEG(_ *codecState, dst Image, data []byte, v view) error {
	frame, err := readJPEGFrame(data, true)
	if err != nil {
		return err
	}
	if err := checkScans(data, v.Header); err != nil {
		return err
	}
	return throughGo(dst, v, func() (row, error) {
		m, err := jpeg.Decode(jpegReader(data, &frame))
		if err != nil {
			return nil, err
		}
		return jpegRows(m, &frame, v.Color)
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
	source, err := rowsOf(m, f.width, f.height)
	switch m := m.(type) {
	case *image.YCbCr:
		if source = newJPEGChroma(m).row; c == Gray { // its own luma
			source = func(y int, to []byte) { repeat(to, m.Y[y*m.YStride:][:f.width]) }
		}
	case *image.CMYK:
		source = func(y int, to []byte) { multiplyInk(to, m.Pix[y*m.Stride:], f.width, f.adobe) }
	}
	return source, err
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

// jpegChroma converts a JPEG's planes to RGB with libjpeg's arithmetic: chroma with half the
// samples in a row or column is interpolated, 3/4 of the nearer and 1/4 of the next sample;
// other factors repeat samples.
type jpegChroma struct {
	*image.YCbCr
	width, height int // of the chroma planes
	across, down  int // luma samples per chroma sample
	cb, cr        []byte
	sums          []uint16 // one row between the two steps of upsampling
}

func newJPEGChroma(m *image.YCbCr) *jpegChroma {
	u := &jpegChroma{YCbCr: m, across: 1, down: 1}
	switch m.SubsampleRatio {
	case image.YCbCrSubsampleRatio422:
		u.across = 2
	case image.YCbCrSubsampleRatio420:
		u.across, u.down = 2, 2
	case image.YCbCrSubsampleRatio440:
		u.down = 2
	case image.YCbCrSubsampleRatio411:
		u.across = 4
	case image.YCbCrSubsampleRatio410:
		u.across, u.down = 4, 2
	}
	size := m.Bounds().Size()
	u.width, u.height = (size.X+u.across-1)/u.across, (size.Y+u.down-1)/u.down
	u.cb, u.cr = make([]byte, u.width*u.across), make([]byte, u.width*u.across)
	u.sums = make([]uint16, u.width)
	return u
}

func (u *jpegChroma) row(y int, to []byte) {
	u.upsample(u.cb, u.Cb, y)
	u.upsample(u.cr, u.Cr, y)
	for x, l := range u.Y[y*u.YStride:][:u.Bounds().Dx()] {
		to[3*x], to[3*x+1], to[3*x+2] = jfifRGB(l, u.cb[x], u.cr[x])
	}
}

// upsample widens row y of one chroma plane to luma's width.
func (u *jpegChroma) upsample(to, plane []byte, y int) {
	near := plane[y/u.down*u.CStride:][:u.width]
	wide := u.across == 2 && u.width > 2
	if !wide && (u.across != 1 || u.down != 2) {
		for x := range to {
			to[x] = near[x/u.across]
		}
		return
	}
	even, odd, shift := uint16(1), uint16(2), 2 // rounding
	for x, n := range near {
		u.sums[x] = uint16(n)
	}
	if u.down == 2 {
		even, odd, shift = 8, 7, 4
		next := plane[nextSample(y, u.height)*u.CStride:][:u.width]
		for x, n := range next {
			u.sums[x] = 3*u.sums[x] + uint16(n)
		}
	}
	last := u.width - 1
	for x, s := range u.sums {
		if wide {
			to[2*x] = uint8((3*s + u.sums[max(x-1, 0)] + even) >> shift)
			to[2*x+1] = uint8((3*s + u.sums[min(x+1, last)] + odd) >> shift)
		} else {
			to[x] = uint8((s + uint16(1+y%2)) >> 2) // halves round down in even rows and up in odd ones
		}
	}
}

// nextSample returns the second-nearest of n chroma samples to luma sample i, where there is one
// for two.
func nextSample(i, n int) int { return min(max(i/2-1+i%2*2, 0), n-1) }

// jfifRGB converts as libjpeg does, in 16-bit fixed point.
func jfifRGB(y, cb, cr uint8) (r, g, b uint8) {
	const half = 1 << 15
	l, u, v := int32(y), int32(cb)-128, int32(cr)-128
	return clip8(l + (91881*v+half)>>16),
		clip8(l + (-22554*u-46802*v+half)>>16),
		clip8(l + (116130*u+half)>>16)
}

func clip8(v int32) uint8 { return uint8(min(max(v, 0), 255)) }
