package gen

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"image"
	"image/jpeg"
	"math"
	"testing"
)

// noisePlane returns a plane with shapes and noise in it.
func noisePlane(r *rng, w, h, hs, vs int) plane {
	p := plane{pix: make([]byte, w*h), w: w, h: h, stride: w, hs: hs, vs: vs}
	for i := range p.pix {
		x, y := i%w, i/w
		p.pix[i] = clampByte(128 + (x-y)/2 + 60*(x/9%2) + r.between(-40, 40))
	}
	return p
}

func yccPlanes(r *rng, w, h, hs, vs int) []plane {
	cw, ch := ceilDiv(w, hs), ceilDiv(h, vs)
	return []plane{noisePlane(r, w, h, hs, vs), noisePlane(r, cw, ch, 1, 1), noisePlane(r, cw, ch, 1, 1)}
}

func decodeYCbCr(t *testing.T, file []byte) *image.YCbCr {
	t.Helper()
	img, err := jpeg.Decode(bytes.NewReader(file))
	if err != nil {
		t.Fatal(err)
	}
	return img.(*image.YCbCr)
}

// samePixels compares visible pixels; beyond the edge files may differ.
func samePixels(a, b *image.YCbCr) bool {
	for y := range a.Rect.Dy() {
		for x := range a.Rect.Dx() {
			if a.YCbCrAt(x, y) != b.YCbCrAt(x, y) {
				return false
			}
		}
	}
	return a.Rect == b.Rect
}

var testSizes = [][2]int{{1, 1}, {8, 8}, {17, 31}, {64, 16}, {1, 40}, {101, 99}}

// The decoder returns the input, up to the quantisation.
func TestJPEGKeepsPixels(t *testing.T) {
	for _, s := range [][2]int{{1, 1}, {2, 1}, {2, 2}, {1, 2}, {4, 1}} {
		for _, size := range testSizes {
			r := rng(size[0])
			planes := yccPlanes(&r, size[0], size[1], s[0], s[1])
			var e jpegCoder
			img := decodeYCbCr(t, e.encode(nil, size[0], size[1], planes, jpegStyle{quality: 99}))
			if img.Rect.Dx() != size[0] || img.Rect.Dy() != size[1] {
				t.Fatalf("%v became %v", size, img.Rect)
			}
			for k, got := range [][]byte{img.Y, img.Cb, img.Cr} {
				stride := img.YStride
				if k > 0 {
					stride = img.CStride
				}
				if mse := meanSquare(planes[k], got, stride); mse > 2 {
					t.Errorf("%v, sampled %v: component %d is off by %.1f squared", size, s, k, mse)
				}
			}
		}
	}
}

func meanSquare(p plane, got []byte, stride int) float64 {
	sum := 0.0
	for y := range p.h {
		for x := range p.w {
			d := float64(p.pix[y*p.stride+x]) - float64(got[y*stride+x])
			sum += d * d
		}
	}
	return sum / float64(p.w*p.h)
}

// Different codings of the same coefficients decode to the same pixels.
func TestJPEGStylesAgree(t *testing.T) {
	var e jpegCoder
	for _, size := range testSizes {
		for _, s := range [][2]int{{1, 1}, {2, 2}} {
			r := rng(size[1])
			planes := yccPlanes(&r, size[0], size[1], s[0], s[1])
			for _, quality := range []int{25, 90} {
				encode := func(style jpegStyle) []byte {
					style.quality = quality
					return e.encode(nil, size[0], size[1], planes, style)
				}
				want := decodeYCbCr(t, encode(jpegStyle{}))
				for name, style := range map[string]jpegStyle{
					"optimize": {optimize: true}, "progressive": {progressive: true}, "restart": {restart: 2},
					"optimized restart": {restart: 1, optimize: true}, "stray": {stray: true}, "exif": {orientation: 3},
				} {
					if !samePixels(want, decodeYCbCr(t, encode(style))) {
						t.Errorf("%v, sampled %v, quality %d: %s differs from baseline", size, s, quality, name)
					}
				}
				// Go's decoder counts restarts wrongly in subsampled progressive files.
				if s[0] == 1 && !samePixels(want, decodeYCbCr(t, encode(jpegStyle{progressive: true, restart: 3}))) {
					t.Errorf("%v, quality %d: progressive with restarts differs from baseline", size, quality)
				}
			}
		}
	}
}

