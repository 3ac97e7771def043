// Tests are outside the package, so that its C is compiled once for them and for all other
// programs.
package decode_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"errors"
	"fmt"
	"image"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	. "github.com/batchfs/batchfs/decode"
)

// A file is an encoded image.
type file struct {
	name string
	data []byte
}

// sample is an image file and the pixels that it must decode to.
type sample struct {
	file
	format      Format
	orientation uint8
	w, h        int
	rgb         []uint8 // as stored, w*h*3
	gray        []uint8 // nil: BT.601 of rgb
	// The allowed error of any channel, and the mean over all of them. Both 0: exact. See the
	// tolerances below.
	worst int
	mean  float64
	// loose: how many bytes may be missing from the end undetectably.
	loose int
	// goRefuses: Go's decoder does not support this kind of file.
	goRefuses bool
}

// Tolerances. JPEG readers may each round a sample's inverse transform by half a level, and colour
// conversion multiplies an error in chroma by up to 1.8: no channel is off by more than 6 levels.
// Decoders interpolate subsampled chroma differently, and single pixels at edges may be far off;
// the mean is not.
const (
	jpegWorst  = 6
	jpegMean   = 0.6
	subsampled = 255
	chromaMean = 5.0
)

func paint(w, h int, at func(x, y int) [3]uint8) []uint8 {
	out := make([]uint8, 0, w*h*3)
	for y := range h {
		for x := range w {
			p := at(x, y)
			out = append(out, p[:]...)
		}
	}
	return out
}

func grayOfRGB(rgb []uint8) []uint8 {
	out := make([]uint8, len(rgb)/3)
	for i := range out {
		out[i] = uint8((19595*int(rgb[3*i]) + 38470*int(rgb[3*i+1]) + 7471*int(rgb[3*i+2]) + 32768) >> 16)
	}
	return out
}

// plainSamples are files that foreign encoders wrote, with the pixels that foreign decoders read
// from them (testdata/make.py), and edited copies of some.
var plainSamples = sync.OnceValue(func() []sample {
	references, err := readReferences()
	if err != nil {
		panic(err)
	}
	var all []sample
	for _, path := range testFiles("samples/*") {
		s := newSample(filepath.Base(path), testFile(path))
		s.w, s.h, s.rgb = pixmap(references[s.name+".ppm"], 3)
		if gray := references[s.name+".pgm"]; gray != nil {
			_, _, s.gray = pixmap(gray, 1)
		}
		s.rate()
		all = append(all, s)
	}
	for _, path := range testFiles("oriented/*") { // Pillow gave them an orientation, as it shows them
		s := newSample(path, testFile(path))
		s.orientation = strings.TrimSuffix(path, filepath.Ext(path))[len("oriented/oriented-")] - '0'
		w, h, rgb := pixmap(references[path+".ppm"], 3)
		s.rgb, s.w, s.h = turned(rgb, w, h, 3, [...]uint8{1: 1, 2, 3, 4, 5, 8, 7, 6}[s.orientation])
		s.rate()
		all = append(all, s)
	}
	// An animation is its first frame, with black around it, where the canvas is transparent and
	// alpha is dropped. Pillow, which uses libwebp's WebPAnimDecoder, converts to the same RGB.
	for _, name := range []string{"animated-lossy", "animated-lossless"} {
		s := newSample(name+".webp", testFile(name+".webp"))
		s.w, s.h, s.rgb = pixmap(testFile(name+".ppm"), 3)
		all = append(all, s)
	}
	return append(all, editedSamples(all)...)
})

// allSamples are plainSamples, and their packed forms. To pack a PNG, another library is called,
// which the sanitizer of uninitialized memory does not see.
var allSamples = sync.OnceValue(func() []sample {
	all := slices.Clip(plainSamples())
	return append(all, packedSamples(all)...)
})

func newSample(name string, data []byte) sample {
	s := sample{file: file{name, data}, format: Sniff(data), orientation: 1}
	if s.format == Unknown {
		panic(name + " is no image")
	}
	return s
}

// corpus returns a sample by its name.
func corpus(name string) sample {
	for _, all := range []func() []sample{plainSamples, allSamples} {
		if i := slices.IndexFunc(all(), func(s sample) bool { return s.name == name }); i >= 0 {
			return all()[i]
		}
	}
	panic("no sample " + name)
}

