//go:build cgo

package decode

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
)

// tiersKernels are the kernels of packed JPEGs that run here.
func tiersKernels() []Kernel { return Kernels()[1:] } // without LibJPEG

// packedBody returns the body of a packed JPEG, nil if it is left to libjpeg-turbo. It must be so if
// and only if libjpeg-turbo decodes it, and all kernels must make the same.
func packedBody(t testing.TB, f oddFile, h Header) (body []byte) {
	t.Helper()
	for i, kernel := range tiersKernels() {
		d := NewDecoder(Options{Kernel: kernel})
		height, width := h.Size(false)
		_ = d.Decode(newCanvas(width, height, 3).Image, f.data, h)
		ours := d.TakeJPEGs().Baseline == 1
		made, err := d.kept.packTiers(f.data, h)
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

func randomRegion(random *rand.Rand, h Header) Region {
	r := Region{W: 1 + random.IntN(h.Width), H: 1 + random.IntN(h.Height)}
	r.X, r.Y = random.IntN(h.Width-r.W+1), random.IntN(h.Height-r.H+1)
	return r
}

// TestTiersPixels: a packed JPEG has the pixels of the JPEG in all kernels, for the whole image and for
// regions, in both colours and all orientations.
func TestTiersPixels(t *testing.T) {
	random, packed := rand.New(rand.NewPCG(1, 2)), 0
	for _, f := range baselineFiles(t) {
		h, err := ReadHeader(f.data, true)
		if err != nil {
			continue
		}
		body := packedBody(t, f, h)
		if body == nil {
			continue
		}
		packed++
		for i := range 12 {
			v := view{Header: h, Region: Region{0, 0, h.Width, h.Height}, Scale: 1, Color: Color(i % 2), Orientation: uint8(1 + random.IntN(8))}
			if i >= 4 {
				v.Region = randomRegion(random, h)
			}
			sameTiers(t, f, body, v)
		}
	}
	if packed < 100 {
		t.Errorf("only %d files were packed", packed)
	}
}

// sameTiers compares a view of a packed JPEG in all kernels with that of the JPEG.
func sameTiers(t *testing.T, f oddFile, body []byte, v view) {
	height, width := v.size()
	d := NewDecoder(Options{Color: v.Color})
	defer d.Close()
	name := fmt.Sprintf("%s %+v in %d channels, turned by %d", f.name, v.Region, v.Color.Channels(), v.Orientation)
	want := newCanvas(width, height, v.Color.Channels())
	if err := d.codecs[JPEG](&d.kept, want.Image, f.data, v); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	for _, kernel := range tiersKernels() {
		d.kept.kernel = kernel
		got := newCanvas(width, height, v.Color.Channels())
		if err := d.kept.unpackTiers(got.Image, body, v); err != nil {
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
		err := d.kept.unpackTiers(c.Image, body, v)
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

// TestTiersDamaged: damage is an error, or other pixels, which are then the same in all kernels. Nothing
// outside the body and the destination is touched, which would crash.
func TestTiersDamaged(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	memory := guardedMemory(t, 1<<20)
	refused := 0
	for _, f := range baselineFiles(t) {
		h, err := ReadHeader(f.data, true)
		if err != nil || h.pixels() > 40000 {
			continue
		}
		body := packedBody(t, f, h)
		if body == nil {
			continue
		}
		whole := view{Header: h, Region: Region{0, 0, h.Width, h.Height}, Scale: 1, Orientation: 1}
		if !damagedTiers(t, f.name, copyTo(memory, body), whole) {
			t.Errorf("%s: refused before it was damaged", f.name)
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
			if !damagedTiers(t, f.name+" damaged", bad, v) {
				refused++
			}
		}
	}
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
	for _, file := range baselineFiles(f) {
		h, err := ReadHeader(file.data, true)
		if err != nil || h.pixels() > 4000 {
			continue
		}
		if body := packedBody(f, file, h); body != nil {
			f.Add(body, uint16(h.Width), uint16(h.Height), uint16(0), uint16(0), uint16(h.Width), uint16(h.Height), false)
		}
	}
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
