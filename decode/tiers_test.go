//go:build cgo

package decode

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
)

// tiersKernels are the kernels of packed JPEGs that run here.
func tiersKernels() []Kernel { return Kernels()[1:] } // without LibJPEG

// packedBody returns the body of a packed JPEG, nil if it is left to libjpeg-turbo. It must be so
// if and only if libjpeg-turbo decodes it, and all kernels must make the same.
func packedBody(t testing.TB, f oddFile, h Header) (body []byte) {
	t.Helper()
	for i, kernel := range tiersKernels() {
		d := NewDecoder(Options{Kernel: kernel})
		height, width := h.Size(false)
		_ = d.Decode(newCanvas(width, height, 3).Image, f.data, h)
		ours := d.TakeJPEGs().Baseline == 1
		made, err := packedBodyOf(d, f.data, h)
		d.Close()
		switch {
		case ours != (err == nil):
			t.Fatalf("%s: %v: decoded by our own decoder: %v, but packed: %v", f.name, kernel, ours, err)
		case i == 0:
			body = made
		case !bytes.Equal(made, body):
			t.Fatalf("%s: %v packs it in another way", f.name, kernel)
		}
	}
	return body
}

// packedBodyOf packs a JPEG into as much memory as is needed.
func packedBodyOf(d *Decoder, data []byte, h Header) ([]byte, error) {
	to := make([]byte, tiersMost(h.Width, h.Height, int64(len(data)))+packedSlack)
	n, err := d.kept.packTiers(to, data, h)
	if err != nil {
		return nil, err
	}
	return to[:n], nil
}

// remainderOf returns what else a JPEG takes to be restored.
func remainderOf(data, body []byte, h Header) ([]byte, error) {
	parts, err := jpegRemainder(data, body, h.Width, h.Height)
	return bytes.Join(parts, nil), err
}

func randomRegion(random *rand.Rand, h Header) Region {
	r := Region{W: 1 + random.IntN(h.Width), H: 1 + random.IntN(h.Height)}
	r.X, r.Y = random.IntN(h.Width-r.W+1), random.IntN(h.Height-r.H+1)
	return r
}

// TestTiersPixels: a packed JPEG has the pixels of the JPEG in all kernels, for the whole image and
// for regions, in both colours and all orientations, at every scale.
func TestTiersPixels(t *testing.T) {
	random, packed := rand.New(rand.NewPCG(1, 2)), 0
	eachPacked(t, func(name string, data, body []byte, h Header) {
		packed++
		for i := range 20 {
			v := view{Header: h, Scale: 1 << (i % 4), Color: Color(i / 4 % 2)}
			v.Orientation = uint8(1 + random.IntN(8))
			v.Region.W, v.Region.H = h.At(v.Scale)
			if i >= 8 {
				v.Region = randomRegion(random, Header{Width: v.Region.W, Height: v.Region.H})
			}
			sameTiers(t, oddFile{name, data}, body, v)
		}
	})
	if packed < 100 {
		t.Errorf("only %d files were packed", packed)
	}
}

// sameTiers compares a view of a packed JPEG in all kernels with that of the JPEG.
func sameTiers(t *testing.T, f oddFile, body []byte, v view) {
	height, width := v.size()
	d := NewDecoder(Options{Color: v.Color})
	defer d.Close()
	name := fmt.Sprintf("%s %+v at 1/%d in colour %d, turned by %d", f.name, v.Region, v.Scale, v.Color, v.Orientation)
	want := newCanvas(width, height, v.Color.Channels())
	if err := d.codecs[JPEG](&d.kept, want.Image, f.data, v); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	for _, kernel := range tiersKernels() {
		d.kept.kernel = kernel
		got := newCanvas(width, height, v.Color.Channels())
		if err := d.kept.coefficients(got.Image, packed{body: body}, v); err != nil {
			t.Errorf("%s: %v: %v", name, kernel, err)
		} else if !bytes.Equal(got.pixels(t, name), want.pixels(t, name)) {
			t.Errorf("%s: %v: other pixels", name, kernel)
		}
	}
}

// damagedTiers decodes bytes that need not be a packed JPEG, at the end of memory: all kernels must
// come to the same end.
func damagedTiers(t *testing.T, name string, body []byte, v view) (accepted bool) {
	height, width := v.size()
	var first []byte
	for i, kernel := range tiersKernels() {
		d := NewDecoder(Options{Kernel: kernel, Color: v.Color})
		c := newCanvas(width, height, v.Color.Channels())
		err := d.kept.coefficients(c.Image, packed{body: body}, v)
		d.Close()
		pix := c.pixels(t, name)
		if err != nil {
			if !errors.Is(err, ErrCorrupt) {
				t.Errorf("%s: %v: %v", name, kernel, err)
			}
			pix = nil
		}
		if i > 0 && !bytes.Equal(pix, first) {
			t.Errorf("%s: %v comes to another end: %v", name, kernel, err)
		}
		first = pix
	}
	return first != nil
}