// testFile reads a file of testdata. Other encoders made all of them.
func testFile(name string) []byte {
	data, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		panic(err)
	}
	return data
}

// testFiles returns the files in testdata that match a pattern. There must be at least one.
func testFiles(pattern string) []string {
	names, err := filepath.Glob(filepath.Join("testdata", pattern))
	if err != nil || names == nil {
		panic(fmt.Sprint("no files: ", pattern, err))
	}
	for i := range names {
		names[i] = strings.TrimPrefix(names[i], "testdata/")
	}
	return names
}

func readReferences() (map[string][]byte, error) {
	f, err := os.Open("testdata/reference.tar.gz")
	if err != nil {
		return nil, err
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		return nil, err
	}
	references, t := map[string][]byte{}, tar.NewReader(z)
	for {
		h, err := t.Next()
		if err == io.EOF {
			return references, nil
		}
		if err == nil {
			references[h.Name], err = io.ReadAll(t)
		}
		if err != nil {
			return nil, err
		}
	}
}

// pixmap reads a PPM or PGM of 8 bits, as other programs write it.
func pixmap(data []byte, channels int) (w, h int, pix []byte) {
	var kind, maximum int
	fmt.Fscanf(bytes.NewReader(data), "P%d\n%d %d\n%d\n", &kind, &w, &h, &maximum)
	if n := channels * w * h; maximum == 255 && n > 0 && n < len(data) {
		return w, h, data[len(data)-n:]
	}
	panic(fmt.Sprintf("no reference of %d channels: %.20q", channels, data))
}

// rate sets the tolerance for the reference's pixels, and a file's peculiarities.
func (s *sample) rate() {
	switch s.format {
	case JPEG:
		s.worst, s.mean = jpegWorst, jpegMean
		if s.gray == nil && subsamples(s.data) {
			s.worst, s.mean = subsampled, chromaMean
		}
	case PNM:
		if s.data[1] < '5' {
			// The white space at the end, and all digits of the last number except the first.
			s.loose = len(s.data) - bytes.LastIndexAny(bytes.TrimRight(s.data, " \n"), " \n") - 2
		}
	case BMP:
		if _, end, ok := PartOf(s.data, int64(len(s.data)), Region{W: s.w, H: s.h}, 1); ok {
			s.loose = len(s.data) - int(end)
		}
	}
	s.goRefuses = slices.Contains([]string{"ycc-3x1.jpg", "ycc-1x4.jpg", "ycc-2x4.jpg", "stray-fill-bytes.jpg"}, s.name)
}

// subsamples reports whether a JPEG stores some component with fewer samples.
func subsamples(data []byte) bool {
	frame := frameOf(data)
	for i := range int(frame[5]) {
		if frame[7+3*i] != frame[7] {
			return true
		}
	}
	return false
}

// samples returns allSamples and the files that come with Go and its image module, and logs which
// of the latter are missing.
func samples(t testing.TB) []sample {
	t.Helper()
	out := slices.Clone(allSamples())
	for _, f := range foreign() {
		if len(f.samples) == 0 {
			t.Logf("NOT TESTED: there is nothing in %s", f.pattern)
		}
		out = append(out, f.samples...)
	}
	return out
}

type foreignFiles struct {
	pattern string
	samples []sample
}

var foreign = sync.OnceValue(func() (all []foreignFiles) {
	root, module := "GOROOT", "golang.org/x/image"
	if out, err := exec.Command("go", "env", "GOROOT").Output(); err == nil {
		root = strings.TrimSpace(string(out))
	}
	if out, err := exec.Command("go", "list", "-f", "{{.Dir}}", module+"/webp").Output(); err == nil {
		module = filepath.Dir(strings.TrimSpace(string(out)))
	}
	for _, pattern := range []string{
		filepath.Join(root, "src/image/testdata/*"), filepath.Join(root, "src/image/png/testdata/pngsuite/*"),
		filepath.Join(module, "testdata/*.webp"), filepath.Join(module, "testdata/*.bmp"),
	} {
		all = append(all, foreignFiles{pattern, foreignSamples(pattern)})
	}
	return all
})

