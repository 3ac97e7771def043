package decode_test

import (
	"bytes"
	"fmt"
	"slices"
	"testing"

	. "github.com/batchfs/batchfs/decode"
)

// rowsOf makes n rows of bytes bytes, with every filter in turn, starting with filter.
func rowsOf(n, bytes, filter int) (rows []byte) {
	for y := range n {
		rows = append(rows, byte((filter+y)%5))
		for i := range bytes {
			rows = append(rows, busy(i, y+filter))
		}
	}
	return rows
}

// anyPNG has rows from rowsOf, and a palette if it needs one.
func anyPNG(w, h, kind, depth, filter int) pngParts {
	s := rawPNG(w, h, kind, depth, false, rowsOf(h, (w*pngChannels[kind]*depth+7)/8, filter))
	if kind == 3 {
		s.before = chunk("PLTE", bytes.Repeat([]byte{1, 200, 30, 44, 5, 66, 170, 8, 99}, 86)[:3<<depth])
	}
	return s
}

// TestPNGFilters: all kernels make the same pixels, and read the same stored ones, with every
// filter, in the first row and in others, for every kind of pixel, in rows from one pixel to
// several vectors; and refuse the same damage.
func TestPNGFilters(t *testing.T) {
	c := newCoders(t)
	for kind := range pngChannels {
		for _, depth := range []int{1, 2, 4, 8, 16} {
			if depth < 8 && kind != 0 && kind != 3 || depth > 8 && kind == 3 {
				continue
			}
			for w := 1; w <= 70; w++ {
				for filter := range 5 {
					s := anyPNG(w, 6, kind, depth, filter)
					f := file{fmt.Sprintf("colour type %d of %d bits, filters from %d, %d wide", kind, depth, filter, w), s.join()}
					if x, _ := c.everywhere(whole(f), Options{Color: Color(filter & 1)}); x.err != nil {
						t.Errorf("%s: %v", f.name, x.err)
					}
					if w > 40 || filter != w%5 {
						continue
					}
					sameStored(t, c, f)
					rows := rowsOf(6, (w*pngChannels[kind]*depth+7)/8, filter)
					for _, rows := range [][]byte{rows[:len(rows)-1], append(rows, 0)} {
						damaged := s
						damaged.idat = deflated(rows)
						sameStored(t, c, file{f.name + ", damaged", damaged.join()})
					}
					sameStored(t, c, file{f.name + ", cut", f.data[:len(f.data)-20]})
				}
				if t.Failed() {
					return
				}
			}
		}
	}
}

// sameStored packs a PNG for a file, which reads the stored pixels, with all kernels.
func sameStored(t testing.TB, c *coders, f file) {
	t.Helper()
	var first []byte
	var firstErr error
	for i, k := range kernelsOf(PNG) {
		p, err := c.with(Options{Kernel: k}).Pack(f.data, headerOf(f.data), ForFile)
		if i == 0 {
			first, firstErr = p, err
		}
		if k == Pure && (err == nil) != (firstErr == nil) {
			continue // Go accepts other damage
		}
		if !bytes.Equal(p, first) || k != Pure && kindOf(err) != kindOf(firstErr) {
			t.Errorf("%s: %s finds something else stored, or another error: %v, %v", f.name, k, err, firstErr)
		}
	}
}

// TestPNGSplits: an image may be split into any number of IDATs of any size, which must be joined.
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
	c, good := newCoders(t), corpus("rgb-8-33x19.png")
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
		"an empty one behind everything": func(z []byte) [][]byte { return [][]byte{z, nil} },
		"every other one empty": func(z []byte) (parts [][]byte) {
			for part := range slices.Chunk(z, 7) {
				parts = append(parts, nil, part)
			}
			return parts
		},
	} {
		f := file{name, edited(good.data, func(s *pngParts) { s.split = split })}
		if x, _ := c.everywhere(whole(f), Options{}); x.err != nil || !bytes.Equal(x.pix, good.rgb) {
			t.Errorf("%s: %s, or other pixels than were written", name, x)
		}
	}
}

// TestPNGHeld: the fast path, which holds the inflated image, is used for every kind with 8 bits,
// also for headers that do not say what kind of PNG it is. Every test checks that no more memory is
// held than announced.
func TestPNGHeld(t *testing.T) {
	needsC(t)
	const w, h = 600, 20
	for kind, channels := range pngChannels {
		a := whole(file{fmt.Sprintf("colour type %d", kind), anyPNG(w, h, kind, 8, 1).join()})
		for _, head := range []Header{a.head, {Format: PNG, Width: w, Height: h, Orientation: 1}} {
			a.head = head
			d := newCoder(t, Options{})
			if d.pixels(t, a); d.ScratchBytes() < int64(w*h*channels) {
				t.Errorf("%s: %d bytes held: it was not inflated at once", a, d.ScratchBytes())
			}
		}
	}
}

// TestPNGTooLargeToInflateAtOnce: above a certain size libpng decodes the image, and holds only
// a strip of it.
func TestPNGTooLargeToInflateAtOnce(t *testing.T) {
	needsC(t)
	const w, h = 4800, 4800 // 66 MiB
	head := []byte{0, 0, w >> 8, w & 255, 0, 0, h >> 8, h & 255, 8, 2, 0, 0, 0}
	a := whole(file{"large", slices.Concat([]byte(pngSignature), chunk("IHDR", head), chunk("IDAT", deflated(make([]byte, h*(1+3*w)))), chunk("IEND", nil))})
	d := newCoder(t, Options{Color: Gray})
	d.pixels(t, a.from(Region{w - 3, h - 2, 3, 2}))
	if held := d.ScratchBytes(); held > 1<<20 {
		t.Errorf("%d bytes held", held)
	}
}
