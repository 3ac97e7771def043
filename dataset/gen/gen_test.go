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

	"golang.org/x/image/bmp"
	"golang.org/x/image/webp"
)

// testTiles are shared: with the race detector they take a second to make.
var testTiles = sync.OnceValue(func() *tiles { return newTiles(1) })

// makeSet writes a dataset and returns its files.
func makeSet(t *testing.T, o Options) map[string][]byte {
	t.Helper()
	o.Dir = filepath.Join(t.TempDir(), "set")
	if err := Write(context.Background(), o); err != nil {
		t.Fatal(err)
	}
	return readSet(t, o.Dir)
}

func readSet(t *testing.T, dir string) map[string][]byte {
	t.Helper()
	files := map[string][]byte{}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		rel, _ := filepath.Rel(dir, path)
		files[rel], err = os.ReadFile(path)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
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
			if again, _ := other.image(i); bytes.Equal(again, data) {
				t.Errorf("%v: %s is the same for another seed", kind, name)
			}
		}
		if len(base) != 7 || len(more) != 9 {
			t.Errorf("%v: %d and %d files", kind, len(base), len(more))
		}
	}
}

// These pin every byte of the first photos and streets (as pixels, since Go decides how PNG
// compresses). Change them only when pictures are meant to change: datasets made before and
// after will differ.
func TestGolden(t *testing.T) {
	m := newMaker(Options{Kind: Photo, Seed: 1}, testTiles())
	sum := sha256.New()
	for i := range scenes {
		data, _ := m.image(i)
		sum.Write(data)
	}
	if got := hex.EncodeToString(sum.Sum(nil)[:8]); got != goldenPhotos {
		t.Errorf("photos: %s, want %s", got, goldenPhotos)
	}
	m.painter.cityscape(1, 0)
	sum.Reset()
	sum.Write(m.painter.canvas.rgb(nil))
	if got := hex.EncodeToString(sum.Sum(nil)[:8]); got != goldenStreet {
		t.Errorf("street: %s, want %s", got, goldenStreet)
	}
}

const (
	goldenPhotos = "03e5329328c0df8f"
	goldenStreet = "81cd734565dadaa7"
)

