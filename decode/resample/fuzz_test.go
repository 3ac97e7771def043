package resample

import (
	"math/rand/v2"
	"testing"
)

// FuzzResize: whatever the geometry, every kernel makes the same bytes, close to the
// definition's, and none reads or writes out of bounds.
func FuzzResize(f *testing.F) {
	f.Add(uint16(375), uint16(500), true, uint8(1), uint16(224), uint16(224), uint64(1), 0.0, uint8(0))
	f.Add(uint16(1), uint16(1), false, uint8(3), uint16(300), uint16(1), uint64(2), 0.5, uint8(1))
	f.Add(uint16(3000), uint16(2), true, uint8(1), uint16(3), uint16(9), uint64(3), 0.25, uint8(2))
	f.Add(uint16(17), uint16(93), true, uint8(4), uint16(16), uint16(31), uint64(4), 1.0, uint8(3))
	f.Fuzz(func(t *testing.T, h, w uint16, rgb bool, mode uint8, height, width uint16, seed uint64, shift float64, reduce uint8) {
		src := Image{Height: 1 + int(h)%3000, Width: 1 + int(w)%3000, Channels: 1}
		if rgb {
			src.Channels = 3
		}
		r := rand.New(rand.NewPCG(seed, 0))
		if src.Height*src.Width > 60000 {
			src.Height = 1 + 60000/src.Width
		}
		stride := r.IntN(9)
		src = noise(r, src.Height, src.Width, src.Channels)
		src.Stride += stride
		src.Pix = append(src.Pix, make([]byte, stride*(src.Height-1))...)
		o := randomCrop(seed)
		o.Mode, o.Height, o.Width = Mode(mode)%numModes, 1+int(height)%400, 1+int(width)%400
		o.ResizeTo = max(o.Height, o.Width) + int(reduce)
		tr := o.Choose(int(h), int64(w), src.Height, src.Width)
		switch { // also geometries that Choose does not make
		case reduce%4 > 0:
			scale := 1 << (reduce % 4)
			tr = tr.Reduced(scale, 0, 0)
		case shift > -1000 && shift < 1000:
			tr.X.Start += shift
			tr.Y.Step *= 1 - min(max(shift, 0), 0.9)
		}
		b := newBench(t)
		if fits(src, tr) != nil {
			return
		}
		b.everyKernel(t, src, tr)
	})
}
