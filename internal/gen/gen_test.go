package gen

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"image"
	"image/jpeg"
	"image/png"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	_ "golang.org/x/image/webp"

	"github.com/batchfs/batchfs/internal/option"
	"github.com/batchfs/batchfs/internal/testkit"
)

// testTiles are shared: with the race detector they take a second to make.
var testTiles = sync.OnceValue(func() *tiles { return newTiles(1) })

// makeSet writes a dataset and returns its files.
func makeSet(t *testing.T, o Options) map[string][]byte {
	t.Helper()
	o.Dir = filepath.Join(t.TempDir(), "set")
	testkit.Must(t, Write(context.Background(), o))
	return testkit.Files(t, o.Dir)
}

// makeImage makes image i in memory.
func makeImage(t testing.TB, m *maker, i int) (data []byte, ext string) {
	t.Helper()
	var to bytes.Buffer
	ext, err := m.image(&to, i)
	testkit.Must(t, err)
	return to.Bytes(), ext
}

// Bytes depend only on seed and index.
func TestSameBytes(t *testing.T) {
	for _, kind := range []Kind{Photo, Mixed} {
		base := makeSet(t, Options{Images: 7, Kind: kind, Seed: 5, Workers: 1})
		more := makeSet(t, Options{Images: 9, Kind: kind, Seed: 5, Workers: 4, Classes: 3})
		other := newMaker(Options{Kind: kind, Seed: 6}, testTiles())
		for name, data := range base {
			var i int
			fmt.Sscanf(name, "%d", &i)
			if !bytes.Equal(more[fmt.Sprintf("class-%03d/%s", i%3, name)], data) {
				t.Errorf("%v: %s depends on the workers, classes or number of images", kind, name)
			}
			if again, _ := makeImage(t, other, i); bytes.Equal(again, data) {
				t.Errorf("%v: %s is the same for another seed", kind, name)
			}
		}
		if len(base) != 7 || len(more) != 9 {
			t.Errorf("%v: %d and %d files", kind, len(base), len(more))
		}
	}
}

// These pin the pixels of the first photos and streets (not their bytes, since Go decides how it
// compresses). Change them only when pictures are meant to change: datasets made before and
// after will differ.
func TestGolden(t *testing.T) {
	p, sum := painter{tiles: testTiles()}, sha256.New()
	for i := range scenes {
		p.photo(1, i, photoWidth, photoHeight)
		sum.Write(p.img.Pix)
	}
	if got := hex.EncodeToString(sum.Sum(nil)[:8]); got != goldenPhotos {
		t.Errorf("photos: %s, want %s", got, goldenPhotos)
	}
	p.cityscape(1, 0)
	sum.Reset()
	sum.Write(p.img.Pix)
	if got := hex.EncodeToString(sum.Sum(nil)[:8]); got != goldenStreet {
		t.Errorf("street: %s, want %s", got, goldenStreet)
	}
	if !p.img.Opaque() {
		t.Error("a street has holes")
	}
}

const (
	goldenPhotos = "334e7952a2dc62b6"
	goldenStreet = "f59f2f551aa43693"
)

// Photos have the documented file size, and so does each scene, roughly.
func TestPhotoSizes(t *testing.T) {
	m := newMaker(Options{Kind: Photo, Seed: 11}, testTiles())
	const rounds = 3
	total := 0
	for s := range scenes {
		sum := 0
		for r := range rounds {
			data, ext := makeImage(t, m, r*len(scenes)+s)
			c, err := jpeg.DecodeConfig(bytes.NewReader(data))
			if err != nil || c.Width != 500 || c.Height != 375 || ext != ".jpg" {
				t.Fatalf("%s: %+v, %v", ext, c, err)
			}
			sum += len(data)
		}
		if mean := sum / rounds; mean < 60_000 || mean > 140_000 {
			t.Errorf("scene %d: %d bytes on average", s, mean)
		}
		total += sum
	}
	if mean := total / (rounds * len(scenes)); mean < 90_000 || mean > 110_000 {
		t.Errorf("%d bytes on average", mean)
	}
}

func TestCityscapeSize(t *testing.T) {
	m := newMaker(Options{Kind: Cityscape, Seed: 3}, testTiles())
	data, ext := makeImage(t, m, 0)
	c, err := png.DecodeConfig(bytes.NewReader(data))
	if err != nil || c.Width != 2048 || c.Height != 1024 || ext != ".png" {
		t.Fatalf("%s: %+v, %v", ext, c, err)
	}
	// One is enough for a test, since all have about the same size.
	if n := len(data); n < 2_000_000 || n > 2_600_000 {
		t.Errorf("%d bytes", n)
	}
}

