//go:build cgo

package decode

import (
	"bytes"
	"math/rand/v2"
	"os"
	"slices"
	"testing"
	"unsafe"
)

// TestBaselinePacked: what is packed stays within its announced size, whatever the file; and what
// our own decoder decodes, unless it is progressive, can be packed.
func TestBaselinePacked(t *testing.T) {
	r, packed := rand.New(rand.NewPCG(2, 2)), 0
	d := NewDecoder(Options{Kernel: Portable})
	defer d.Close()
	for _, f := range baselineFiles(t) {
		for i := range 8 {
			damaged := oddFile{f.name, slices.Clone(f.data)}
			if n := len(f.data); i > 0 && n > 0 {
				damaged.data[r.IntN(n)] ^= 1 << r.IntN(8)
				damaged.data = damaged.data[:max(n-r.IntN(2)*r.IntN(n), 1)]
			}
			if packs(t, r, d, damaged) {
				packed++
			}
		}
	}
	if packed < 200 {
		t.Errorf("only %d files could be packed", packed)
	}
}

func packs(t *testing.T, r *rand.Rand, d *Decoder, f oddFile) bool {
	t.Helper()
	h, err := ReadHeader(f.data, true)
	if err != nil || h.Format != JPEG {
		return false
	}
	region := Region{W: 1 + r.IntN(h.Width), H: 1 + r.IntN(h.Height)}
	region.X, region.Y = r.IntN(h.Width-region.W+1), r.IntN(h.Height-region.H+1)
	p, ok := d.options.Pack(f.data, h, region, []int{32, 333, 2048}[r.IntN(3)])
	height, width := (&view{Region: region, Orientation: h.Orientation}).size()
	d.TakeJPEGs()
	_ = d.DecodeRegion(Image{Pix: make([]byte, height*width*3), Stride: width * 3, Height: height, Width: width}, f.data, h, region, 1)
	ours := d.TakeJPEGs().Baseline == 1 && h.scan == 0
	if !ok {
		if ours {
			t.Errorf("%s: it is decoded, but cannot be packed", f.name)
		}
		return false
	}
	const guard = 64
	memory := unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(make([]uint64, (p.Bytes+2*guard)/8)))), p.Bytes+2*guard)
	for i := range memory {
		memory[i] = 0x77
	}
	put := p.Put(memory[guard:][:p.Bytes:p.Bytes], f.data)
	if ours && !put {
		t.Errorf("%s: it is decoded, but not packed", f.name)
	}
	touched := func(b byte) bool { return b != 0x77 }
	if slices.ContainsFunc(memory[:guard], touched) || slices.ContainsFunc(memory[guard+p.Bytes:], touched) {
		t.Errorf("%s: %d bytes were announced, and others written", f.name, p.Bytes)
	}
	return put
}

// TestPackedChanged: of a file that has changed since it was planned, nothing is packed that takes
// more memory than was announced.
func TestPackedChanged(t *testing.T) {
	data, err := os.ReadFile("testdata/regions/2x2.jpg")
	if err != nil {
		t.Fatal(err)
	}
	h, err := ReadHeader(data, true)
	if err != nil {
		t.Fatal(err)
	}
	p, ok := Options{}.Pack(data, h, Region{W: h.Width, H: h.Height}, 2048)
	to := make([]byte, p.Bytes)
	if !ok || !p.Put(to, data) {
		t.Fatal("it cannot be packed")
	}
	frame := bytes.Index(data, []byte{0xff, markSOF0})
	data[frame+11] = 0x11 // the factors of luma: chroma now has as many samples
	if p.Put(to, data) {
		t.Error("more was packed than there is memory for")
	}
}

// TestSteps: the way through a region that was decoded as stored is the inverse of how it is placed
// upright.
func TestSteps(t *testing.T) {
	const w, h, c, stride = 5, 3, 3, 40
	for orientation := range uint8(9) {
		head, r := Header{Width: w, Height: h, Orientation: orientation}, Region{W: w, H: h}
		tall, wide := head.Size(false)
		p := place(Options{}.orientation(head), w, h, c, wide*c)
		first, dx, dy := Options{}.Steps(head, r, c, stride)
		for y := range h {
			for x := range w {
				upright := (p.base + x*p.dx + y*p.dy) / c
				if at := first + upright%wide*dx + upright/wide*dy; at != y*stride+x*c || upright >= tall*wide {
					t.Fatalf("orientation %d: (%d, %d) is at %d", orientation, x, y, at)
				}
			}
		}
	}
}