// Photos have the documented file size, and so does each scene, roughly.
func TestPhotoSizes(t *testing.T) {
	m := newMaker(Options{Kind: Photo, Seed: 11}, testTiles())
	const rounds = 3
	total := 0
	for s := range scenes {
		sum := 0
		for r := range rounds {
			data, ext := m.image(r*len(scenes) + s)
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
	data, ext := m.image(0)
	c, err := png.DecodeConfig(bytes.NewReader(data))
	if err != nil || c.Width != 2048 || c.Height != 1024 || ext != ".png" {
		t.Fatalf("%s: %+v, %v", ext, c, err)
	}
	// One is enough for a test, since all have about the same size.
	if n := len(data); n < 2_000_000 || n > 2_600_000 {
		t.Errorf("%d bytes", n)
	}
}

// Other decoders can read every kind of file in a mixed set; one cycle through the kinds has
// every size.
func TestMixed(t *testing.T) {
	kinds := len(mixedKinds())
	m := newMaker(Options{Kind: Mixed, Seed: 2}, testTiles())
	sizes := map[image.Point]bool{}
	exts := map[string]int{}
	for i := range kinds {
		data, ext := m.image(i)
		ext = strings.ToLower(ext)
		exts[ext]++
		size, err := decodeAny(ext, data)
		if err != nil {
			t.Errorf("image %d, %s: %v", i, ext, err)
		}
		sizes[size] = true
	}
	for _, s := range mixedSizes {
		if !sizes[image.Pt(s[0], s[1])] {
			t.Errorf("no picture of %v", s)
		}
	}
	want := []string{".bmp", ".jpeg", ".jpg", ".pgm", ".png", ".ppm", ".webp"}
	if got := slices.Sorted(maps.Keys(exts)); !slices.Equal(got, want) {
		t.Errorf("extensions %v", exts)
	}
	for a, b := kinds, len(mixedSizes); b > 0; a, b = b, a%b {
		if b > 1 && a%b == 0 {
			t.Errorf("%d kinds and %d sizes have the factor %d in common", kinds, len(mixedSizes), b)
		}
	}
}

func decodeAny(ext string, data []byte) (image.Point, error) {
	decode := map[string]func(*bytes.Reader) (image.Image, error){
		".jpg":  func(r *bytes.Reader) (image.Image, error) { return jpeg.Decode(r) },
		".jpeg": func(r *bytes.Reader) (image.Image, error) { return jpeg.Decode(r) },
		".png":  func(r *bytes.Reader) (image.Image, error) { return png.Decode(r) },
		".bmp":  func(r *bytes.Reader) (image.Image, error) { return bmp.Decode(r) },
		".webp": func(r *bytes.Reader) (image.Image, error) { return webp.Decode(r) },
		".ppm":  decodePNM,
		".pgm":  decodePNM,
	}[ext]
	if decode == nil {
		return image.Point{}, fmt.Errorf("no reader for %s", ext)
	}
	img, err := decode(bytes.NewReader(data))
	if err != nil {
		return image.Point{}, err
	}
	return img.Bounds().Size(), nil
}

// decodePNM parses a header as the format describes it and checks the length.
func decodePNM(r *bytes.Reader) (image.Image, error) {
	data := make([]byte, r.Len())
	r.Read(data)
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
		return nil, fmt.Errorf("%v and %d bytes", tokens, len(data)-at-1)
	}
	return image.NewGray(image.Rect(0, 0, w, h)), nil
}

// Mixed pictures with an EXIF orientation are upright once it is applied.
func TestMixedOrientations(t *testing.T) {
	seen := map[int]bool{}
	for _, k := range jpegKinds() {
		seen[k.style.orientation] = true
	}
	if len(seen) != 9 {
		t.Errorf("orientations %v", seen)
	}
}

func TestFormats(t *testing.T) {
	var want []byte
	for _, f := range []string{"ppm", "jpeg", "png", "bmp", "webp"} {
		data, ext := newMaker(Options{Kind: Photo, Format: f}, testTiles()).image(0)
		size, err := decodeAny(ext, data)
		if err != nil || size != image.Pt(500, 375) || ext != extensions[f] {
			t.Errorf("format %s as %s: %v, %v", f, ext, size, err)
		}
		switch f {
		case "ppm":
			want = data[len(data)-3*500*375:]
		case "png":
			img, _ := png.Decode(bytes.NewReader(data))
			comparePixels(t, f, img, 500, 375, want)
		}
	}
	if len(extensions) != 5 || len(Formats()) != 5 {
		t.Errorf("formats %v, extensions %v", Formats(), extensions)
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
	if err := Write(context.Background(), Options{Dir: dir, Images: 2, Classes: 10, Kind: Mixed}); err != nil {
		t.Fatal(err)
	}
	entries, _ := os.ReadDir(dir)
	if len(entries) != 2 {
		t.Errorf("entries %v", entries)
	}
	n := newNames(Options{Images: 2_000_000, Classes: 1500})
	if got := n.file(1_999_999, ".jpg"); got != "class-0499/1999999.jpg" {
		t.Errorf("file %s", got)
	}
}

func TestProgress(t *testing.T) {
	last := 0
	o := Options{Dir: t.TempDir(), Images: 9, Kind: Mixed, Workers: 3, Progress: func(done, total int) {
		if done != last+1 || total != 9 {
			t.Errorf("%d of %d after %d", done, total, last)
		}
		last = done
	}}
	if err := Write(context.Background(), o); err != nil || last != 9 {
		t.Errorf("%d done, %v", last, err)
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
	for field, o := range map[string]Options{
		"dir":     {Images: 1},
		"images":  {Dir: "x"},
		"classes": {Dir: "x", Images: 1, Classes: -1},
		"workers": {Dir: "x", Images: 1, Workers: -1},
		"kind":    {Dir: "x", Images: 1, Kind: 9},
		"format":  {Dir: "x", Images: 1, Format: "gif"},
		"format:": {Dir: "x", Images: 1, Format: "png", Kind: Mixed},
	} {
		err := Write(context.Background(), o)
		if err == nil || !strings.Contains(err.Error(), "gen: "+field) || !strings.Contains(err.Error(), "got") {
			t.Errorf("%+v: %v", o, err)
		}
		if _, err := os.Stat("x"); err == nil {
			t.Fatal("a directory was made")
		}
	}
}

// A cancelled dataset leaves nothing behind.
func TestCancel(t *testing.T) {
	parent := t.TempDir()
	kept := filepath.Join(parent, "kept")
	os.Mkdir(kept, 0o755)
	for _, dir := range []string{filepath.Join(parent, "new"), kept} {
		ctx, cancel := context.WithCancel(context.Background())
		err := Write(ctx, Options{Dir: dir, Images: 1000, Kind: Mixed, Classes: 2, Workers: 2, Progress: func(done, _ int) {
			if done == 3 {
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

// While a dataset is being made, only a hidden directory is visible.
func TestNothingHalfDone(t *testing.T) {
	dir := t.TempDir()
	o := Options{Dir: dir, Images: 6, Kind: Mixed, Classes: 2, Progress: func(int, int) {
		entries, _ := os.ReadDir(dir)
		if len(entries) != 1 || entries[0].Name()[0] != '.' {
			t.Errorf("seen in the making: %v", entries)
		}
	}}
	if err := Write(context.Background(), o); err != nil {
		t.Fatal(err)
	}
	entries, _ := os.ReadDir(dir)
	if len(entries) != 2 || entries[0].Name() != "class-000" {
		t.Errorf("made %v", entries)
	}
}

func TestParseKind(t *testing.T) {
	for _, k := range []Kind{Photo, Cityscape, Mixed} {
		if got, ok := ParseKind(k.String()); !ok || got != k {
			t.Errorf("%v: %v, %v", k, got, ok)
		}
	}
	if _, ok := ParseKind("unknown"); ok || Kind(7).String() != "unknown" {
		t.Error("a kind that does not exist has a name")
	}
}

// Scenes must work at any size, and stay inside the canvas.
func TestScenesAtAnySize(t *testing.T) {
	p := painter{tiles: testTiles()}
	for _, size := range [][2]int{{48, 48}, {49, 300}, {300, 50}, {333, 217}} {
		for s := range scenes {
			for round := range 2 {
				p.photo(uint64(size[0]), s+round*len(scenes), size[0], size[1])
			}
		}
	}
}

func TestTilesWrap(t *testing.T) {
	soft := testTiles().soft
	for i := range tileSize {
		if d := int(soft[i][0]) - int(soft[i][tileMask]); d < -20 || d > 20 {
			t.Fatalf("row %d jumps by %d at its edge", i, d)
		}
		if d := int(soft[0][i]) - int(soft[tileMask][i]); d < -20 || d > 20 {
			t.Fatalf("column %d jumps by %d at its edge", i, d)
		}
	}
}

// Apart from the shared noise, a photo needs no memory beyond the worker's.
func TestPhotosAllocateLittle(t *testing.T) {
	m := newMaker(Options{Kind: Photo, Seed: 1}, testTiles())
	i := 0
	next := func() { m.image(i % len(scenes)); i++ }
	for range scenes {
		next()
	}
	if n := testing.AllocsPerRun(2*len(scenes), next); n > 60 {
		t.Errorf("%v allocations an image", n)
	}
}

func BenchmarkPhoto(b *testing.B)     { benchmarkKind(b, Photo) }
func BenchmarkCityscape(b *testing.B) { benchmarkKind(b, Cityscape) }
func BenchmarkMixed(b *testing.B)     { benchmarkKind(b, Mixed) }

func benchmarkKind(b *testing.B, kind Kind) {
	m := newMaker(Options{Kind: kind, Seed: 1}, testTiles())
	i, bytes := 0, 0
	for b.Loop() {
		data, _ := m.image(i)
		i++
		bytes += len(data)
	}
	b.ReportMetric(float64(bytes)/float64(i), "bytes/image")
	b.ReportMetric(float64(i)/b.Elapsed().Seconds(), "images/s")
}