// TestTiersDamaged: damage is an error, or other pixels, which are then the same in all kernels.
// Nothing outside the body and the destination is touched, which would crash.
func TestTiersDamaged(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	memory := guardedMemory(t, 1<<20)
	refused := 0
	eachPacked(t, func(name string, _, body []byte, h Header) {
		if h.pixels() > 40000 {
			return
		}
		whole := view{Header: h, Region: Region{0, 0, h.Width, h.Height}, Scale: 1, Orientation: 1}
		if !damagedTiers(t, name, copyTo(memory, body), whole) {
			t.Errorf("%s: refused before it was damaged", name)
		}
		for i := range 60 {
			bad := copyTo(memory, body[:len(body)-i%3*random.IntN(len(body))/2])
			for range 1 + random.IntN(4) {
				at := random.IntN(min(len(bad), 1<<(4+random.IntN(16)))) // the header and the table more often
				bad[at] = [3]byte{bad[at] ^ 1<<random.IntN(8), 0xff, byte(random.Uint32())}[random.IntN(3)]
			}
			v := whole
			v.Color = Color(i % 2)
			if i%3 > 0 {
				v.Region = randomRegion(random, h)
			}
			if !damagedTiers(t, name+" damaged", bad, v) {
				refused++
			}
		}
	})
	if refused < 1000 {
		t.Errorf("only %d were refused", refused)
	}
}

func copyTo(memory, data []byte) []byte {
	to := atEnd(memory, len(data))
	copy(to, data)
	return to
}

func FuzzTiers(f *testing.F) {
	eachPacked(f, func(_ string, _, body []byte, h Header) {
		if w, hh := uint16(h.Width), uint16(h.Height); h.pixels() < 4000 {
			f.Add(body, w, hh, uint16(0), uint16(0), w, hh, false)
		}
	})
	f.Fuzz(func(t *testing.T, body []byte, width, height, x, y, w, h uint16, gray bool) {
		v := view{Header: Header{Width: int(width), Height: int(height)}, Scale: 1, Orientation: 1}
		v.Region = Region{int(x), int(y), int(w), int(h)}
		if gray {
			v.Color = Gray
		}
		if v.Region.in(int(width), int(height)) && v.Header.pixels() < 1<<18 {
			damagedTiers(t, "fuzzed", body, v)
		}
	})
}

// eachPacked calls f with every file that can be packed.
func eachPacked(t testing.TB, f func(name string, data, body []byte, h Header)) {
	for _, file := range baselineFiles(t) {
		h, err := ReadHeader(file.data, true)
		if err != nil {
			continue
		}
		if body := packedBody(t, file, h); body != nil {
			f(file.name, file.data, body, h)
		}
	}
}

// TestJPEGRestored: a JPEG is restored from its body and remainder byte for byte, whatever follows
// its end.
func TestJPEGRestored(t *testing.T) {
	eachPacked(t, func(name string, data, body []byte, h Header) {
		data = append(bytes.Clone(data), "more \xff\xda\x00\x00"...)
		rest, err := remainderOf(data, body, h)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			return
		}
		if got, err := restoreJPEG(body, rest, h.Width, h.Height); err != nil || !bytes.Equal(got, data) {
			t.Errorf("%s: restored as another file, %v", name, err)
		}
		if len(rest) > len(data)-len(body)/4 && len(data) > 4000 {
			t.Errorf("%s: %d of %d bytes are in the remainder", name, len(rest), len(data))
		}
	})
}

// TestNotRestored: a JPEG whose incomplete bytes are not all filled up alike cannot be restored,
// and that is said.
func TestNotRestored(t *testing.T) {
	s := corpus("restarts.jpg")
	data, h := bytes.Clone(s.data), headerOf(s.data)
	filled := 0
	for at := bytes.Index(data, []byte{0xff, markSOS}); at < len(data)-1; at++ {
		if data[at+1] == 0xff && data[at+2]&^7 == markRST0 && data[at]&1 == 1 && filled == 0 {
			data[at] &^= 1
			filled++
		}
	}
	body := packedBody(t, oddFile{s.name, data}, h)
	if filled == 0 || body == nil {
		t.Fatal("there is no such marker, or it is not packed")
	}
	if !bytes.Equal(body, packedBody(t, oddFile{s.name, s.data}, h)) {
		t.Skip("the bit was not one that fills up")
	}
	if _, err := jpegRemainder(data, body, h.Width, h.Height); !errors.Is(err, ErrNoPackedForm) {
		t.Errorf("restored as if all were filled up alike: %v", err)
	}
}

