//go:build cgo

package decode

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"slices"
	"testing"
)

// pngChannels are the channels of each colour type.
var pngChannels = map[int]int{0: 1, 2: 3, 3: 1, 4: 2, 6: 4}

// On all paths of decoding a PNG, the pixels or the kind of error must be the same. libpng is
// the reference here; the suite for all codecs compares it with the oracle.

// pngPaths returns what is kept for each path.
func pngPaths(t testing.TB) map[pngPath]*kept {
	paths := map[pngPath]*kept{}
	for _, how := range []pngPath{pngLibrary, pngFast, pngPortable} {
		k := &kept{how: how}
		t.Cleanup(k.free)
		paths[how] = k
	}
	return paths
}

// kindOf returns the sentinel that an error wraps.
func kindOf(err error) error {
	i := slices.IndexFunc(sentinels, func(kind error) bool { return errors.Is(err, kind) })
	if i < 0 {
		return err
	}
	return sentinels[i]
}

// samePaths decodes a view on every path, and returns how many of the others agreed with libpng
// without falling back on it.
func samePaths(t testing.TB, name string, paths map[pngPath]*kept, data []byte, v view) (fast int) {
	t.Helper()
	decode := func(how pngPath) ([]byte, error) {
		height, width := v.size()
		c := newCanvas(width, height, v.Color.Channels())
		err := paths[how].png(c.Image, data, v)
		return c.pixels(t, name), err
	}
	want, wantErr := decode(pngLibrary)
	for _, how := range []pngPath{pngFast, pngPortable} {
		before := paths[how].fast()
		got, err := decode(how)
		fast += paths[how].fast() - before
		switch {
		case kindOf(err) != kindOf(wantErr):
			t.Errorf("%s, path %d: %v, from libpng %v", name, how, err, wantErr)
		case err == nil && !bytes.Equal(got, want):
			t.Errorf("%s, path %d: other pixels than libpng's", name, how)
		}
	}
	return fast
}

// allOf returns a view of a whole image as stored.
func allOf(h Header, c Color) view {
	return view{Header: h, Region: Region{0, 0, h.Width, h.Height}, Scale: 1, Color: c, Orientation: 1}
}

// TestPNGFilters tests every filter, in the first row and in others, in every kind of pixel, in
// rows from one pixel to several vectors.
func TestPNGFilters(t *testing.T) {
	palette := bytes.Repeat([]byte{1, 200, 30, 44, 5, 66, 170, 8, 99}, 70)
	paths := pngPaths(t)
	for kind := range pngChannels {
		for w := 1; w <= 70; w++ {
			for first := range 5 {
				var rows []byte
				for y := range 6 {
					rows = append(rows, byte((first+y)%5))
					for i := range w * pngChannels[kind] {
						rows = append(rows, busy(i, y+first))
					}
				}
				s := rawPNG(w, 6, kind, 8, false, rows)
				if kind == 3 {
					s.before = chunk("PLTE", palette[:3*200])
				}
				data := s.join()
				name := fmt.Sprintf("colour type %d, filters from %d, %d wide", kind, first, w)
				if n := samePaths(t, name, paths, data, allOf(headerOf(data), Color(first&1))); n != 2 {
					t.Errorf("%s: %d of 2 took the fast path", name, n)
				}
				if t.Failed() {
					return
				}
			}
		}
	}
}

// busy is noise.
func busy(x, y int) byte { return byte(x*89 + y*57 + x*y*31) }

// TestPNGFastKinds tests which images take the fast path, in all orientations and regions, and
// which do not.
func TestPNGFastKinds(t *testing.T) {
	paths := pngPaths(t)
	all := samples(t)
	taken := 0
	for i := range all {
		s := &all[i]
		if s.format != PNG {
			continue
		}
		h := headerOf(s.data)
		fast := s.data[24] == 8 && s.data[28] == 0 // depth and interlacing
		for o := uint8(1); o <= 8; o++ {
			for _, r := range []Region{{0, 0, s.w, s.h}, {s.w / 2, s.h / 3, s.w - s.w/2, s.h - s.h/3}, {s.w / 3, 0, 1, (s.h + 1) / 2}} {
				v := view{Header: h, Region: r, Scale: 1, Color: Color(o & 1), Orientation: o}
				name := fmt.Sprintf("%s, %+v turned by %d", s.name, r, o)
				if n := samePaths(t, name, paths, s.data, v); (n == 2) != fast || n == 1 {
					t.Fatalf("%s: %d of 2 took the fast path", name, n)
				}
				taken++
			}
		}
	}
	if taken == 0 {
		t.Error("no samples")
	}
}

