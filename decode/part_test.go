package decode

import (
	"bytes"
	"math/rand/v2"
	"testing"
)

// partHead is the number of bytes of a file that PartOf sees.
const partHead = 4096

// TestPartOf: the contents of a file outside the part that a region needs do not affect its
// pixels.
func TestPartOf(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	parts := map[Format]int{}
	for _, s := range samples(t) {
		h, err := ReadHeader(s.data, true)
		if err != nil {
			continue
		}
		d := NewDecoder(Options{})
		for range 8 {
			r := Region{X: rng.IntN(h.Width), Y: rng.IntN(h.Height)}
			r.W, r.H = 1+rng.IntN(h.Width-r.X), 1+rng.IntN(h.Height-r.Y)
			head := s.data[:min(len(s.data), partHead)]
			scale := 1
			if h.Format == Packed && h.original == JPEG {
				scale = 1 << rng.IntN(4)
				r = Region{X: r.X / scale, Y: r.Y / scale, W: max(1, r.W/scale), H: max(1, r.H/scale)}
			}
			from, to, ok := PartOf(head, int64(len(s.data)), r, scale)
			if !ok {
				continue
			}
			parts[h.Format]++
			spoilt := bytes.Clone(s.data)
			raster := 0 // bytes between the headers and the first row do not belong to the part either
			if whole, _, _ := PartOf(head, int64(len(s.data)), Region{W: h.Width, H: h.Height}, 1); whole > 0 {
				raster = int(whole)
			}
			if h.Format == Packed {
				p, _ := readPacked(s.data, true)
				strips, _ := p.strips(p.body)
				raster = packedHead + strips.start
			}
			for i := raster; i < len(spoilt); i++ {
				if int64(i) < from || int64(i) >= to {
					spoilt[i] ^= 0x55
				}
			}
			want, got := make([]byte, r.W*r.H*3), make([]byte, r.W*r.H*3)
			for data, pix := range map[*[]byte][]byte{&s.data: want, &spoilt: got} {
				if err := d.DecodeRegion(Image{Pix: pix, Stride: r.W * 3, Height: r.H, Width: r.W}, *data, h, r, scale); err != nil {
					t.Fatalf("%s: region %+v at 1/%d, bytes %d to %d of %d: %v", s.name, r, scale, from, to, len(s.data), err)
				}
			}
			if !bytes.Equal(got, want) {
				t.Errorf("%s: region %+v needs more than bytes %d to %d of %d", s.name, r, from, to, len(s.data))
			}
			if rows := int64(h.Height); h.Format != Packed && to-from > (int64(len(s.data))-int64(raster))*int64(r.H)/rows+rows {
				t.Errorf("%s: region %+v: bytes %d to %d of %d are more than its rows", s.name, r, from, to, len(s.data))
			}
		}
		d.Close()
	}
	if parts[BMP] < 100 || parts[PNM] < 20 || parts[Packed] < 200 || len(parts) != 3 {
		t.Errorf("parts by format: %v", parts)
	}
}

// TestPartOfNothing: files with invalid headers, or too short for them, are read whole.
func TestPartOfNothing(t *testing.T) {
	good := rawBMP{w: 40, h: 30, bits: 24, pixels: make([]byte, 120*30)}.join()
	all := Region{W: 40, H: 30}
	if _, _, ok := PartOf(good, int64(len(good)), all, 1); !ok {
		t.Error("all of a good file is no part")
	}
	for name, c := range map[string]struct {
		head []byte
		size int64
		r    Region
	}{
		"nothing":    {nil, 0, all},
		"short head": {good[:20], int64(len(good)), all},
		"truncated":  {good, int64(len(good)) - 1, all},
		"outside":    {good, int64(len(good)), Region{Y: 20, W: 40, H: 11}},
		"above":      {good, int64(len(good)), Region{Y: -1, W: 40, H: 3}},
		"no rows":    {good, int64(len(good)), Region{W: 40}},
	} {
		if from, to, ok := PartOf(c.head, c.size, c.r, 1); ok {
			t.Errorf("%s: bytes %d to %d", name, from, to)
		}
	}
}

func FuzzPartOf(f *testing.F) {
	f.Add(rawBMP{w: 4, h: 3, bits: 24, pixels: make([]byte, 36)}.join(), int64(200), 1, 1)
	f.Add([]byte("P6\n4 3\n255\n012345678901234567890123456789012345"), int64(47), 0, 2)
	f.Fuzz(func(t *testing.T, head []byte, size int64, y, rows int) {
		if from, to, ok := PartOf(head, size, Region{Y: y, W: 1, H: rows}, 1); ok && (from < 0 || from > to || to > size) {
			t.Errorf("bytes %d to %d of %d", from, to, size)
		}
	})
}
