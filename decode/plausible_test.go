package decode_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/batchfs/batchfs/internal/fault"

	. "github.com/batchfs/batchfs/decode"
)

// TestDensestPNG: rows of zeros are as dense as deflate can be, except for the tables of its
// blocks.
func TestDensestPNG(t *testing.T) {
	for _, c := range []struct {
		w, h, kind, depth int
		interlaced        bool
	}{{2063, 1291, 0, 1, false}, {2063, 1291, 0, 8, false}, {2063, 1291, 2, 8, false}, {1031, 775, 6, 16, false}, {1031, 775, 3, 8, false},
		{2063, 1291, 0, 1, true}, {1031, 775, 2, 8, true}, {3, 70001, 0, 2, true}} {
		bits := pngChannels[c.kind] * c.depth
		rows := c.h * (1 + (c.w*bits+7)/8)
		if c.interlaced {
			rows = 0
			for _, p := range [7][4]int{{0, 0, 8, 8}, {4, 0, 8, 8}, {0, 4, 4, 8}, {2, 0, 4, 4}, {0, 2, 2, 4}, {1, 0, 2, 2}, {0, 1, 1, 2}} {
				if across := (c.w - p[0] + p[2] - 1) / p[2]; across > 0 {
					rows += (c.h - p[1] + p[3] - 1) / p[3] * (1 + (across*bits+7)/8)
				}
			}
		}
		s := rawPNG(c.w, c.h, c.kind, c.depth, c.interlaced, nil)
		s.idat, s.split = deflated(make([]byte, rows)), func(z []byte) [][]byte { return [][]byte{z} }
		if c.kind == 3 {
			s.before = chunk("PLTE", []byte{9, 9, 9})
		}
		data := s.join()
		name := fmt.Sprintf("%dx%d of kind %d with %d bits", c.w, c.h, c.kind, c.depth)
		isTight(t, name, data, 150)
		newCoder(t, Options{}).pixels(t, whole(file{name, data}))
	}
}

// isTight checks that the file is plausible, also from its first bytes alone, and would not be if
// it were a few bytes smaller with the same header.
func isTight(t *testing.T, name string, data []byte, slack int) Header {
	t.Helper()
	h, err := ReadHeader(data, true)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	size := int64(len(data))
	if err := h.Plausible(size); err != nil {
		t.Errorf("%s: %v", name, err)
	}
	if err := h.Plausible(size - int64(slack)); !errors.Is(err, ErrCorrupt) || fault.Of(err) != fault.File {
		t.Errorf("%s: with %d bytes fewer: %v", name, slack, err)
	}
	cut := data[:len(data)-slack]
	if _, err := ReadHeader(cut, true); !errors.Is(err, ErrCorrupt) {
		t.Errorf("%s: the header of %d bytes fewer: %v", name, slack, err)
	}
	a := whole(file{name, data})
	a.data = cut
	if err := newCoder(t, Options{}).decode(t, a).err; !errors.Is(err, ErrCorrupt) {
		t.Errorf("%s: %d bytes fewer decoded: %v", name, slack, err)
	}
	return h
}

// densestJPEG has one-bit codes for the only symbols it needs: its entropy-coded data is all
// zeros.
func densestJPEG(w, h int, factor byte, comps, scanned int, progressive bool, restart int) []byte {
	data := bareJPEG(w, h, factor, comps, progressive, restart)
	last := byte(63)
	if progressive {
		last = 0
	}
	data = append(data, 0xff, 0xda, 0, byte(6+2*scanned), byte(scanned))
	for i := range scanned {
		data = append(data, byte(i+1), 0)
	}
	data = append(data, 0, last, 0)
	each, across, size := 2, 8, int(factor)
	blocks := 1
	if progressive {
		each = 1
	}
	if scanned > 1 { // whole MCUs
		across, blocks = 8*size, size*size+scanned-1
	}
	blocks *= (w + across - 1) / across * ((h + across - 1) / across)
	if restart == 0 {
		return append(append(data, make([]byte, (blocks*each+7)/8)...), 0xff, 0xd9)
	}
	for at, n := 0, 0; at < blocks; at, n = at+restart, n+1 {
		if at > 0 {
			data = append(data, 0xff, byte(0xd0+(n-1)%8))
		}
		data = append(data, make([]byte, (min(restart, blocks-at)*each+7)/8)...)
	}
	return append(data, 0xff, 0xd9)
}

func TestDensestJPEG(t *testing.T) {
	for _, c := range []struct {
		name             string
		factor           byte
		comps, scanned   int
		progressive      bool
		restart, allowed int
	}{
		{"gray", 1, 1, 1, false, 0, 1}, {"gray, progressive", 1, 1, 1, true, 0, 1}, {"4:4:4", 1, 3, 3, false, 0, 1},
		{"4:2:0", 2, 3, 3, false, 0, 1}, {"4:2:0, progressive", 2, 3, 3, true, 0, 1}, {"luma first", 2, 3, 1, false, 0, 1},
		{"two components first", 2, 3, 2, false, 0, 1}, {"with restarts", 1, 1, 1, false, 64, 1000},
	} {
		for _, size := range [][2]int{{1, 1}, {9, 17}, {1000, 700}} {
			name := fmt.Sprintf("%s, %dx%d", c.name, size[0], size[1])
			data := densestJPEG(size[0], size[1], c.factor, c.comps, c.scanned, c.progressive, c.restart)
			if size[0] > 9 {
				isTight(t, name, data, c.allowed+1)
			}
			for _, k := range kernelsOf(JPEG) {
				if k != Pure || c.scanned == c.comps { // Go's decoder requires all components
					newCoder(t, Options{Kernel: k}).pixels(t, whole(file{name, data}))
				}
			}
		}
	}
}

// TestPlausible: no sound file is refused, and where the size of the pixels is known, no shorter
// file is accepted.
func TestPlausible(t *testing.T) {
	for _, s := range samples(t) {
		if err := headerOf(s.data).Plausible(int64(len(s.data))); err != nil {
			t.Errorf("%s: %v", s.name, err)
		}
	}
	isTight(t, "raw", corpus("p6-255-7x5.pnm").data, 1)
	isTight(t, "plain", []byte("P2 3 2 9 1 2 3 4 5 6"), 1)
	isTight(t, "24 bits", rawBMP{w: 5, h: 4, bits: 24, pixels: make([]byte, 64)}.join(), 1)
	// The smallest lossy file that libwebp's encoder makes of a flat image.
	flat := testFile("flat.webp")
	if h := isTight(t, "lossy", flat, len(flat)-1900); h.Width != 2000 {
		t.Errorf("%+v", h)
	}
	if err := (Header{Width: 16000, Height: 16000}).Plausible(1); err != nil {
		t.Errorf("a header from an index: %v", err)
	}
}