// TestPNGSplits: an image may be split into any number of IDATs of any size, which have to be
// joined.
func TestPNGSplits(t *testing.T) {
	cut := func(at ...int) func([]byte) [][]byte {
		return func(z []byte) (parts [][]byte) {
			from := 0
			for _, to := range append(at, len(z)) {
				if to < 0 {
					to += len(z)
				}
				parts = append(parts, z[from:to])
				from = to
			}
			return parts
		}
	}
	paths, whole := pngPaths(t), corpus("rgb-8-33x19.png")
	for name, split := range map[string]func([]byte) [][]byte{
		"in one":                         cut(),
		"an empty one first":             cut(0),
		"many empty ones first":          cut(0, 0, 0),
		"empty ones between":             cut(40, 40, 40, 90, 90),
		"empty ones around":              cut(0, 0, -1, -1),
		"in the zlib header":             cut(1),
		"behind the zlib header":         cut(2),
		"in the checksum":                cut(-2),
		"at every byte":                  func(z []byte) [][]byte { return slices.Collect(slices.Chunk(z, 1)) },
		"every other one empty":          func(z []byte) (p [][]byte) { return alternate(slices.Collect(slices.Chunk(z, 7))) },
		"an empty one behind everything": func(z []byte) [][]byte { return [][]byte{z, nil} },
	} {
		data := edited(whole.data, func(s *pngParts) { s.split = split })
		if n := samePaths(t, name, paths, data, allOf(headerOf(data), RGB)); n != 2 {
			t.Errorf("%s: %d of 2 took the fast path", name, n)
		}
		d := NewDecoder(Options{})
		if pix, err := decodeTo(t, d, name, data, headerOf(data)); err != nil || !bytes.Equal(pix, whole.rgb) {
			t.Errorf("%s: %v, or other pixels than were written", name, err)
		}
		d.Close()
	}
}

func alternate(parts [][]byte) (out [][]byte) {
	for _, p := range parts {
		out = append(out, nil, p)
	}
	return out
}

// TestPNGTooLargeToInflateAtOnce: above a certain size libpng decodes the image, and holds only
// a strip of it.
func TestPNGTooLargeToInflateAtOnce(t *testing.T) {
	const w, h = 4800, 4800 // 66 MiB
	z := zerosStored(h * (1 + 3*w))
	head := []byte{0, 0, w >> 8, w & 255, 0, 0, h >> 8, h & 255, 8, 2, 0, 0, 0}
	data := append([]byte(pngSignature), chunk("IHDR", head)...)
	data = append(append(data, chunk("IDAT", z)...), chunk("IEND", nil)...)
	d := NewDecoder(Options{Color: Gray})
	defer d.Close()
	header := headerOf(data)
	r := Region{w - 3, h - 2, 3, 2}
	if err := d.DecodeRegion(Image{make([]byte, 6), 3, 2, 3}, data, header, r, 1); err != nil {
		t.Fatal(err)
	}
	if held, said := d.ScratchBytes(), scratch(header, d.options.Color, d.options.orientation(header)); held > said || said > 1<<20 || d.kept.fast() != 0 {
		t.Errorf("%d bytes held, %d announced, fast path taken %d times", held, said, d.kept.fast())
	}
}

// zerosStored is an uncompressed stream of n zeros, which is fast to make.
func zerosStored(n int) []byte {
	const block = 0xffff
	z := append(make([]byte, 0, n+n/block*5+100), 0x78, 0x01)
	for left := n; left > 0; left -= block {
		k := min(left, block)
		last := byte(0)
		if k == left {
			last = 1
		}
		z = append(z, last, byte(k), byte(k>>8), ^byte(k), ^byte(k>>8))
		z = z[:len(z)+k]
	}
	return binary.BigEndian.AppendUint32(z, uint32(n%65521)<<16|1)
}