// A run of blocks that end early may be too long for one symbol.
func TestJPEGLongRuns(t *testing.T) {
	const w, h = 8 * 300, 8 * 120
	p := plane{pix: bytes.Repeat([]byte{77}, w*h), w: w, h: h, stride: w, hs: 1, vs: 1}
	p.pix[w*h/2+5] = 200
	var e jpegCoder
	decode := func(progressive bool) []byte {
		img, err := jpeg.Decode(bytes.NewReader(e.encode(nil, w, h, []plane{p}, jpegStyle{quality: 90, progressive: progressive})))
		if err != nil {
			t.Fatal(err)
		}
		return img.(*image.Gray).Pix
	}
	if !bytes.Equal(decode(false), decode(true)) {
		t.Error("progressive differs from baseline")
	}
}

func TestJPEGColors(t *testing.T) {
	// A picture of few colours survives any conversion.
	p := picture{16, 16, nil}
	for range 16 * 16 {
		p.pix = append(p.pix, 200, 120, 40)
	}
	var e jpegCoder
	for _, k := range []jpegKind{
		{jpegYCC, 2, 2, jpegStyle{}}, {jpegGray, 1, 1, jpegStyle{}}, {jpegRGB, 1, 1, jpegStyle{adobe: 1}},
		{jpegCMYK, 1, 1, jpegStyle{adobe: 1}}, {jpegYCCK, 2, 2, jpegStyle{adobe: 3}}, {jpegYCCK, 1, 1, jpegStyle{adobe: 3, progressive: true}},
	} {
		k.style.quality = 95
		img, err := jpeg.Decode(bytes.NewReader(e.encode(nil, 16, 16, p.components(k), k.style)))
		if err != nil {
			t.Fatalf("%+v: %v", k, err)
		}
		want := [3]int{200, 120, 40}
		if k.color == jpegGray {
			want = [3]int{135, 135, 135}
		}
		r, g, b, _ := img.At(7, 7).RGBA()
		for i, v := range []uint32{r, g, b} {
			if d := int(v>>8) - want[i]; d < -4 || d > 4 {
				t.Errorf("%+v: %T shows %d %d %d", k, img, r>>8, g>>8, b>>8)
			}
		}
	}
}

// The quantisation is the one that every encoder uses for a quality; otherwise photos of quality
// 90 would not have the expected size.
func TestJPEGQuantisation(t *testing.T) {
	var e jpegCoder
	for _, quality := range []int{1, 30, 50, 75, 90, 100} {
		var theirs bytes.Buffer
		jpeg.Encode(&theirs, image.NewYCbCr(image.Rect(0, 0, 8, 8), image.YCbCrSubsampleRatio420), &jpeg.Options{Quality: quality})
		r := rng(1)
		ours := e.encode(nil, 8, 8, yccPlanes(&r, 8, 8, 2, 2), jpegStyle{quality: quality})
		want := quantTables(theirs.Bytes())
		if got := quantTables(ours); !bytes.Equal(got, want) || len(want) != 130 {
			t.Errorf("quality %d: tables %v, want %v", quality, got, want)
		}
	}
}

// quantTables returns the contents of all DQT segments.
func quantTables(file []byte) []byte {
	var tables []byte
	for at := 2; at+4 <= len(file) && file[at+1] != markerSOS; {
		n := int(binary.BigEndian.Uint16(file[at+2:]))
		if file[at+1] == markerDQT {
			tables = append(tables, file[at+4:at+2+n]...)
		}
		at += 2 + n
	}
	return tables
}

func TestForwardDCT(t *testing.T) {
	r := rng(9)
	for range 200 {
		var block [64]int32
		var samples [64]float64
		for i := range block {
			v := r.between(-128, 127)
			block[i], samples[i] = int32(v)<<dctPrescale, float64(v)
		}
		forwardDCT(&block)
		for k := range 64 {
			scale := float64(aanScale[k/8]*aanScale[k%8]) / (1 << 28) * 8 * (1 << dctPrescale)
			got, want := float64(block[k])/scale, referenceDCT(&samples, k%8, k/8)
			if math.Abs(got-want) > 0.75 {
				t.Fatalf("coefficient %d is %.2f, want %.2f", k, got, want)
			}
		}
	}
}

