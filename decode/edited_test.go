package decode

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"slices"
	"strings"
)

// editedSamples are what no encoder at hand writes: good files with some bytes changed, which
// have the same pixels, or others that follow from the change; and BMPs of which every bit
// pattern is a pixel.
func editedSamples(all []sample) (out []sample) {
	byName := map[string]sample{}
	for _, s := range all {
		byName[s.name] = s
	}
	add := func(name, from string, change func(s *sample)) {
		s := byName[from]
		change(&s)
		s.name = name
		s.rateFile()
		out = append(out, s)
	}
	jpeg := func(name, from string, change func(data []byte) []byte) {
		add(name+".jpg", from+".jpg", func(s *sample) { s.data = change(s.data) })
	}
	jpeg("stray-bytes", "baseline", func(b []byte) []byte { return astray(b, "\x00\x01\x02\xff\x00\x03\xff\xff") })
	jpeg("stray-fill-bytes", "baseline", func(b []byte) []byte { return astray(b, "\xff\xff\x00\x03") })
	jpeg("rgb-by-names", "rgb", func(b []byte) []byte { return without(b, markAPP14) })
	jpeg("rgb-by-adobe", "rgb", func(b []byte) []byte { return renamed(b, "\x01\x02\x03") })

	// A palette with fewer entries than indices: those beyond its end are black.
	add("short-palette.png", "palette-8-33x19.png", func(s *sample) {
		const entries = 40
		parts := splitPNG(s.data)
		parts.before = chunk("PLTE", parts.before[8:8+3*entries])
		s.data, s.rgb = parts.join(), bytes.Clone(s.rgb)
		for i := 0; i < len(s.rgb); i += 3 {
			if index := 255 - s.rgb[i+1]; index >= entries { // see make.py
				clear(s.rgb[i : i+3])
			}
		}
	})
	for _, s := range all {
		if s.format != BMP || strings.Contains(s.name, "core") {
			continue
		}
		if !strings.Contains(s.name, "rle") {
			add("from-the-top-"+s.name, s.name, func(s *sample) {
				s.data = bytes.Clone(s.data)
				binary.LittleEndian.PutUint32(s.data[22:], uint32(-int32(s.h)))
				s.rgb, _, _ = turned(s.rgb, s.w, s.h, 3, 4)
			})
		}
		add("gap-"+s.name, s.name, func(s *sample) {
			at := binary.LittleEndian.Uint32(s.data[10:])
			s.data = append(append(bytes.Clone(s.data[:at]), make([]byte, 6)...), s.data[at:]...)
			binary.LittleEndian.PutUint32(s.data[10:], at+6)
		})
	}
	for _, s := range all {
		if s.format == PNM {
			add("comments-"+s.name, s.name, func(s *sample) {
				s.data = append([]byte{'P', s.data[1]}, append([]byte("\n# a comment\n # another\n"), s.data[2:]...)...)
			})
		}
	}
	return append(out, bmpFieldSamples()...)
}

func bmpFieldSamples() (out []sample) {
	for _, size := range [][2]int{{1, 1}, {3, 2}, {31, 17}, {32, 5}} {
		w, h := size[0], size[1]
		for _, c := range []struct {
			name  string
			bits  int
			info  int
			masks []uint32
			kind  uint32
		}{
			{"555", 16, 40, nil, bmpRGB},
			{"565", 16, 40, []uint32{0xf800, 0x07e0, 0x001f}, bmpBitfields},
			{"444-alpha", 16, 40, []uint32{0x0f00, 0x00f0, 0x000f, 0xf000}, bmpAlphaBitfields},
			{"rgbx", 32, 108, []uint32{0xff, 0xff00, 0xff0000, 0xff000000}, bmpBitfields},
			{"10-bits", 32, 40, []uint32{0x3ff00000, 0x000ffc00, 0x000003ff}, bmpBitfields},
			{"one-bit", 32, 52, []uint32{1, 2, 0xfffffffc}, bmpBitfields},
		} {
			masks := c.masks
			if masks == nil {
				masks = []uint32{0x7c00, 0x03e0, 0x001f}
			}
			stride := (w*c.bits/8 + 3) &^ 3
			pixels := make([]byte, stride*h)
			for i := range pixels {
				pixels[i] = byte(uint32(i*40503+i*i*30011) * 2654435761 >> 24)
			}
			rgb := paint(w, h, func(x, y int) (p [3]uint8) {
				at := pixels[(h-1-y)*stride+x*c.bits/8:]
				v := uint32(binary.LittleEndian.Uint16(at))
				if c.bits == 32 {
					v = binary.LittleEndian.Uint32(at)
				}
				for i, m := range masks[:3] {
					low := uint64(m & -m)
					most := uint64(m) / low
					p[i] = uint8((uint64(v&m)/low*510 + most) / (2 * most))
				}
				return p
			})
			data := rawBMP{w: w, h: h, bits: c.bits, info: c.info, compression: c.kind, masks: c.masks, pixels: pixels}.join()
			out = append(out, sample{name: fmt.Sprintf("fields-%s-%dx%d.bmp", c.name, w, h), data: data, format: BMP, orientation: 1, w: w, h: h, rgb: rgb})
		}
	}
	return append(out, bmpPaletteSamples()...)
}

// bmpPaletteSamples are what only Windows CE wrote, two bits a pixel, and a palette that is too
// short.
func bmpPaletteSamples() (out []sample) {
	colours := []byte{9, 8, 7, 0, 60, 50, 40, 0, 130, 120, 110, 0, 255, 254, 253, 0}
	for _, size := range [][2]int{{1, 1}, {3, 2}, {31, 17}, {32, 5}} {
		w, h := size[0], size[1]
		stride := (w*2 + 31) / 32 * 4
		pixels := make([]byte, stride*h)
		for i := range pixels {
			pixels[i] = byte(uint32(i+1) * 2654435761 >> 24)
		}
		rgb := paint(w, h, func(x, y int) [3]uint8 {
			i := 4 * (pixels[(h-1-y)*stride+x/4] >> (6 - 2*(x%4)) & 3)
			return [3]uint8{colours[i+2], colours[i+1], colours[i]}
		})
		core := slices.Concat(colours[:3], colours[4:7], colours[8:11], colours[12:15])
		for name, two := range map[string]rawBMP{
			"2":      {w: w, h: h, bits: 2, palette: colours, pixels: pixels},
			"2-core": {w: w, h: h, bits: 2, info: bmpCore, palette: core, pixels: pixels},
		} {
			out = append(out, sample{name: fmt.Sprintf("%s-%dx%d.bmp", name, w, h), data: two.join(), format: BMP, orientation: 1, w: w, h: h, rgb: rgb})
		}
	}
	// Indices beyond the palette's end are black.
	short := rawBMP{w: 4, h: 1, bits: 8, colors: 3, palette: colours[:12], pixels: []byte{2, 0, 3, 255}}
	rgb := []uint8{110, 120, 130, 7, 8, 9, 0, 0, 0, 0, 0, 0}
	return append(out, sample{name: "short-palette.bmp", data: short.join(), format: BMP, orientation: 1, w: 4, h: 1, rgb: rgb})
}
