package decode_test

import (
	"bytes"
	"errors"
	"fmt"
	"image"
	"image/color"
	"testing"

	. "github.com/batchfs/batchfs/decode"
)

// maskOf encodes a mask of w x h values as PNG.
func maskOf(w, h, colours int, at func(x, y int) uint16) []byte {
	var m image.Image
	switch {
	case colours == 0:
		gray := image.NewGray16(image.Rect(0, 0, w, h))
		m = gray
		for i := range w * h {
			gray.SetGray16(i%w, i/w, color.Gray16{Y: at(i%w, i/w)})
		}
	default: // the encoder uses only as many bits as the colours need
		indexed := image.NewPaletted(image.Rect(0, 0, w, h), nil)
		for i := range colours {
			indexed.Palette = append(indexed.Palette, color.RGBA{R: uint8(255 - i), G: 7, B: uint8(3 * i), A: 255})
		}
		m = indexed
		for i := range w * h {
			indexed.SetColorIndex(i%w, i/w, uint8(at(i%w, i/w)))
		}
	}
	return encodedPNG(m)
}

// TestValues: the values of a mask are the written ones, in every format and depth, whatever the
// palette or the maximum.
func TestValues(t *testing.T) {
	const w, h = 21, 34
	cases := map[string]struct {
		data []byte
		want []byte
	}{}
	values := func(each int, at func(i int) uint16) (out []byte) {
		for i := range w * h {
			if v := at(i); each == 2 {
				out = append(out, byte(v>>8), byte(v))
			} else {
				out = append(out, byte(v))
			}
		}
		return out
	}
	for _, colours := range []int{2, 4, 16, 256} {
		at := func(i int) uint16 { return uint16(i * i % colours) }
		data := maskOf(w, h, colours, func(x, y int) uint16 { return at(y*w + x) })
		cases[fmt.Sprintf("a palette of %d", colours)] = struct{ data, want []byte }{data, values(1, at)}
	}
	wide := func(i int) uint16 { return uint16(i * 257) }
	cases["16 bits"] = struct{ data, want []byte }{maskOf(w, h, 0, func(x, y int) uint16 { return wide(y*w + x) }), values(2, wide)}
	few := func(i int) uint16 { return uint16(i % 20) }
	cases["PGM of 20 values"] = struct{ data, want []byte }{append(fmt.Appendf(nil, "P5 %d %d 19\n", w, h), values(1, few)...), values(1, few)}
	cases["PGM of 16 bits"] = struct{ data, want []byte }{append(fmt.Appendf(nil, "P5 %d %d 999\n", w, h), values(2, wide)...), values(2, wide)}
	for _, bits := range []int{1, 2, 4, 8} {
		at := func(i int) uint16 { return uint16(i * 7 % (1 << bits)) }
		row, all := (w*bits+31)/32*4, []byte(nil)
		for y := range h {
			line := make([]byte, row)
			for x := range w {
				line[x*bits/8] |= byte(at(y*w+x)) << (8 - bits - x*bits%8)
			}
			all = append(all, line...)
		}
		s := rawBMP{w: w, h: -h, bits: bits, palette: bytes.Repeat([]byte{9, 8, 7, 0}, 1<<bits), pixels: all}
		cases[fmt.Sprintf("BMP of %d bits", bits)] = struct{ data, want []byte }{s.join(), values(1, at)}
	}
	for name, c := range cases {
		n, err := ValueBytes(c.data)
		if err != nil || n != len(c.want)/(w*h) {
			t.Errorf("%s: values of %d bytes, %v", name, n, err)
			continue
		}
		for _, k := range kernelsOf(Sniff(c.data)) {
			d := newCoder(t, Options{Kernel: k})
			head := headerOf(c.data)
			checkValues := func(what string, data []byte) {
				room := append(make([]byte, len(c.want)), guard, guard)
				got := room[:len(c.want):len(c.want)]
				if err := d.Values(got, data, headerOf(data)); err != nil || !bytes.Equal(got, c.want) || !bytes.Equal(room[len(got):], []byte{guard, guard}) {
					t.Errorf("%s: %s%s: other values, or more, %v", k, name, what, err)
				}
			}
			checkValues("", c.data)
			if held, needs := d.ScratchBytes(), ValueNeeds(head); held > needs {
				t.Errorf("%s: %s: %d bytes are held, and %d were announced", k, name, held, needs)
			}
			if p, err := d.Pack(c.data, head, ForFile); err == nil && head.Format == PNG {
				if n, err := ValueBytes(p[:100]); err != nil || n != len(c.want)/(w*h) {
					t.Errorf("%s, packed: values of %d bytes, %v", name, n, err)
				}
				checkValues(", packed", p)
			}
		}
	}
}

// TestNoValues: a file that is not a mask, a damaged one, and memory of another size are refused.
func TestNoValues(t *testing.T) {
	d := newCoder(t, Options{})
	for _, s := range samples(t) {
		n, err := ValueBytes(s.data)
		switch s.format {
		case JPEG, WebP:
			if !errors.Is(err, ErrFormat) {
				t.Errorf("%s: a mask of %d bytes, %v", s.name, n, err)
			}
		case PNG:
			if alpha := s.data[25] >= 4; alpha != (err != nil) && s.data[24] == 8 {
				t.Errorf("%s: alpha: %v, %v", s.name, alpha, err)
			}
		}
	}
	data := maskOf(50, 50, 9, func(x, y int) uint16 { return uint16(x * y % 9) })
	h, room := headerOf(data), make([]byte, 2500)
	for n := range data {
		if err := d.Values(room, data[:n], h); err == nil {
			t.Fatalf("the first %d of %d bytes are a mask", n, len(data))
		}
		_, _ = ValueBytes(data[:n])
	}
	if err := d.Values(room[1:], data, h); !errors.Is(err, ErrDestination) {
		t.Error("too little room:", err)
	}
	if err := NewDecoder(Options{MaxPixels: 99}).Values(room, data, h); !errors.Is(err, ErrTooLarge) {
		t.Error("too large:", err)
	}
}
