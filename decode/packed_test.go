package decode_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"image"
	"image/jpeg"
	"image/png"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	. "github.com/batchfs/batchfs/decode"
	"github.com/batchfs/batchfs/internal/testkit"
)

// Bytes of a packed image, see packed.go.
const (
	packedHead  = 64
	pixelsIndex = 5
)

// neverPacked reports whether a file of a lossless format belongs to a kind that cannot be packed
// for files.
func neverPacked(s *sample) bool {
	switch s.format {
	case BMP:
		return s.data[14] >= bmpInfo && (s.data[30] == bmpRLE8 || s.data[30] == bmpRLE8+1)
	case PNM:
		return s.data[1] < '5'
	}
	return s.format == WebP
}

// TestPacked: every kernel packs an image identically, in the announced memory, whatever that
// contained. A packed image has the original's pixels, in both colours, in regions and at every
// scale; one that was packed for a file unpacks to the original. A JPEG can be packed if and only
// if our own decoder decodes it.
func TestPacked(t *testing.T) {
	memory := testkit.Fenced(t, 1<<24)
	c, random, jpegs := newCoders(t), rand.New(rand.NewPCG(3, 4)), 0
	all := append(noisySamples(t), samples(t)...)
	for _, f := range jpegFiles() {
		if Sniff(f.data) == JPEG {
			more := slices.Concat(f.data, []byte("more \xff\xda\x00\x00"))
			all = append(all, newSample(f.name, f.data), newSample(f.name+" and more", more))
		}
	}
	for i := range all {
		s := &all[i]
		a := whole(s.file)
		if s.format == Packed || a.head.Width == 0 || pixelsOf(a.head) > 1<<16 {
			continue
		}
		for _, keep := range []Remainder{ForMemory, ForFile} {
			var first []byte
			for _, k := range kernelsOf(Packed) {
				d := c.with(Options{Kernel: k})
				p, err := packInto(t, memory, d, a, keep)
				none := errors.Is(err, ErrNoPackedForm)
				if s.format == JPEG {
					if k == Pure {
						continue
					}
					x := d.decode(t, a)
					if ours := x.jpegs.Baseline == 1; k != LibJPEG && (err == nil) != ours && !(none && keep == ForFile) {
						t.Errorf("%s: decoded by our own decoder: %v, but packed: %v", a, ours, err)
					}
				} else if none != (keep == ForFile && neverPacked(s)) || err != nil && !none {
					t.Errorf("%s: %v", a, err)
				}
				if err != nil {
					continue
				}
				if first == nil {
					first = bytes.Clone(p)
				}
				if !bytes.Equal(p, first) {
					t.Errorf("%s: %s packs it in another way", a, k)
				}
			}
			if first == nil {
				continue
			}
			if s.format == JPEG {
				jpegs++
			}
			checkPacked(t, c, random, a, first)
			if keep == ForFile {
				checkUnpacked(t, a, first)
			} else if s.format == PNG {
				if _, index := pngPixels(s.data); index != (first[packedHead] == pixelsIndex) {
					t.Errorf("%s: packed as indices: %v", a, !index)
				}
			}
		}
	}
	if jpegs < 200 && native {
		t.Errorf("only %d JPEGs were packed", jpegs)
	}
}

// packInto packs at the end of memory, and with a byte less.
func packInto(t testing.TB, memory []byte, d coder, a ask, keep Remainder) ([]byte, error) {
	t.Helper()
	size := int64(len(a.data))
	n := PackedBound(a.head, size, keep)
	to := atEnd(memory, int(n))
	for i := range to {
		to[i] = guard
	}
	if _, err := d.PackTo(to[1:], a.data, a.head, keep); !errors.Is(err, ErrDestination) {
		t.Errorf("%s: packed into too little memory: %v", a, err)
	}
	var used int
	var err error
	allocated := int64(testkit.Allocated(func() { used, err = d.PackTo(to, a.data, a.head, keep) }))
	if most := d.o.PackNeeds(a.head, size, keep); allocated > most && !errors.Is(err, ErrNoPackedForm) {
		t.Errorf("%s: %d bytes were allocated, and %d announced (%v)", a, allocated, most, keep)
	}
	index := Header{Format: a.head.Format, Width: a.head.Width, Height: a.head.Height, Orientation: a.head.Orientation}
	if PackedBound(index, size, keep) < n {
		t.Errorf("%s: a lower bound for a header from an index", a)
	}
	return to[:used], err
}

// checkPacked compares parts of a packed image with those of its original.
func checkPacked(t *testing.T, c *coders, random *rand.Rand, a ask, p []byte) {
	t.Helper()
	for i := range 4 {
		original := a
		if i > 0 {
			original = a.any(random)
		}
		packed := whole(file{a.name + ", packed", p})
		packed.region, packed.scale = original.region, original.scale
		o := Options{Color: Color(i & 1)}
		want := c.with(o).decode(t, original)
		got, _ := c.everywhere(packed, o)
		if got.err != nil || !bytes.Equal(got.pix, want.pix) {
			t.Errorf("%s: %s, not %s, or other pixels", packed, got, want)
		}
	}
}

