package decode

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"image"
	"image/jpeg"
	"image/png"
	"math/rand/v2"
	"runtime"
	"testing"
)

// noisySamples are files with random bytes as pixels, the most that there can be to pack, among
// them kinds that are rare. They have no reference.
func noisySamples(t testing.TB) []sample {
	random := rand.New(rand.NewPCG(1, 2))
	noise := func(to []byte) []byte {
		for i := range to {
			to[i] = uint8(random.Uint32())
		}
		return to
	}
	var out []sample
	add := func(name string, data []byte) {
		out = append(out, sample{name: name, data: data, format: Sniff(data)})
	}
	r := image.Rect(0, 0, 67, 35)
	wide := image.NewGray16(image.Rect(0, 0, 256, 256))
	for i := range 1 << 16 {
		binary.BigEndian.PutUint16(wide.Pix[2*i:], uint16(i))
	}
	gray, rgb, rgba, deep := image.NewGray(r), image.NewRGBA(r), image.NewNRGBA(r), image.NewNRGBA64(r)
	for _, pix := range [][]byte{gray.Pix, rgb.Pix, rgba.Pix, deep.Pix} {
		noise(pix)
	}
	for i := 3; i < len(rgb.Pix); i += 4 {
		rgb.Pix[i] = 255
	}
	for name, m := range map[string]image.Image{"all of 16 bits": wide, "gray": gray, "rgb": rgb, "rgba": rgba, "rgba of 16 bits": deep} {
		var to bytes.Buffer
		if err := png.Encode(&to, m); err != nil {
			t.Fatal(err)
		}
		add(name+".png", to.Bytes())
	}
	for _, m := range []image.Image{gray, rgb} {
		var to bytes.Buffer
		if err := jpeg.Encode(&to, m, &jpeg.Options{Quality: 100}); err != nil {
			t.Fatal(err)
		}
		add(fmt.Sprintf("%T.jpg", m), to.Bytes())
	}
	for _, maximum := range []int{1, 2, 15, 100, 254, 255, 256, 1000, 4095, 32767, 40000, 65534, 65535} {
		for kind, channels := range map[byte]int{'5': 1, '6': 3} {
			to := fmt.Appendf(nil, "P%c 67 35 %d\n", kind, maximum)
			for range 67 * 35 * channels {
				if v := random.IntN(maximum + 1); maximum > 255 {
					to = binary.BigEndian.AppendUint16(to, uint16(v))
				} else {
					to = append(to, uint8(v))
				}
			}
			add(fmt.Sprintf("%d channels to %d.pnm", channels, maximum), to)
		}
	}
	return append(out, noisyBMPs(noise)...)
}

// noisyBMPs have noise in all bits that they have, so also in those that mean nothing.
func noisyBMPs(noise func([]byte) []byte) (out []sample) {
	le := binary.LittleEndian
	for _, c := range []struct {
		bits  int
		masks []uint32
	}{
		{1, nil}, {2, nil}, {4, nil}, {8, nil}, {16, nil}, {24, nil}, {32, nil},
		{16, []uint32{0xf800, 0x7e0, 0x1f}}, {32, []uint32{0x3ff, 0xffc00, 0x3ff00000}}, {32, []uint32{0xff, 0xff00, 0xff0000}},
		{32, []uint32{1, 0xfffffff0, 0x70000}},
	} {
		const width, height = 67, 35
		data := append([]byte("BM"), make([]byte, bmpFileHeader+bmpInfo-2)...)
		info := data[bmpFileHeader:]
		le.PutUint32(info, bmpInfo)
		le.PutUint32(info[4:], width)
		le.PutUint32(info[8:], height)
		le.PutUint16(info[12:], 1)
		le.PutUint16(info[14:], uint16(c.bits))
		if c.masks != nil {
			le.PutUint32(info[16:], bmpBitfields)
		}
		for _, m := range c.masks {
			data = le.AppendUint32(data, m)
		}
		if c.bits <= 8 {
			data = append(data, noise(make([]byte, 4<<c.bits))...)
		}
		le.PutUint32(data[10:], uint32(len(data)))
		data = append(data, noise(make([]byte, (width*c.bits+31)/32*4*height))...)
		out = append(out, sample{name: fmt.Sprintf("%d bits, %x.bmp", c.bits, c.masks), data: data, format: BMP})
	}
	return out
}

// TestPackedPixels: a packed image has the pixels of the original in both builds, with all kernels,
// in both colours, and in regions.
func TestPackedPixels(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	for _, s := range append(noisySamples(t), samples(t)...) {
		if s.format == Packed || s.format == JPEG && s.rgb != nil || s.w*s.h > 1<<16 {
			continue // JPEGs have tests of their own, as have samples of other formats that are in them packed
		}
		for _, keep := range []Remainder{ForMemory, ForFile} {
			var first []byte
			for _, kernel := range Kernels() {
				d := NewDecoder(Options{Kernel: kernel})
				p, err := d.Pack(s.data, headerOf(s.data), keep)
				d.Close()
				if err != nil {
					if !errors.Is(err, ErrNoPackedForm) {
						t.Errorf("%s: %v", s.name, err)
					}
					break
				}
				if first == nil {
					first = p
				}
				if !bytes.Equal(p, first) {
					t.Errorf("%s: %v packs it in another way", s.name, kernel)
				}
				for _, set := range codecSets() {
					if set.has(Packed) && !(set.goes && s.format == JPEG) {
						samePacked(t, random, set, kernel, &s, p)
					}
				}
			}
			if keep == ForFile && first != nil && s.format != PNG {
				if got, err := Unpack(first); err != nil || !bytes.Equal(got, s.data) {
					t.Errorf("%s: unpacked to another file, %v", s.name, err)
				}
			}
		}
	}
}