// Other decoders can read every kind of file in a mixed set; one cycle through the kinds has every
// size, and every orientation once, in well-formed EXIF.
func TestMixed(t *testing.T) {
	m := newMaker(Options{Kind: Mixed, Seed: 2}, testTiles())
	kinds, rarities := len(m.ways), 0
	if files, err := rare.ReadDir("rare"); err != nil {
		t.Fatal(err)
	} else {
		rarities = len(files)
	}
	sizes, exts, files, turned := map[image.Point]bool{}, map[string]bool{}, map[string]int{}, ""
	for i := range kinds {
		data, ext := makeImage(t, m, i)
		exts[strings.ToLower(ext)] = true
		size, err := decodeAny(strings.ToLower(ext), data)
		if err != nil {
			t.Errorf("image %d, %s: %v", i, ext, err)
		}
		sizes[size] = true
		if before, seen := files[string(data)]; seen {
			t.Errorf("images %d and %d are the same", before, i)
		}
		files[string(data)] = i
		const head = "\xff\xd8\xff\xe1\x00\x22Exif\x00\x00MM\x00*\x00\x00\x00\x08\x00\x01\x01\x12\x00\x03\x00\x00\x00\x01\x00"
		if rest, ok := strings.CutPrefix(string(data), head); ok {
			if turned += rest[:1]; !strings.HasPrefix(rest[1:], "\x00\x00\x00\x00\x00\x00\xff") {
				t.Errorf("image %d: EXIF is followed by %q", i, rest[:9])
			}
		}
	}
	if turned != "\x01\x02\x03\x04\x05\x06\x07\x08" {
		t.Errorf("orientations %q", turned)
	}
	for _, s := range mixedSizes {
		if !sizes[image.Pt(s[0], s[1])] {
			t.Errorf("no picture of %v", s)
		}
	}
	want := []string{".bmp", ".jpeg", ".jpg", ".pgm", ".png", ".ppm", ".webp"}
	if got := slices.Sorted(maps.Keys(exts)); !slices.Equal(got, want) {
		t.Errorf("extensions %v", got)
	}
	if rarities < 20 || kinds < rarities+20 {
		t.Errorf("%d kinds, of which %d are rare", kinds, rarities)
	}
	for a, b := kinds, len(mixedSizes); b > 0; a, b = b, a%b {
		if b > 1 && a%b == 0 {
			t.Errorf("%d kinds and %d sizes have the factor %d in common", kinds, len(mixedSizes), b)
		}
	}
}

// decodeAny decodes a file with a decoder that is not ours, which must be the one of its extension.
func decodeAny(ext string, data []byte) (image.Point, error) {
	if ext == ".ppm" || ext == ".pgm" {
		return checkPNM(data)
	}
	img, format, err := image.Decode(bytes.NewReader(data))
	if err != nil {
		return image.Point{}, err
	}
	if ext = strings.Replace(ext, "jpg", "jpeg", 1); ext != "."+format {
		return image.Point{}, fmt.Errorf("the file is a %s", format)
	}
	return img.Bounds().Size(), nil
}

// checkPNM parses a header as the format describes it and checks the length.
func checkPNM(data []byte) (image.Point, error) {
	var tokens []string
	at := 0
	for len(tokens) < 4 {
		switch c := data[at]; {
		case c == '#':
			at += bytes.IndexByte(data[at:], '\n')
		case c == '\n' || c == ' ':
			at++
		default:
			end := at + bytes.IndexAny(data[at:], " \n")
			tokens, at = append(tokens, string(data[at:end])), end
		}
	}
	var w, h, top int
	fmt.Sscan(strings.Join(tokens[1:], " "), &w, &h, &top)
	chans := map[string]int{"P5": 1, "P6": 3}[tokens[0]]
	if want := w * h * chans; top != 255 || want == 0 || len(data)-at-1 != want {
		return image.Point{}, fmt.Errorf("%v and %d bytes", tokens, len(data)-at-1)
	}
	return image.Pt(w, h), nil
}

// Every format has the pixels that were painted, except JPEG, which is close.
func TestFormats(t *testing.T) {
	p := painter{tiles: testTiles()}
	p.photo(0, 0, photoWidth, photoHeight)
	want := p.img
	for _, f := range Formats() {
		data, ext := makeImage(t, newMaker(Options{Kind: Photo, Format: f}, testTiles()), 0)
		if wantExt := "." + strings.Replace(f, "jpeg", "jpg", 1); ext != wantExt {
			t.Errorf("%s has the extension %s", f, ext)
		}
		if f == "ppm" {
			data = data[len(data)-3*photoWidth*photoHeight:]
			for i := range data {
				if data[i] != want.Pix[i/3*4+i%3] {
					t.Fatalf("ppm: byte %d is %d", i, data[i])
				}
			}
			continue
		}
		m, _, err := image.Decode(bytes.NewReader(data))
		if err != nil || m.Bounds() != want.Rect {
			t.Errorf("%s: %v, %v", f, m.Bounds(), err)
			continue
		}
		off := 0
		for i := 0; i < photoWidth*photoHeight; i += 7 {
			r, g, b, _ := m.At(i%photoWidth, i/photoWidth).RGBA()
			for c, v := range [3]uint32{r, g, b} {
				d := int(v>>8) - int(want.Pix[4*i+c])
				off += max(d, -d)
			}
		}
		const samples = 3 * photoWidth * photoHeight / 7
		if off > 0 && (f != "jpeg" || off > 15*samples) {
			t.Errorf("%s is off by %d in %d samples", f, off, samples)
		}
	}
}