func checkUnpacked(t *testing.T, a ask, p []byte) {
	t.Helper()
	got, err := Unpack(p)
	switch {
	case err != nil:
		t.Errorf("%s: %v", a, err)
	case a.head.Format == PNG:
		samePNG(t, a.name, got, a.data)
	case !bytes.Equal(got, a.data):
		t.Errorf("%s: unpacked to another file", a)
	}
}

// samePNG compares stored pixels, and all chunks that are not pixels.
func samePNG(t *testing.T, name string, got, want []byte) {
	t.Helper()
	var stored [2]image.Image
	var chunks [2][]byte
	for i, data := range [][]byte{got, want} {
		critical := []byte(pngSignature) // Go is stricter about ancillary chunks
		for chunk := range pngChunks(data) {
			kind := string(chunk[4:8])
			if kind != "IDAT" && kind != "IHDR" {
				chunks[i] = append(chunks[i], chunk...)
			}
			if suggested := kind == "PLTE" && data[25] != 3; kind[0] < 'a' && !suggested {
				critical = append(critical, chunk...)
			}
		}
		m, err := png.Decode(bytes.NewReader(critical))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			return
		}
		stored[i] = m
	}
	if !bytes.Equal(chunks[0], chunks[1]) {
		t.Errorf("%s: other chunks", name)
	}
	b := stored[1].Bounds()
	if fmt.Sprintf("%T", stored[0]) != fmt.Sprintf("%T", stored[1]) || stored[0].Bounds() != b {
		t.Errorf("%s: %T of %v, want %T of %v", name, stored[0], stored[0].Bounds(), stored[1], b)
		return
	}
	for i := range b.Dx() * b.Dy() {
		if x, y := b.Min.X+i%b.Dx(), b.Min.Y+i/b.Dx(); stored[0].At(x, y) != stored[1].At(x, y) {
			t.Errorf("%s: another pixel at %d, %d", name, x, y)
			return
		}
	}
}

// TestNotRestored: a JPEG whose incomplete bytes are not all padded alike cannot be restored, and
// the error says so.
func TestNotRestored(t *testing.T) {
	needsC(t)
	s := corpus("restarts.jpg")
	data := bytes.Clone(s.data)
	for at := scanOf(data); at < len(data)-1; at++ {
		if data[at+1] == 0xff && data[at+2]&^7 == markRST0 && data[at]&1 == 1 {
			data[at] &^= 1
			break
		}
	}
	d := newCoder(t, Options{})
	was, err1 := d.Pack(s.data, headerOf(s.data), ForMemory)
	is, err2 := d.Pack(data, headerOf(data), ForMemory)
	if err1 != nil || err2 != nil || bytes.Equal(data, s.data) || !bytes.Equal(was, is) {
		t.Fatal("there is no bit that fills up", err1, err2)
	}
	if _, err := d.Pack(data, headerOf(data), ForFile); !errors.Is(err, ErrNoPackedForm) {
		t.Errorf("restored as if all were filled up alike: %v", err)
	}
}

func castagnoli(b []byte) uint32 { return crc32.Checksum(b, crc32.MakeTable(crc32.Castagnoli)) }

// sealed recomputes the checksums of a packed image, for all strips that are still in it.
func sealed(data []byte) []byte {
	le, sum := binary.LittleEndian, castagnoli
	end := packedHead + min(int64(le.Uint64(data[16:])), int64(len(data)-packedHead))
	width, height := int64(le.Uint32(data[8:])), int64(le.Uint32(data[12:]))
	body := data[packedHead:max(packedHead, end)]
	if len(body) < 16 {
		return data
	}
	start, entry, count := int64(8), int64(8), (height+15)/16
	across, blocks := int64(1), int64(0)
	if data[5] == 2 { // coefficients
		var hmax, vmax int64 = 1, 1
		for i := range min(3, int64(body[0])) {
			h, v := int64(body[3+2*i]>>4), int64(body[3+2*i]&15)
			hmax, vmax, blocks = max(hmax, h), max(vmax, v), blocks+h*v
		}
		across = (width + 8*hmax - 1) / (8 * hmax)
		start, entry, count = 16+128*int64(body[2]), 16, (across+15)/16*((height+8*vmax-1)/(8*vmax))
	} else if body[0] == pixelsIndex {
		start += 768
	}
	if count > int64(len(body)) || start+count*entry > int64(len(body)) {
		return data
	}
	first, rest := start+count*entry, start+count*entry
	for i, from := int64(0), first; i < count; i++ {
		e := body[start+i*entry:][:entry]
		to := first + int64(le.Uint32(e))
		if blocks > 0 {
			chunks := (across + 15) / 16
			to = from + blocks*min(16, across-i%chunks*16)
			for k := range 6 {
				to += int64(le.Uint16(e[2*k:]))
			}
		}
		if to < from || to > int64(len(body)) {
			break
		}
		le.PutUint32(e[entry-4:], sum(body[from:to]))
		from, rest = to, to
	}
	le.PutUint32(data[36:], sum(data[packedHead+rest:]))
	le.PutUint32(data[32:], 0)
	le.PutUint32(data[32:], sum(data[:packedHead+first]))
	return data
}