// samePacked compares a region of a packed image with that of the original.
func samePacked(t *testing.T, random *rand.Rand, set codecSet, kernel Kernel, s *sample, p []byte) {
	t.Helper()
	h := headerOf(s.data)
	o := Options{Color: Color(random.IntN(2)), Kernel: kernel}
	r := Region{W: 1 + random.IntN(h.Width), H: 1 + random.IntN(h.Height)}
	r.X, r.Y = random.IntN(h.Width-r.W+1), random.IntN(h.Height-r.H+1)
	height, width := (&view{Region: r, Orientation: h.Orientation}).size()
	var pixels [2][]byte
	for i, data := range [][]byte{s.data, p} {
		d := NewDecoder(o)
		if i == 1 {
			d = set.make(o)
		}
		c := newCanvas(width, height, o.Color.Channels())
		if err := d.DecodeRegion(c.Image, data, headerOf(data), r, 1); err != nil {
			t.Errorf("%s: %s: %v", set.name, s.name, err)
		}
		d.Close()
		pixels[i] = c.pixels(t, s.name)
	}
	if !bytes.Equal(pixels[0], pixels[1]) {
		t.Errorf("%s: %s: other pixels in %+v", set.name, s.name, r)
	}
}

// TestPackTo: packing takes no more memory than is announced, whatever was in it, and refuses less.
func TestPackTo(t *testing.T) {
	memory := guardedMemory(t, 1<<24)
	d := NewDecoder(Options{})
	defer d.Close()
	for _, s := range append(noisySamples(t), allSamples()...) {
		for _, keep := range []Remainder{ForMemory, ForFile} {
			h := headerOf(s.data)
			want, err := d.Pack(s.data, h, keep)
			if err != nil {
				continue
			}
			n := PackedBound(h, int64(len(s.data)), keep)
			to := atEnd(memory, int(n))
			for i := range to {
				to[i] = 0xa5
			}
			got, err := d.PackTo(to, s.data, h, keep)
			if err != nil || !bytes.Equal(to[:got], want) {
				t.Errorf("%s: packed in another way, %v", s.name, err)
			}
			if _, err := d.PackTo(to[1:], s.data, h, keep); !errors.Is(err, ErrDestination) {
				t.Errorf("%s: packed into too little memory: %v", s.name, err)
			}
			h = Header{Format: h.Format, Width: h.Width, Height: h.Height, Orientation: h.Orientation}
			if PackedBound(h, int64(len(s.data)), keep) < n {
				t.Errorf("%s: a lower bound for a header from an index", s.name)
			}
		}
	}
}

// TestPackNeeds: packing allocates no more on the Go heap than was announced.
func TestPackNeeds(t *testing.T) {
	for _, s := range append(noisySamples(t), allSamples()...) {
		h := headerOf(s.data)
		for _, keep := range []Remainder{ForMemory, ForFile} {
			d := NewDecoder(Options{})
			to := make([]byte, PackedBound(h, int64(len(s.data)), keep))
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			_, err := d.PackTo(to, s.data, h, keep)
			runtime.ReadMemStats(&after)
			d.Close()
			if errors.Is(err, ErrNoPackedForm) {
				continue
			}
			allocated := int64(after.TotalAlloc - before.TotalAlloc)
			if most := d.options.PackNeeds(h, int64(len(s.data)), keep); allocated > most {
				t.Errorf("%s: %d bytes were allocated, and %d announced (%v)", s.name, allocated, most, keep)
			}
		}
	}
}

// TestPackedIndices: an image of few colours is packed as indices, also for memory.
func TestPackedIndices(t *testing.T) {
	d := NewDecoder(Options{})
	defer d.Close()
	for _, s := range samples(t) {
		if s.format != PNG || pngPixels(s.data).pixels != pixelsIndex {
			continue
		}
		p, err := d.Pack(s.data, headerOf(s.data), ForMemory)
		if err != nil || p[packedHead] != pixelsIndex {
			t.Errorf("%s: not packed as indices, %v", s.name, err)
		}
	}
}

// TestStoredPNG: all decoders find the same stored in a PNG.
func TestStoredPNG(t *testing.T) {
	for _, s := range append(noisySamples(t), samples(t)...) {
		if s.format != PNG {
			continue
		}
		h, l := headerOf(s.data), pngPixels(s.data)
		want := make([]byte, h.Width*h.Height*l.planes())
		if err := goStoredPNG(want, s.data, l.planes()); err != nil {
			t.Errorf("%s: %v", s.name, err)
			continue
		}
		for _, set := range codecSets() {
			if set.goes || !set.has(PNG) {
				continue
			}
			d, got := set.decoder(t, Options{}), make([]byte, len(want))
			if err := storedPNG(&d.kept, got, s.data, h, l.planes()); err != nil || !bytes.Equal(got, want) {
				t.Errorf("%s: %s: other pixels, %v", set.name, s.name, err)
			}
		}
	}
}
