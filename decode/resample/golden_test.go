package resample

import (
	"hash/crc32"
	"math"
	"testing"
)

// TestGoldenChoices pins what Version names. The numbers come from a Python implementation of the
// package comment. Do not adapt them to the code: batches of existing datasets would change.
func TestGoldenChoices(t *testing.T) {
	for _, v := range []struct {
		seed   uint64
		epoch  int
		sample int64
		h, w   int
		want   window
		flip   bool
	}{
		{0, 0, 0, 375, 500, window{2, 211, 318, 244}, true},
		{0, 0, 1, 375, 500, window{9, 78, 361, 397}, false},
		{0, 1, 0, 375, 500, window{45, 46, 323, 327}, true},
		{1, 0, 0, 375, 500, window{54, 32, 295, 376}, false},
		{7, 2, 51, 375, 500, window{77, 47, 216, 175}, true},
		{1<<63 | 12345, 99, 1<<36 - 1, 1024, 2048, window{332, 131, 440, 472}, false},
		{math.MaxUint64, 1<<26 - 1, 1 << 33, 500, 375, window{192, 63, 258, 194}, false},
		{3, 4, 5, 1, 1, window{0, 0, 1, 1}, true},
		{3, 4, 5, 2, 3, window{0, 1, 1, 2}, true},
		{3, 4, 5, 10, 1000, window{0, 493, 10, 13}, true}, // no try fits
		{3, 4, 5, 1000, 10, window{493, 0, 13, 10}, true},
		{9, 9, 9, 65500, 65500, window{29291, 1090, 22292, 29186}, true},
	} {
		o := randomCrop(v.seed)
		o.Flip = 0.5
		got := o.Choose(v.epoch, v.sample, v.h, v.w)
		if want := v.want.crop(); got.Crop != want || got.Flip != v.flip {
			t.Errorf("%+v: %v, flip %v", v, got.Crop, got.Flip)
		}
	}
}

func (w window) crop() [4]float64 {
	return [4]float64{float64(w.y), float64(w.x), float64(w.h), float64(w.w)}
}

// randomCrop returns typical options for training on ImageNet.
func randomCrop(seed uint64) Options {
	return Options{Mode: RandomResizedCrop, Height: 224, Width: 224, CropArea: DefaultCropArea, CropRatio: DefaultCropRatio, Seed: seed}
}

// TestGoldenLogarithms: the bits come from a digit-by-digit implementation in Python on another
// machine; the mathematical library's results are close.
func TestGoldenLogarithms(t *testing.T) {
	for x, want := range map[float64]float64{
		0.75: -0x1.a8ff971810a80p-2, 4. / 3: 0x1.a8ff971810a40p-2, 0.08: -0x1.d269e12f346e8p+1,
		1e-5: -0x1.09c1165ec0627p+4, 2.5: 0x1.5269e12f346e0p+0, 65536: 16, 1: 0,
	} {
		if got := log2(x); got != want || math.Abs(got-math.Log2(x)) > 1e-14 {
			t.Errorf("log2(%v) is %x, not %x", x, got, want)
		}
	}
	for x, want := range map[float64]float64{
		-0.41503749927884376: 0x1.7fffffffffff0p-1, 0.25: 0x1.306fe0a31b715p+0, -16.7: 0x1.3b2c47bff8327p-17,
		3.999999999: 0x1.fffffffa0bc06p+3, -2: 0.25, 0: 1, 26: 1 << 26,
	} {
		if got := exp2(x); got != want || math.Abs(got/math.Exp2(x)-1) > 1e-14 {
			t.Errorf("exp2(%v) is %x, not %x", x, got, want)
		}
	}
}

// TestGoldenPixels pins the bytes that Version names.
func TestGoldenPixels(t *testing.T) {
	for _, v := range []struct {
		channels int
		o        Options
		want     uint32
	}{
		{3, Options{Mode: Stretch, Height: 224, Width: 224}, 0xf6f6e02e},
		{1, Options{Mode: Stretch, Height: 600, Width: 333}, 0xd7a459b0},
		{3, Options{Mode: NotLarger, Height: 100, Width: 150}, 0x064251da},
		{3, Options{Mode: NotSmaller, Height: 224, Width: 224}, 0x78122420},
		{1, Options{Mode: NotSmaller, Height: 31, Width: 64}, 0x0b150c38},
		{3, randomCrop(5), 0xdb9bfc89},
		{3, Options{Mode: Stretch, Height: 2, Width: 2}, 0x03582e41}, // more than 128 pixels per step
	} {
		src := pattern(375, 500, v.channels)
		got := newBench(t).everyKernel(t, src, v.o.Choose(0, 0, src.Height, src.Width))
		if sum := crc32.ChecksumIEEE(got); sum != v.want {
			t.Errorf("%d channels, %+v: the bytes' CRC-32 is %#08x, not %#08x", v.channels, v.o, sum, v.want)
		}
	}
}

// pattern is a picture defined by a single line of code: detail of every size.
func pattern(h, w, channels int) Image {
	src := Image{Pix: make([]byte, h*w*channels), Stride: w * channels, Height: h, Width: w, Channels: channels}
	for i := range src.Pix {
		y, x := uint32(i/src.Stride), uint32(i%src.Stride)
		src.Pix[i] = byte((x*x + y*y*y + x*y*7) >> 6)
	}
	return src
}