func referenceDCT(s *[64]float64, u, v int) float64 {
	sum := 0.0
	for i, x := range s {
		sum += x * math.Cos(float64((2*(i%8)+1)*u)*math.Pi/16) * math.Cos(float64((2*(i/8)+1)*v)*math.Pi/16)
	}
	if u == 0 {
		sum *= math.Sqrt2 / 2
	}
	if v == 0 {
		sum *= math.Sqrt2 / 2
	}
	return sum / 4
}

func TestEXIF(t *testing.T) {
	want := map[bool]string{
		false: "Exif\x00\x00II*\x00\x08\x00\x00\x00\x01\x00\x12\x01\x03\x00\x01\x00\x00\x00\x06\x00\x00\x00\x00\x00\x00\x00",
		true:  "Exif\x00\x00MM\x00*\x00\x00\x00\x08\x00\x01\x01\x12\x00\x03\x00\x00\x00\x01\x00\x06\x00\x00\x00\x00\x00\x00",
	}
	for big, w := range want {
		if got := string(exif(6, big)); got != w {
			t.Errorf("big-endian %v: %q, want %q", big, got, w)
		}
	}
}

// The stored picture, turned by its EXIF orientation, is the original.
func TestStored(t *testing.T) {
	p := picture{3, 2, nil}
	for i := range 6 {
		p.pix = append(p.pix, byte(i), 0, 0)
	}
	// Rows of the stored file, by orientation, for a picture with rows 012 and 345.
	want := map[int]string{
		1: "[0 1 2][3 4 5]", 2: "[2 1 0][5 4 3]", 3: "[5 4 3][2 1 0]", 4: "[3 4 5][0 1 2]",
		5: "[0 3][1 4][2 5]", 6: "[2 5][1 4][0 3]", 7: "[5 2][4 1][3 0]", 8: "[3 0][4 1][5 2]",
	}
	for o, w := range want {
		s := p.stored(o)
		got := ""
		for y := range s.h {
			row := make([]byte, s.w)
			for x := range row {
				row[x] = s.pix[3*(y*s.w+x)]
			}
			got += fmt.Sprint(row)
		}
		if got != w {
			t.Errorf("orientation %d: stored as %s, want %s", o, got, w)
		}
	}
}

func TestHuffmanLengths(t *testing.T) {
	r := rng(5)
	for range 300 {
		counts := make([]int, r.between(1, 280))
		used := 0
		for i := range counts {
			if r.chance(70) {
				counts[i] = 1 + r.below(1<<r.between(1, 20))
				used++
			}
		}
		checkLengths(t, counts, used, 15)
	}
	fibonacci := []int{1, 1}
	for len(fibonacci) < 30 {
		fibonacci = append(fibonacci, fibonacci[len(fibonacci)-1]+fibonacci[len(fibonacci)-2])
	}
	for _, limit := range []int{5, 7, 15, 16, 29} {
		checkLengths(t, fibonacci, 30, limit)
	}
	checkLengths(t, []int{0, 0, 0}, 0, 15)
}

// checkLengths checks that exactly the used symbols have codes, that the codes fill the code
// space, and that rarer symbols do not have shorter codes.
func checkLengths(t *testing.T, counts []int, used, limit int) {
	t.Helper()
	lengths := make([]uint8, len(counts))
	huffmanLengths(lengths, counts, limit)
	space, coded := 0, 0
	for s, l := range lengths {
		if (l > 0) != (counts[s] > 0) || int(l) > limit {
			t.Fatalf("symbol %d, seen %d times, has %d bits of at most %d", s, counts[s], l, limit)
		}
		if l > 0 {
			space += 1 << (limit - int(l))
			coded++
		}
		for o, m := range lengths {
			if l > 0 && m > 0 && counts[s] < counts[o] && l < m {
				t.Fatalf("seen %d times: %d bits; seen %d times: %d bits", counts[s], l, counts[o], m)
			}
		}
	}
	if coded != used || used > 1 && space != 1<<limit {
		t.Fatalf("%d of %d symbols coded, code space %d of %d", coded, used, space, 1<<limit)
	}
}

func TestHuffmanIsOptimal(t *testing.T) {
	// Counts with a known best code: 1+2, then 3+3, then 6+4, 10+13.
	lengths := make([]uint8, 5)
	huffmanLengths(lengths, []int{1, 2, 3, 4, 13}, 15)
	if !bytes.Equal(lengths, []byte{4, 4, 3, 2, 1}) {
		t.Errorf("lengths %v", lengths)
	}
}
