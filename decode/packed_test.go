package decode

import (
	"bytes"
	"errors"
	"fmt"
	"image"
	"image/color"
	"image/png"
	"math/rand/v2"
	"strings"
	"testing"
)

// packedSamples are the packed forms of all samples that have one.
func packedSamples(all []sample) (out []sample) {
	d := NewDecoder(Options{})
	defer d.Close()
	for _, s := range all {
		if s.format == Packed {
			continue
		}
		for keep, name := range [...]string{ForMemory: "memory", ForFile: "file"} {
			data, err := d.Pack(s.data, headerOf(s.data), Remainder(keep))
			if (keep == int(ForFile) || s.format == JPEG) && errors.Is(err, ErrNoPackedForm) {
				continue
			}
			if err != nil {
				panic(fmt.Sprintf("%s: %v", s.name, err))
			}
			p := s
			p.name, p.data, p.format, p.loose = s.name+" packed for "+name, data, Packed, 0
			p.goRefuses = p.goRefuses || s.format == JPEG && keep == int(ForMemory)
			out = append(out, p)
		}
	}
	return out
}

// sealed computes the checksums anew, of an image that still has a body.
func sealed(data []byte) []byte {
	if p, err := readPacked(data, true); err == nil && p.body != nil {
		p.sum(data, p.body)
	}
	return data
}

// neverPacked reports whether a file of a lossless format is of a kind that is not packed for
// files.
func neverPacked(s sample) bool {
	switch s.format {
	case BMP:
		l, _ := readBMPLayout(s.data, true)
		return l.compressed()
	case PNM:
		return s.data[1] < '5'
	}
	return s.format == WebP
}

// TestUnpackPacked: what was packed for a file is unpacked to it.
func TestUnpackPacked(t *testing.T) {
	d := NewDecoder(Options{})
	defer d.Close()
	for _, s := range samples(t) {
		h := headerOf(s.data)
		data, err := d.Pack(s.data, h, ForFile)
		if s.format == Packed || s.format == JPEG && errors.Is(err, ErrNoPackedForm) {
			continue
		}
		if never := neverPacked(s); never != errors.Is(err, ErrNoPackedForm) || err != nil && !never {
			t.Errorf("%s: %v", s.name, err)
		}
		if err != nil {
			continue
		}
		got, err := Unpack(data)
		if err != nil {
			t.Errorf("%s: %v", s.name, err)
			continue
		}
		if h.Format != PNG {
			if !bytes.Equal(got, s.data) {
				t.Errorf("%s: another file", s.name)
			}
			continue
		}
		samePNG(t, s.name, got, s.data)
	}
}

// samePNG compares stored pixels, and all chunks that are not pixels.
func samePNG(t *testing.T, name string, got, want []byte) {
	t.Helper()
	var stored [2]image.Image
	var chunks [2][]byte
	for i, data := range [][]byte{got, want} {
		m, err := png.Decode(bytes.NewReader(data))
		if err != nil { // Go is stricter about ancillary chunks
			critical, _ := pngCritical(data)
			if m, err = png.Decode(critical); err != nil {
				t.Errorf("%s: %v", name, err)
				return
			}
		}
		stored[i] = m
		for chunk := range pngChunks(data, len(pngSignature)) {
			if kind := string(chunk[4:8]); kind != "IDAT" && kind != "IHDR" {
				chunks[i] = append(chunks[i], chunk...)
			}
		}
	}
	if !bytes.Equal(chunks[0], chunks[1]) {
		t.Errorf("%s: other chunks", name)
	}
	b := stored[1].Bounds()
	if fmt.Sprintf("%T", stored[0]) != fmt.Sprintf("%T", stored[1]) || stored[0].Bounds() != b {
		t.Errorf("%s: %T of %v, want %T of %v", name, stored[0], stored[0].Bounds(), stored[1], b)
		return
	}
	for y := range b.Dy() {
		for x := range b.Dx() {
			if stored[0].At(x, y) != stored[1].At(x, y) {
				t.Errorf("%s: another pixel at %d, %d", name, x, y)
				return
			}
		}
	}
}