func TestClasses(t *testing.T) {
	files := makeSet(t, Options{Images: 5, Classes: 2, Kind: Mixed})
	for name := range files {
		if !strings.HasPrefix(name, "class-000/") && !strings.HasPrefix(name, "class-001/") {
			t.Errorf("file %s", name)
		}
	}
	// No class is empty.
	dir := t.TempDir()
	testkit.Must(t, Write(context.Background(), Options{Dir: dir, Images: 2, Classes: 10, Kind: Mixed}))
	entries, _ := os.ReadDir(dir)
	if len(entries) != 2 {
		t.Errorf("entries %v", entries)
	}
	o := Options{Images: 2_000_000, Classes: 1500}
	if got := o.path(1_999_999, ".jpg"); got != "class-0499/1999999.jpg" {
		t.Errorf("file %s", got)
	}
}

func TestRefuses(t *testing.T) {
	full := t.TempDir()
	os.WriteFile(filepath.Join(full, "mine"), nil, 0o644)
	err := Write(context.Background(), Options{Dir: full, Images: 1})
	if !errors.Is(err, ErrNotEmpty) || !strings.Contains(err.Error(), "mine") {
		t.Errorf("a full directory: %v", err)
	}
	if entries, _ := os.ReadDir(full); len(entries) != 1 {
		t.Errorf("left %v", entries)
	}
	if err := Write(context.Background(), Options{Dir: filepath.Join(full, "mine"), Images: 1}); err == nil {
		t.Error("a file was taken for a directory")
	}
	dir := filepath.Join(full, "new")
	var wrong *option.Error
	if err := Write(t.Context(), Options{Dir: dir, Images: 1, Format: "png", Kind: Mixed}); !errors.As(err, &wrong) || wrong.Field != "format" {
		t.Errorf("a format for all formats: %v", err)
	}
	if _, err := os.Stat(dir); err == nil {
		t.Error("a directory was made")
	}
}

// A cancelled dataset leaves nothing behind.
func TestCancel(t *testing.T) {
	parent := t.TempDir()
	kept := filepath.Join(parent, "kept")
	os.Mkdir(kept, 0o755)
	for _, dir := range []string{filepath.Join(parent, "new"), kept} {
		ctx, cancel := context.WithCancel(context.Background())
		err := Write(ctx, Options{Dir: dir, Images: 1000, Kind: Mixed, Classes: 2, Workers: 2, Progress: func(done, _ int64) {
			if done >= 3 {
				cancel()
			}
		}})
		if !errors.Is(err, context.Canceled) {
			t.Errorf("%v", err)
		}
	}
	var left []string
	filepath.WalkDir(parent, func(path string, _ fs.DirEntry, _ error) error {
		left = append(left, path)
		return nil
	})
	if len(left) != 2 {
		t.Errorf("left behind: %v", left)
	}
}

// While a dataset is being made, only a hidden directory is visible, and progress counts up.
func TestNothingHalfDone(t *testing.T) {
	dir, last := t.TempDir(), int64(-1)
	o := Options{Dir: dir, Images: 9, Kind: Mixed, Classes: 2, Workers: 3, Progress: func(done, total int64) {
		entries, _ := os.ReadDir(dir)
		if len(entries) != 1 || entries[0].Name()[0] != '.' || done != last+1 || total != 9 {
			t.Errorf("seen in the making: %v; %d of %d after %d", entries, done, total, last)
		}
		last = done
	}}
	if err := Write(context.Background(), o); err != nil || last != 9 {
		t.Fatalf("%d done, %v", last, err)
	}
	entries, _ := os.ReadDir(dir)
	if len(entries) != 2 || entries[0].Name() != "class-000" {
		t.Errorf("made %v", entries)
	}
}

// Scenes must work at any size, and stay inside the canvas.
func TestScenesAtAnySize(t *testing.T) {
	p := painter{tiles: testTiles()}
	for _, size := range [][2]int{{48, 48}, {49, 300}, {300, 50}, {333, 217}} {
		for s := range scenes {
			for round := range 2 {
				p.photo(uint64(size[0]), s+round*len(scenes), size[0], size[1])
				if !p.img.Opaque() {
					t.Errorf("scene %d at %v has holes", s, size)
				}
			}
		}
	}
}