// foreignSamples reads images of up to 64 KiB, with the pixels that Go's decoders make of them.
func foreignSamples(pattern string) (out []sample) {
	names, _ := filepath.Glob(pattern)
	for _, name := range names {
		data, err := os.ReadFile(name)
		if err != nil || Sniff(data) == Unknown || len(data) > 64<<10 {
			continue
		}
		s := newSample(filepath.Base(name), data)
		h := headerOf(data)
		s.w, s.h = h.Width, h.Height
		s.rate()
		s.rgb, s.gray = make([]byte, 3*s.w*s.h), make([]byte, s.w*s.h)
		for c, pix := range [][]byte{s.rgb, s.gray} {
			d := NewDecoder(Options{Kernel: Pure, Color: Color(c)})
			err = errors.Join(err, d.Decode(Image{Pix: pix, Stride: len(pix) / max(1, s.h), Height: s.h, Width: s.w}, data, h))
		}
		if err == nil { // otherwise, they refuse it
			out = append(out, s)
		}
	}
	return out
}

// want returns the sample's upright pixels in a colour.
func (s *sample) want(c Color, orientation uint8) (pix []uint8, w, h int) {
	pix = s.rgb
	if c == Gray {
		if pix = s.gray; pix == nil {
			pix = grayOfRGB(s.rgb)
		}
	}
	return turned(pix, s.w, s.h, c.Channels(), orientation)
}

// stored returns where pixel (x, y) of an upright image comes from in a stored image of w by h
// pixels.
func stored(orientation uint8, w, h, x, y int) (sx, sy int) {
	switch orientation {
	case 2:
		return w - 1 - x, y
	case 3:
		return w - 1 - x, h - 1 - y
	case 4:
		return x, h - 1 - y
	case 5:
		return y, x
	case 6: // its left edge is shown at the top
		return y, h - 1 - x
	case 7:
		return w - 1 - y, h - 1 - x
	case 8: // its right edge is shown at the top
		return w - 1 - y, x
	}
	return x, y
}

// turned applies an orientation the slow way, by finding the source of each pixel of the result.
func turned(pix []uint8, w, h, c int, orientation uint8) (out []uint8, ow, oh int) {
	ow, oh = w, h
	if orientation >= 5 {
		ow, oh = h, w
	}
	for y := range oh {
		for x := range ow {
			sx, sy := stored(orientation, w, h, x, y)
			out = append(out, pix[(sy*w+sx)*c:][:c]...)
		}
	}
	return out, ow, oh
}

// packedSamples are the packed forms of all samples that have one.
func packedSamples(all []sample) (out []sample) {
	d := NewDecoder(Options{})
	defer d.Close()
	for _, s := range all {
		for keep, name := range [...]string{ForMemory: "memory", ForFile: "file"} {
			data, err := d.Pack(s.data, headerOf(s.data), Remainder(keep))
			if err != nil {
				continue // TestPacked says which must have one
			}
			p := s
			p.name, p.data, p.format, p.loose = s.name+" packed for "+name, data, Packed, 0
			p.goRefuses = p.goRefuses || s.format == JPEG && keep == int(ForMemory)
			out = append(out, p)
		}
	}
	return out
}

// ofJPEG reports whether the pixels depend on the build's JPEG decoder: for a JPEG, packed or not.
func ofJPEG(data []byte) bool {
	return Sniff(data) == JPEG || Sniff(data) == Packed && len(data) > 7 && data[7] == 1
}

// oddFiles are files of all formats that lack something needed for decoding, or have it in unusual
// ways.
func oddFiles() (out []file) {
	add := func(name string, data []byte) { out = append(out, file{name, data}) }
	for _, f := range []file{
		{"plain", corpus("plain-37x21.jpg").data}, {"coarse", corpus("optimized.jpg").data},
		{"progressive", corpus("progressive.jpg").data}, {"with restarts", corpus("restarts.jpg").data}, {"rough", testFile("huffman.jpg")},
		{"rough, progressive", testFile("progressive.jpg")}, {"arithmetic", testFile("arithmetic.jpg")},
	} {
		add(f.name, f.data)
		add(f.name+" without DHT", without(f.data, markDHT))
		add(f.name+" without DQT", without(f.data, markDQT))
		add(f.name+" without either", without(without(f.data, markDHT), markDQT))
		add(f.name+" without DRI", without(f.data, markDRI))
		add(f.name+" cut", f.data[:len(f.data)*3/4])
	}
	for n := 1; n <= 3; n++ {
		add(fmt.Sprintf("%d scans", n), scansUpTo(testFile("progressive.jpg"), n))
	}
	for _, s := range plainSamples() {
		if s.format == JPEG && (strings.HasPrefix(s.name, "cmyk") || strings.HasPrefix(s.name, "ycck")) {
			add(s.name, s.data)
			add(s.name+" without Adobe", without(s.data, markAPP14))
		}
	}
	for _, s := range rotatable(20, 10, 6, false) {
		add(s.name, s.data)
		add(s.name+" cut", s.data[:len(s.data)*3/4])
	}
	for _, n := range []int{0, 1, 256} {
		for _, name := range []string{"palette-8-33x19", "palette-8-33x19-interlaced"} {
			data := edited(corpus(name+".png").data, func(s *pngParts) {
				if s.before = nil; n > 0 {
					s.before = chunk("PLTE", bytes.Repeat([]byte{200, 100, 50}, n))
				}
			})
			add(fmt.Sprintf("%s with a palette of %d", name, n), data)
		}
	}
	for _, name := range []string{"lossy-30x20.webp", "lossy-alpha.webp"} {
		add(name, corpus(name).data)
	}
	return out
}

