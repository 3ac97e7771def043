package decode

import "image"

// jpegChroma converts a JPEG's planes to RGB with libjpeg's arithmetic: chroma with half the
// samples in a row or column is interpolated, 3/4 of the nearer and 1/4 of the next sample;
// other factors repeat samples.
type jpegChroma struct {
	m             *image.YCbCr
	width         int
	across, down  int // luma samples per chroma sample
	chromaW       int
	chromaH       int
	cb, cr        []byte   // one row, upsampled
	sums          []uint16 // one row between the two steps of upsampling
	fancyX, fancy bool
}

func newJPEGChroma(m *image.YCbCr) *jpegChroma {
	b := m.Bounds()
	u := &jpegChroma{m: m, width: b.Dx(), across: 1, down: 1}
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
	u.chromaW = (b.Dx() + u.across - 1) / u.across
	u.chromaH = (b.Dy() + u.down - 1) / u.down
	u.fancyX = u.across == 2 && u.chromaW > 2
	u.fancy = u.fancyX || u.across == 1 && u.down == 2
	u.cb, u.cr = make([]byte, u.chromaW*u.across), make([]byte, u.chromaW*u.across)
	u.sums = make([]uint16, u.chromaW)
	return u
}

func (u *jpegChroma) row(y int, to []byte) {
	u.upsample(u.cb, u.m.Cb, y)
	u.upsample(u.cr, u.m.Cr, y)
	luma := u.m.Y[y*u.m.YStride:][:u.width]
	for x, l := range luma {
		to[3*x], to[3*x+1], to[3*x+2] = jfifRGB(l, u.cb[x], u.cr[x])
	}
}

// upsample widens row y of one chroma plane to luma's width.
func (u *jpegChroma) upsample(to, plane []byte, y int) {
	near := plane[y/u.down*u.m.CStride:][:u.chromaW]
	switch {
	case !u.fancy:
		for x := range to {
			to[x] = near[x/u.across]
		}
	case u.down == 1:
		widen(to, near)
	default:
		next := u.neighbour(plane, y)
		for x, n := range near {
			u.sums[x] = 3*uint16(n) + uint16(next[x])
		}
		if u.fancyX {
			widenSums(to, u.sums)
		} else {
			u.roundSums(to, y)
		}
	}
}

// neighbour returns the second-nearest chroma row to luma row y, where chroma has half the rows.
func (u *jpegChroma) neighbour(plane []byte, y int) []byte {
	n := y/2 - 1 + y%2*2
	n = min(max(n, 0), u.chromaH-1)
	return plane[n*u.m.CStride:][:u.chromaW]
}

// roundSums finishes rows that already have luma's width; halves round down in even rows and up
// in odd ones.
func (u *jpegChroma) roundSums(to []byte, y int) {
	bias := uint16(1 + y%2)
	for x, s := range u.sums {
		to[x] = uint8((s + bias) >> 2)
	}
}

// widen doubles a row.
func widen(to, from []byte) {
	last := len(from) - 1
	for x, b := range from {
		l, r := from[max(x-1, 0)], from[min(x+1, last)]
		to[2*x] = uint8((3*uint16(b) + uint16(l) + 1) >> 2)
		to[2*x+1] = uint8((3*uint16(b) + uint16(r) + 2) >> 2)
	}
}

// widenSums doubles a row of sums of four.
func widenSums(to []byte, from []uint16) {
	last := len(from) - 1
	for x, s := range from {
		l, r := from[max(x-1, 0)], from[min(x+1, last)]
		to[2*x] = uint8((3*s + l + 8) >> 4)
		to[2*x+1] = uint8((3*s + r + 7) >> 4)
	}
}

// jfifRGB converts as libjpeg does, in 16-bit fixed point.
func jfifRGB(y, cb, cr uint8) (r, g, b uint8) {
	const half = 1 << 15
	l, u, v := int32(y), int32(cb)-128, int32(cr)-128
	return clip8(l + (91881*v+half)>>16),
		clip8(l + (-22554*u-46802*v+half)>>16),
		clip8(l + (116130*u+half)>>16)
}

func clip8(v int32) uint8 { return uint8(min(max(v, 0), 255)) }