// TestPNGHeld: what the fast path holds stays within the announced amount, including for images
// in one IDAT and in many, and for headers that do not say what kind of PNG it is.
func TestPNGHeld(t *testing.T) {
	const rows = 20
	for kind := range pngChannels {
		for _, w := range []int{1, 30, 600} {
			pixels := make([]byte, rows*(1+w*pngChannels[kind]))
			for i := range pixels {
				if pixels[i] = busy(i*i, i>>8); i%(1+w*pngChannels[kind]) == 0 {
					pixels[i] = 1 // the filter
				}
			}
			s := rawPNG(w, rows, kind, 8, false, pixels)
			if kind == 3 {
				s.before = chunk("PLTE", make([]byte, 768))
			}
			data := s.join()
			h := headerOf(data)
			for _, header := range []Header{h, {Format: h.Format, Width: h.Width, Height: h.Height, Orientation: 1}} {
				d := NewDecoder(Options{})
				needs := d.Needs(header)
				if _, err := decodeTo(t, d, "held", data, header); err != nil {
					t.Fatal(err)
				}
				held := d.ScratchBytes()
				if said := scratch(header, d.options.Color, d.options.orientation(header)); held > said || held < int64(w*rows*pngChannels[kind]) || needs != header.Scratch+said {
					t.Errorf("colour type %d, %d wide: %d bytes held, %d announced, %d needed", kind, w, held, said, needs)
				}
				if n := d.Needs(header); n != header.Scratch+scratch(header, d.options.Color, d.options.orientation(header))-held {
					t.Errorf("colour type %d, %d wide: %d bytes needed again", kind, w, n)
				}
				d.Close()
			}
		}
	}
}

// TestPNGDamage: both paths treat damaged files the same, whole and in parts. (damagedFiles has
// the expected results.)
func TestPNGDamage(t *testing.T) {
	indexed, plte := corpus("palette-8-33x19.png").data, chunk("PLTE", make([]byte, 768))
	with := func(name string, before, after []byte) damagedFile {
		return damagedFile{name: name, data: edited(indexed, func(s *pngParts) { s.before, s.after = before, after })}
	}
	text := chunk("tEXt", make([]byte, 9<<20)) // more than libpng accepts by default
	files := append(slices.Clone(damagedFiles()), with("two palettes, one behind the pixels", plte, plte),
		with("an unknown critical chunk behind the pixels", plte, chunk("ABCD", nil)), with("very much text", slices.Concat(plte, text), nil))
	paths := pngPaths(t)
	for _, f := range files {
		if h := headerOf(f.data); h.Format == PNG {
			for _, r := range []Region{{0, 0, h.Width, h.Height}, {1, 0, 3, 2}, {0, h.Height - 1, 2, 1}} {
				v := allOf(h, RGB)
				v.Region = r
				samePaths(t, fmt.Sprintf("%s, %+v", f.name, r), paths, f.data, v)
			}
		}
	}
}

// FuzzPNGPaths: whatever the bytes, every path gives the same pixels or the same kind of error.
// Chunk checksums are corrected if the input says so, since otherwise they catch most damage.
func FuzzPNGPaths(f *testing.F) {
	for _, s := range allSamples() {
		if s.format == PNG && len(s.data) < 2000 {
			f.Add(s.data, uint8(1))
		}
	}
	for i, d := range damagedFiles() {
		if Sniff(d.data) == PNG && len(d.data) < 10000 {
			f.Add(d.data, uint8(i))
		}
	}
	f.Fuzz(func(t *testing.T, data []byte, how uint8) {
		if how&1 != 0 {
			data = withChecksums(data)
		}
		h, err := ReadHeader(data, true)
		if err != nil || h.Format != PNG || h.pixels() > 1<<14 {
			return
		}
		v := allOf(h, Color(how>>1&1))
		v.Orientation = 1 + how>>2&7
		if how>>5 != 0 {
			v.Region.X, v.Region.Y = h.Width*int(how>>5&3)/4, h.Height*int(how>>6)/4
			v.Region.W, v.Region.H = (h.Width-v.Region.X+1)/2, (h.Height-v.Region.Y+1)/2
		}
		paths := pngPaths(t)
		samePaths(t, "fuzzed", paths, data, v)
		sameStored(t, paths, data, h)
	})
}

