package pixels

import (
	"encoding/binary"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/batchfs/batchfs/decode/resample"
)

// TestMaskOrientation: a mask of the stored size lies like the stored image, one of the upright
// size like the upright image. If both are possible, it lies like the stored one.
func TestMaskOrientation(t *testing.T) {
	for _, v := range []struct {
		mh, mw, h, w int
		o            uint8
		ignored      bool
		want         uint8
	}{
		{3, 4, 3, 4, 1, false, 1}, {3, 4, 3, 4, 6, false, 6}, {4, 3, 3, 4, 6, false, 1}, {3, 4, 3, 4, 3, false, 3}, {3, 4, 3, 4, 0, false, 1},
		{3, 4, 3, 4, 6, true, 1}, {4, 3, 3, 4, 6, true, 8}, {4, 3, 3, 4, 8, true, 6}, {4, 3, 3, 4, 5, true, 5}, {4, 4, 4, 4, 6, false, 6},
		{4, 3, 3, 4, 1, false, 0}, {4, 3, 3, 4, 3, true, 0}, {5, 4, 3, 4, 6, false, 0}, {3, 5, 3, 4, 1, true, 0},
	} {
		got, ok := MaskOrientation(v.mh, v.mw, v.h, v.w, v.o, v.ignored)
		if got != v.want || ok != (v.want != 0) {
			t.Errorf("%+v: %d, %v", v, got, ok)
		}
	}
}

// upright is what a stored image shows, by the definition of EXIF orientations.
func upright(o uint8, h, w, y, x int) (sy, sx int) {
	switch o {
	case 2:
		return y, w - 1 - x
	case 3:
		return h - 1 - y, w - 1 - x
	case 4:
		return h - 1 - y, x
	case 5:
		return x, y
	case 6:
		return h - 1 - x, y
	case 7:
		return h - 1 - x, w - 1 - y
	case 8:
		return x, w - 1 - y
	}
	return y, x
}

// TestMaskPut: every element is the mapped value of the pixel that the transform selects, whatever
// the orientation, the flip, the size of values and elements and the room beside the mask.
func TestMaskPut(t *testing.T) {
	r := rand.New(rand.NewPCG(27, 3))
	var columns []int
	for n := range 6000 {
		h, w, o, bytes := 1+r.IntN(40), 1+r.IntN(2+r.IntN(40)), uint8(1+r.IntN(8)), 1+r.IntN(3)
		pix := make([]byte, h*w*bytes)
		for i := range pix {
			pix[i] = byte(r.IntN(5))
		}
		v := Values{Ignore: 255, Wide: bytes > 1 || n%2 == 0}
		if v.Wide {
			v.Ignore = -1
		}
		if n%3 == 0 && bytes < 3 {
			v.Map = []int32{7, -1, 200, 3}
		}
		uh, uw := h, w
		if o >= 5 {
			uh, uw = w, h
		}
		opts := resample.Options{Mode: resample.Mode(n % 6), Height: 1 + r.IntN(50), Width: 1 + r.IntN(50), CropArea: resample.DefaultCropArea,
			CropRatio: resample.DefaultCropRatio, Flip: 0.5, Seed: uint64(n)}
		opts.ResizeTo = max(opts.Height, opts.Width) + r.IntN(20)
		tr := opts.Choose(1, int64(n), uh, uw)
		oh, ow := tr.Size()
		sh, sw, each := oh+r.IntN(3), ow+r.IntN(3), v.bytes()
		slot := slices.Repeat([]byte{77}, sh*sw*each)
		v.Put(slot, sw, NewMask(pix, h, w, bytes, o), tr, &columns)
		for i := range sh * sw {
			y, x, want := i/sw, i%sw, v.Ignore
			if y < oh && x < ow {
				if tr.Flip {
					x = ow - 1 - x
				}
				sy, sx := upright(o, h, w, tr.Y.Nearest(y), tr.X.Nearest(x))
				p := pix[(sy*w+sx)*bytes:]
				switch want = int32(p[0]); bytes {
				case 2:
					want = int32(p[0])<<8 | int32(p[1])
				case 3:
					want = int32(p[0]) + 256*int32(p[1]) + 65536*int32(p[2])
				}
				if v.Map != nil {
					if want < int32(len(v.Map)) && want != 1 {
						want = v.Map[want]
					} else {
						want = v.Ignore
					}
				}
			}
			got := int32(slot[i*each])
			if v.Wide {
				got = int32(binary.LittleEndian.Uint32(slot[i*each:]))
			}
			if got != want {
				t.Fatalf("%+v of %dx%d, orientation %d: element %d is %d, not %d", opts, h, w, o, i, got, want)
			}
		}
	}
}