// TestPackedFlipped: a bit that flips in a packed image is found, and harmless where the checksum
// is right or not looked at.
func TestPackedFlipped(t *testing.T) {
	input, most := guardedMemory(t, 1<<16), 1500
	for i, s := range packedSamples(allSamples()) {
		if len(s.data) > most || i%17 != 0 {
			continue
		}
		h := headerOf(s.data)
		for _, set := range codecSets() {
			if !set.has(Packed) {
				continue
			}
			d := set.decoder(t, Options{})
			height, width := h.Size(false)
			for at := range s.data {
				data := atEnd(input, len(s.data))
				copy(data, s.data)
				data[at] ^= 1 << (at % 8)
				name := fmt.Sprintf("%s: %s with another byte %d", set.name, s.name, at)
				if _, err := decodeTo(t, d, name, data, h); err == nil {
					t.Errorf("%s: no error", name)
				} else {
					explained(t, name, err)
				}
				c := newCanvas(width, height, 3)
				err := d.DecodeTask(Task{To: c.Image, Data: data, Header: h, Region: Region{W: h.Width, H: h.Height}, Scale: 1, Verified: true})
				if err != nil {
					explained(t, name, err)
				}
				c.pixels(t, name)
				if _, err := Unpack(sealed(data)); err != nil && !errors.Is(err, ErrNoPackedForm) {
					explained(t, name, err)
				}
			}
		}
	}
}

func TestPackedHeader(t *testing.T) {
	good := packedSamples([]sample{corpus("plain-20x10.png")})[0].data
	for name, c := range map[string]struct {
		at    int
		to    byte
		kind  error
		words string
	}{
		"another version":     {4, 1, ErrFormat, "version 1"},
		"another kind":        {5, kindCoefficients, ErrCorrupt, "kind 2 for png"},
		"no kind":             {5, 0, ErrFormat, "kind 0"},
		"a kind of tomorrow":  {5, 9, ErrFormat, "kind 9"},
		"no orientation":      {6, 0, ErrCorrupt, "orientation"},
		"an unknown original": {7, 99, ErrCorrupt, "unknown format"},
		"no width":            {8, 0, ErrCorrupt, "size"},
		"an endless body":     {23, 1, ErrCorrupt, "body"},
		"reserved bytes":      {40, 1, ErrCorrupt, "reserved"},
		"pixels from nowhere": {10, 1, ErrCorrupt, "65556x10 pixels need a body of"},
		"a longer body":       {17, 9, ErrCorrupt, "bytes at the least"},
	} {
		data := bytes.Clone(good)
		data[c.at] = c.to
		if _, err := ReadHeader(sealed(data), true); !errors.Is(err, c.kind) || !strings.Contains(fmt.Sprint(err), c.words) {
			t.Errorf("%s: %v, want it to speak of %q", name, err, c.words)
		}
	}
	if _, err := Unpack(good); !errors.Is(err, ErrNoPackedForm) {
		t.Errorf("unpacking what was packed for memory: %v", err)
	}
	if _, err := Unpack([]byte("what is this")); !errors.Is(err, ErrFormat) {
		t.Errorf("unpacking something else: %v", err)
	}
}

// TestRowPackers: all packers make the same bytes.
func TestRowPackers(t *testing.T) {
	random := rand.New(rand.NewPCG(5, 6))
	for _, planes := range []int{1, 2, 3, 4} {
		for _, width := range []int{1, 2, 15, 16, 31, 32, 33, 63, 64, 100, 500} {
			pure := newGoRowPacker(width, planes)
			packers := map[Kernel]interface{ append(to, pix []byte) []byte }{}
			for _, k := range Kernels() {
				packers[k] = newRowPacker(width, planes, k)
			}
			for noise := range 9 {
				pix := make([]byte, width*planes)
				for i := range pix {
					pix[i] = uint8(i/planes + random.IntN(1<<noise))
				}
				want := pure.append(nil, pix)
				for k, p := range packers {
					if got := p.append(nil, pix); !bytes.Equal(got, want) {
						t.Fatalf("%s, %d planes of %d, noise of %d bits: %x, not %x", k, planes, width, noise, got, want)
					}
				}
			}
		}
	}
}

func FuzzPacked(f *testing.F) { fuzzFormat(f, Packed, true) }

// FuzzUnpack: whatever is packed, unpacking it is an error or leads to a file.
func FuzzUnpack(f *testing.F) {
	for _, s := range packedSamples(allSamples()) {
		if len(s.data) < 2000 {
			f.Add(s.data)
		}
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		if len(data) < packedHead {
			return
		}
		if _, err := Unpack(sealed(bytes.Clone(data))); err != nil && !errors.Is(err, ErrNoPackedForm) {
			explained(t, "fuzzed", err)
		}
	})
}