// sameStored is samePaths of what is stored. Nothing is written behind it.
func sameStored(t *testing.T, paths map[pngPath]*kept, data []byte, h Header) {
	t.Helper()
	l, guard := pngPixels(data), bytes.Repeat([]byte{0xa5}, 64)
	n := l.planes()
	stored := func(how pngPath) ([]byte, error) {
		size := h.Width * h.Height * n
		to := append(make([]byte, size, size+len(guard)), guard...)
		err := storedPNG(paths[how], to[:size:size], data, h, n)
		if !bytes.Equal(to[size:], guard) {
			t.Errorf("path %d writes behind the values", how)
		}
		return to, err
	}
	want, wantErr := stored(pngLibrary)
	for _, how := range []pngPath{pngFast, pngPortable} {
		if got, err := stored(how); kindOf(err) != kindOf(wantErr) || err == nil && !bytes.Equal(got, want) {
			t.Errorf("path %d: other values than libpng's, or another error: %v, %v", how, err, wantErr)
		}
	}
}

// withChecksums returns a PNG's bytes with the right checksum for every chunk.
func withChecksums(data []byte) []byte {
	data = bytes.Clone(data)
	for p := int64(len(pngSignature)); p < int64(len(data)); {
		n, _, ok := pngHead(data, int(p))
		end := p + pngOverhead + n
		if !ok || end > int64(len(data)) {
			break
		}
		binary.BigEndian.PutUint32(data[end-4:], crc32.ChecksumIEEE(data[p+4:end-4]))
		p = end
	}
	return data
}

// BenchmarkPNGPaths compares the paths on BenchmarkDecode's image.
func BenchmarkPNGPaths(b *testing.B) {
	data := benchFiles()["png"]
	h := headerOf(data)
	dst := Image{make([]byte, 3*h.Width*h.Height), 3 * h.Width, h.Height, h.Width}
	for how, c := range pngPaths(b) {
		b.Run([]string{pngFast: "fast", pngPortable: "portable", pngLibrary: "libpng"}[how], func(b *testing.B) {
			b.SetBytes(int64(len(dst.Pix)))
			for b.Loop() {
				if err := c.png(dst, data, allOf(h, RGB)); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// TestStoredPaths: all paths find the same stored in images of every depth, with every filter, in
// rows of all lengths, and refuse the same damage.
func TestStoredPaths(t *testing.T) {
	paths := pngPaths(t)
	for _, kind := range []int{0, 2, 3, 4, 6} {
		for _, depth := range []int{1, 2, 4, 8, 16} {
			bits := pngPixelBits(byte(kind), byte(depth))
			for w := 1; w <= 40 && bits > 0; w++ {
				var rows []byte
				for y := range 7 {
					rows = append(rows, byte((w+y)%5))
					for i := range (w*bits + 7) / 8 {
						rows = append(rows, busy(i, y+w))
					}
				}
				s := rawPNG(w, 7, kind, depth, false, rows)
				if kind == 3 {
					s.before = chunk("PLTE", make([]byte, 3<<depth))
				}
				data := s.join()
				h, n := headerOf(data), (bits+7)/8
				before := paths[pngFast].fast()
				for _, rows := range [][]byte{rows, rows[:len(rows)-1], append(rows, 0)} {
					damaged := s
					damaged.idat = deflated(rows)
					sameStored(t, paths, damaged.join(), h)
				}
				sameStored(t, paths, data[:len(data)-20], h)
				if fast := paths[pngFast].fast() > before; fast != (n <= 4) || t.Failed() {
					t.Fatalf("colour type %d, %d bits, %d wide: on the fast path: %v", kind, depth, w, fast)
				}
			}
		}
	}
}