// TestPackedDamaged: a flipped bit in a packed image is detected. If the checksum is right, or
// ignored, damage leads to an error, to other pixels, the same in all kernels, or to another file;
// no byte outside of memory is touched, which would crash.
func TestPackedDamaged(t *testing.T) {
	c, random, memory := newCoders(t), rand.New(rand.NewPCG(5, 6)), testkit.Fenced(t, 1<<20)
	refused, accepted, unpacked, most := 0, 0, 0, 200
	if testing.Short() {
		most = 60
	}
	for i, s := range allSamples() {
		jpeg := ofJPEG(s.data)
		if s.format != Packed || s.w*s.h > 1<<14 || !jpeg && (len(s.data) > 1500 || i%17 != 0) {
			continue
		}
		if !bytes.Equal(sealed(bytes.Clone(s.data)), s.data) {
			t.Fatalf("%s: this test computes other checksums", s.name)
		}
		a := whole(s.file)
		for n := range min(len(s.data), most) {
			at := n * len(s.data) / min(len(s.data), most)
			a.data = copyTo(memory, s.data)
			a.data[at] ^= 1 << (n % 8)
			if _, err := Unpack(a.data); err == nil {
				t.Errorf("%s: byte %d: unpacked", s.name, at)
			}
			for _, k := range kernelsOf(Packed)[:1] {
				if c.with(Options{Kernel: k}).decode(t, a).err == nil {
					t.Errorf("%s: byte %d: decoded", s.name, at)
				}
			}
			if n%2 == 1 { // worse
				a.data = copyTo(memory, s.data[:len(s.data)-n%4/3*random.IntN(len(s.data)-packedHead)/2])
				for range 1 + random.IntN(4) {
					at := packedHead + random.IntN(min(len(a.data)-packedHead, 1<<(4+random.IntN(16)))) // the table more often
					a.data[at] = [3]byte{a.data[at] ^ 1<<random.IntN(8), 0xff, byte(random.Uint32())}[random.IntN(3)]
				}
			}
			damaged := a
			if damaged.verified = true; n%3 > 0 {
				damaged = damaged.any(random)
			}
			if first, _ := c.everywhere(damaged, Options{Color: Color(n % 2)}); first.err == nil {
				accepted++
			} else {
				refused++
			}
			if _, err := Unpack(sealed(a.data)); err == nil {
				unpacked++
			} else if !errors.Is(err, ErrNoPackedForm) {
				explained(t, s.name, err)
			}
		}
	}
	if t.Logf("%d refused, %d decoded, %d unpacked", refused, accepted, unpacked); refused < 5*most || accepted < 5*most || unpacked < most/2 {
		t.Error("that is too few")
	}
}

// TestPackedOther: a remainder that is another JPEG, after a byte that is ignored there, is not
// decoded as if it had the size that the packed image says.
func TestPackedOther(t *testing.T) {
	needsC(t)
	var other bytes.Buffer
	testkit.Must(t, jpeg.Encode(&other, image.NewGray(image.Rect(0, 0, 8, 8)), nil))
	packed := corpus("restarts.jpg packed for file")
	le := binary.LittleEndian
	body := packedHead + int(le.Uint64(packed.data[16:]))
	data := slices.Concat(packed.data[:body], []byte{0xff}, other.Next(2), []byte{0}, other.Bytes())
	le.PutUint64(data[24:], uint64(len(data)-body))
	c := newCoders(t)
	got := c.with(Options{Kernel: Pure}).decode(t, whole(file{"another JPEG", sealed(data)}))
	if !errors.Is(got.err, ErrMismatch) {
		t.Errorf("%v", got.err)
	}
}

func TestPackedHeader(t *testing.T) {
	good := corpus("plain-20x10.png packed for memory").data
	for name, c := range map[string]struct {
		at    int
		to    byte
		kind  error
		words string
	}{
		"another version":     {4, 1, ErrFormat, "version 1"},
		"another kind":        {5, 2, ErrCorrupt, "kind 2 for png"},
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
		if _, err := ReadHeader(data, true); !errors.Is(err, c.kind) || !strings.Contains(fmt.Sprint(err), c.words) {
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