// FuzzPackUnpack: whatever can be packed has the same pixels, and what can be unpacked, too.
func FuzzPackUnpack(f *testing.F) {
	for _, s := range allSamples() {
		if len(s.data) < 3000 {
			f.Add(s.data)
		}
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		h, err := ReadHeader(data, true)
		if err != nil || h.pixels() > 1<<14 {
			return
		}
		d := NewDecoder(Options{})
		defer d.Close()
		want, wantErr := decodeTo(t, d, "original", data, h)
		for _, keep := range []Remainder{ForMemory, ForFile} {
			p, err := d.Pack(data, h, keep)
			if err != nil {
				if wantErr == nil && !errors.Is(err, ErrNoPackedForm) {
					t.Fatal(err)
				}
				continue
			}
			got, err := decodeTo(t, d, "packed", p, headerOf(p))
			if err != nil || wantErr != nil || !bytes.Equal(got, want) {
				t.Fatalf("%v, %v, or other pixels", err, wantErr)
			}
			if keep == ForMemory {
				continue
			}
			file, err := Unpack(p)
			if err != nil {
				t.Fatal(err)
			}
			if got, err = decodeTo(t, d, "unpacked", file, headerOf(file)); err != nil || !bytes.Equal(got, want) {
				t.Fatalf("unpacked: %v, or other pixels", err)
			}
		}
	})
}

// benchPictures are the pictures of training data that lossless files are measured with, as PNG.
func benchPictures(b *testing.B) map[string][]byte {
	street := image.NewNRGBA(image.Rect(0, 0, 2048, 1024))
	random := rand.New(rand.NewPCG(7, 8))
	for i := 0; i < len(street.Pix); i += 4 {
		x, y := i/4%2048, i/4/2048
		v := x/16 + y/9 + 40*(x/200%2) + 60*(y/300) + random.IntN(6)
		street.Pix[i], street.Pix[i+1], street.Pix[i+2], street.Pix[i+3] = uint8(v), uint8(v+20), uint8(v/2+random.IntN(4)), 255
	}
	var colours color.Palette
	for i := range 34 {
		colours = append(colours, color.RGBA{uint8(7 * i), uint8(31 * i), uint8(13 * i), 255})
	}
	classes := image.NewPaletted(street.Rect, colours)
	for i := range classes.Pix {
		x, y := i%2048, i/2048
		classes.Pix[i] = uint8((x/97 + y/61 + x*y/200000) % len(colours))
	}
	out := map[string][]byte{}
	for name, m := range map[string]image.Image{"noisy-500x375": photo(), "street-2048x1024": street, "classes-2048x1024": classes} {
		var to bytes.Buffer
		if err := png.Encode(&to, m); err != nil {
			b.Fatal(err)
		}
		out[name] = to.Bytes()
	}
	return out
}

// BenchmarkPacked compares a PNG with its packed form: size, decoding, and packing, which includes
// decoding the PNG.
func BenchmarkPacked(b *testing.B) {
	for name, data := range benchPictures(b) {
		h := headerOf(data)
		d := NewDecoder(Options{})
		defer d.Close()
		p, err := d.Pack(data, h, ForMemory)
		if err != nil {
			b.Fatal(err)
		}
		pix := make([]byte, h.Width*h.Height*3)
		dst := Image{pix, 3 * h.Width, h.Height, h.Width}
		decode := func(data []byte, verified bool) func(b *testing.B) {
			h := headerOf(data)
			return func(b *testing.B) {
				b.SetBytes(int64(len(pix)))
				all := Region{W: h.Width, H: h.Height}
				for b.Loop() {
					if err := d.DecodeTask(Task{To: dst, Data: data, Header: h, Region: all, Scale: 1, Verified: verified}); err != nil {
						b.Fatal(err)
					}
				}
				b.ReportMetric(float64(len(data))/float64(len(pix)), "of-raw")
			}
		}
		b.Run(name+"/png", decode(data, false))
		b.Run(name+"/packed", decode(p, false))
		b.Run(name+"/packed-verified", decode(p, true))
		b.Run(name+"/png-and-packing", func(b *testing.B) {
			p := Packing{To: make([]byte, PackedBound(h, int64(len(data)), ForMemory))}
			b.SetBytes(int64(len(pix)))
			for b.Loop() {
				t := Task{To: dst, Data: data, Header: h, Region: Region{W: h.Width, H: h.Height}, Scale: 1, Pack: &p}
				if err := errors.Join(d.DecodeTask(t), p.Err); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run(name+"/pack-alone", func(b *testing.B) {
			l := lossless{pixels: pixelsRGB, width: h.Width, height: h.Height}
			room := make([]byte, PackedBound(h, int64(len(data)), ForMemory))
			b.SetBytes(int64(len(pix)))
			for b.Loop() {
				if _, err := d.packRows(room, l, pix, 3*h.Width, 3); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