// TestRestoringDamaged: damage of a body or a remainder is an error, or another file.
func TestRestoringDamaged(t *testing.T) {
	random, refused := rand.New(rand.NewPCG(5, 6)), 0
	eachPacked(t, func(name string, data, body []byte, h Header) {
		if h.pixels() > 20000 {
			return
		}
		rest, err := remainderOf(data, body, h)
		if err != nil {
			t.Fatal(err)
		}
		for i := range 40 {
			parts := [2][]byte{bytes.Clone(body), bytes.Clone(rest)}
			bad := &parts[i%2]
			*bad = (*bad)[:len(*bad)-i%3*random.IntN(len(*bad))/2]
			for range 1 + random.IntN(3) {
				(*bad)[random.IntN(len(*bad))] ^= 1 << random.IntN(8)
			}
			if _, err := restoreJPEG(parts[0], parts[1], h.Width, h.Height); err != nil {
				explained(t, name, err)
				refused++
			}
		}
	})
	if refused < 1000 {
		t.Errorf("only %d were refused", refused)
	}
}

// BenchmarkTiers compares photos as JPEGs, single and in pairs, with the same ones packed: in full,
// and in crops for training.
func BenchmarkTiers(b *testing.B) {
	data := benchFiles()["jpeg"]
	h := headerOf(data)
	whole := view{Header: h, Region: Region{0, 0, h.Width, h.Height}, Scale: 1, Orientation: 1}
	var crops []view
	for random := rand.New(rand.NewPCG(7, 8)); len(crops) < 64; {
		area := float64(h.pixels()) * (0.08 + 0.92*random.Float64())
		ratio := math.Exp((2*random.Float64() - 1) * math.Log(4.0/3))
		r := Region{W: int(math.Sqrt(area * ratio)), H: int(math.Sqrt(area / ratio))}
		if r.W <= h.Width && r.H <= h.Height {
			r.X, r.Y = random.IntN(h.Width-r.W+1), random.IntN(h.Height-r.H+1)
			v := whole
			v.Region = r
			crops = append(crops, v)
		}
	}
	for _, kernel := range Kernels() {
		d, other := NewDecoder(Options{Kernel: kernel}), NewDecoder(Options{Kernel: kernel})
		defer d.Close()
		defer other.Close()
		image := func(v view) Image {
			return Image{make([]byte, 3*v.Region.W*v.Region.H), 3 * v.Region.W, v.Region.H, v.Region.W}
		}
		body, err := packedBodyOf(d, data, h)
		if err != nil {
			b.Fatal(err)
		}
		packing := Packing{To: make([]byte, PackedBound(h, int64(len(data)), ForMemory))}
		for name, decode := range map[string]func(to Image, v view) error{
			"jpeg": func(to Image, v view) error { return d.codecs[JPEG](&d.kept, to, data, v) },
			"jpeg-and-packing": func(to Image, v view) error {
				t := Task{To: to, Data: data, Header: h, Region: v.Region, Scale: 1, Pack: &packing}
				return errors.Join(d.DecodeTask(t), packing.Err)
			},
			"packed": func(to Image, v view) error { return d.kept.coefficients(to, packed{body: body}, v) },
		} {
			for size, views := range map[string][]view{"whole": {whole}, "crops": crops} {
				b.Run(fmt.Sprintf("%v/%s/%s", kernel, size, name), func(b *testing.B) {
					for i := range b.N {
						v := views[i%len(views)]
						if err := decode(image(v), v); err != nil {
							b.Fatal(err)
						}
					}
				})
			}
		}
		pairs := func(by [2]Packing) func(b *testing.B) {
			return func(b *testing.B) {
				for range (b.N + 1) / 2 {
					var tasks [2]Task
					for i := range tasks {
						tasks[i] = Task{To: image(whole), Data: data, Header: h, Region: whole.Region, Scale: 1}
						if by[i].To != nil {
							tasks[i].Pack = &by[i]
						}
					}
					if errs := DecodePair(&[2]*Decoder{d, other}, &tasks); errs != [2]error{} {
						b.Fatal(errs)
					}
				}
			}
		}
		b.Run(fmt.Sprintf("%v/whole/pairs", kernel), pairs([2]Packing{}))
		second := make([]byte, len(packing.To))
		b.Run(fmt.Sprintf("%v/whole/pairs-and-packing", kernel), pairs([2]Packing{packing, {To: second}}))
		b.Run(fmt.Sprintf("%v/whole/packing", kernel), func(b *testing.B) {
			for range b.N {
				if _, err := d.kept.packTiers(packing.To, data, h); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func FuzzRestoreJPEG(f *testing.F) {
	eachPacked(f, func(name string, data, body []byte, h Header) {
		if h.pixels() < 4000 {
			if rest, err := remainderOf(data, body, h); err == nil {
				f.Add(body, rest, uint16(h.Width), uint16(h.Height))
			}
		}
	})
	f.Fuzz(func(t *testing.T, body, rest []byte, width, height uint16) {
		if _, err := restoreJPEG(body, rest, int(width), int(height)); err != nil {
			explained(t, "fuzzed", err)
		}
	})
}