// jpegFiles are JPEGs of all kinds, most of which our own decoder reads, and other odd files.
func jpegFiles() []file {
	out := oddFiles()
	for _, s := range plainSamples() {
		if s.format == JPEG {
			out = append(out, s.file)
		}
	}
	for _, pattern := range []string{"regions/*.jpg", "refused/*.jpg", "progressive/*.jpg"} {
		for _, name := range testFiles(pattern) {
			out = append(out, file{name, testFile(name)})
		}
	}
	return out
}

// TestCorpus: the corpus is complete.
func TestCorpus(t *testing.T) {
	count := map[Format]int{}
	for _, s := range allSamples() {
		count[s.format]++
	}
	for format, least := range map[Format]int{JPEG: 78, PNG: 123, BMP: 170, PNM: 168, WebP: 28, Packed: 400} {
		if count[format] < least {
			t.Errorf("%d samples of %s, of at least %d", count[format], format, least)
		}
	}
	if len(testFiles("regions/*.jpg")) != 28 || len(testFiles("progressive/*.jpg")) < 40 {
		t.Error("files are missing")
	}
}

// noisySamples are files with random bytes as pixels, which take the most memory to pack, and
// include rare kinds. They have no reference.
func noisySamples(t testing.TB) (out []sample) {
	noise := busyBytes(1, 2)
	add := func(name string, data []byte) { out = append(out, newSample(name, data)) }
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
		add(name+".png", encodedPNG(m))
	}
	add("noise, gray.jpg", encodedJPEG(gray, 100))
	add("noise.jpg", encodedJPEG(rgb, 100))
	for _, maximum := range []int{1, 2, 15, 100, 254, 255, 256, 1000, 4095, 32767, 40000, 65534, 65535} {
		for kind, channels := range map[byte]int{'5': 1, '6': 3} {
			to := fmt.Appendf(nil, "P%c 67 35 %d\n", kind, maximum)
			pix := noise(make([]byte, 2*67*35*channels))
			for i := 0; i < len(pix); i += 2 {
				if v := int(binary.BigEndian.Uint16(pix[i:])) % (maximum + 1); maximum > 255 {
					to = binary.BigEndian.AppendUint16(to, uint16(v))
				} else {
					to = append(to, uint8(v))
				}
			}
			add(fmt.Sprintf("%d channels to %d.pnm", channels, maximum), to)
		}
	}
	for _, c := range []struct { // noise in all bits, even those without meaning
		bits  int
		masks []uint32
	}{
		{1, nil}, {2, nil}, {4, nil}, {8, nil}, {16, nil}, {24, nil}, {32, nil},
		{16, []uint32{0xf800, 0x7e0, 0x1f}}, {32, []uint32{0x3ff, 0xffc00, 0x3ff00000}}, {32, []uint32{0xff, 0xff00, 0xff0000}},
		{32, []uint32{1, 0xfffffff0, 0x70000}},
	} {
		s := rawBMP{w: 67, h: 35, bits: c.bits, masks: c.masks, pixels: noise(make([]byte, (67*c.bits+31)/32*4*35))}
		if c.masks != nil {
			s.compression = bmpBitfields
		}
		if c.bits <= 8 {
			s.palette = noise(make([]byte, 4<<c.bits))
		}
		add(fmt.Sprintf("%d bits, %x.bmp", c.bits, c.masks), s.join())
	}
	return out
}
