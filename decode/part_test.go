package decode_test

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"
	"math/rand/v2"
	"testing"

	. "github.com/batchfs/batchfs/decode"
)

// TestPartOf: the contents of a file outside the part that a region needs do not affect its
// pixels.
func TestPartOf(t *testing.T) {
	random, parts, d := rand.New(rand.NewPCG(3, 4)), map[Format]int{}, newCoder(t, Options{IgnoreOrientation: true})
	for _, s := range samples(t) {
		size, front := int64(len(s.data)), int64(0)
		if s.format == Packed {
			front = frontOf(s.data)
		}
		for range 8 {
			a := whole(s.file)
			if s.format != JPEG {
				a = a.any(random)
			}
			head := s.data[:min(size, 4096)]
			from, to, ok := PartOf(head, size, a.region, a.scale)
			if !ok {
				continue
			}
			parts[s.format]++
			// Bytes between the headers and the first row do not belong to the part either.
			raster := front
			if s.format != Packed {
				raster, _, _ = PartOf(head, size, Region{W: s.w, H: s.h}, 1)
			}
			spoilt := a
			spoilt.data = bytes.Clone(s.data)
			for i := raster; i < size; i++ {
				if i < from || i >= to {
					spoilt.data[i] ^= 0x55
				}
			}
			if !bytes.Equal(d.pixels(t, spoilt), d.pixels(t, a)) {
				t.Errorf("%s needs more than bytes %d to %d of %d", a, from, to, size)
			}
			if rows := int64(s.h); s.format != Packed && to-from > (size-raster)*int64(a.region.H)/rows+rows {
				t.Errorf("%s: bytes %d to %d of %d are more than its rows", a, from, to, size)
			}
			if s.format == Packed && raster > PackedFront(s.h, s.w) {
				t.Errorf("%s: %d bytes precede its strips", a, raster)
			}
		}
	}
	if parts[BMP] < 100 || parts[PNM] < 20 || parts[Packed] < 200 && native || len(parts) != 3 {
		t.Errorf("parts by format: %v", parts)
	}
}

// frontOf is how many bytes precede the strips of a packed image.
func frontOf(data []byte) int64 {
	data = bytes.Clone(data)
	want := binary.LittleEndian.Uint32(data[32:])
	clear(data[32:36])
	n, table := packedHead, crc32.MakeTable(crc32.Castagnoli)
	for sum := castagnoli(data[:n]); sum != want; n++ {
		sum = crc32.Update(sum, table, data[n:n+1])
	}
	return int64(n)
}

// TestPartOfNothing: files with invalid headers, or too short for them, are read whole.
func TestPartOfNothing(t *testing.T) {
	good := rawBMP{w: 40, h: 30, bits: 24, pixels: make([]byte, 120*30)}.join()
	size, all := int64(len(good)), Region{W: 40, H: 30}
	if _, _, ok := PartOf(good, size, all, 1); !ok {
		t.Error("all of a good file is no part")
	}
	for name, c := range map[string]struct {
		head []byte
		size int64
		r    Region
	}{
		"nothing":    {nil, 0, all},
		"short head": {good[:20], size, all},
		"truncated":  {good, size - 1, all},
		"outside":    {good, size, Region{Y: 20, W: 40, H: 11}},
		"above":      {good, size, Region{Y: -1, W: 40, H: 3}},
		"no rows":    {good, size, Region{W: 40}},
	} {
		if from, to, ok := PartOf(c.head, c.size, c.r, 1); ok {
			t.Errorf("%s: bytes %d to %d", name, from, to)
		}
	}
}
