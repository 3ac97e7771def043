package dataset

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/batchfs/batchfs/internal/testkit"
)

// oddNames sort differently by bytes, by code points or by length, or break naive handling of
// paths.
var oddNames = []string{
	"a", "a-b", "a b", "a.b", "a/", "B", "b", "a\nb", "a,b", `a"b`, `a\b`, "é", "e\u0301", "\U0001F600",
	"\uFFFD", "\uE000", "\uD7FF", "\xff", "\xc3", "\xc3\xa9\xff", "\xed\xb3\xbf", "\xf0\x9f", "z", "0", "10", "9", "~", "$x", "日本", "a\tb", "'", " ",
}

// FuzzCompareNames compares CompareNames with a comparison of the fully decoded strings.
func FuzzCompareNames(f *testing.F) {
	for _, a := range oddNames {
		for _, b := range oddNames {
			for _, pre := range []string{"", "x", "\xc3", "é", "\xf0\x9f\x98"} {
				f.Add(pre+a, pre+b)
			}
		}
	}
	decode := func(s string) []rune {
		var runes []rune
		for s != "" {
			r, n := pythonRune(s)
			runes, s = append(runes, r), s[n:]
		}
		return runes
	}
	f.Fuzz(func(t *testing.T, a, b string) {
		if got, want := CompareNames(a, b), slices.Compare(decode(a), decode(b)); got != want || CompareNames(b, a) != -want {
			t.Errorf("CompareNames(%q, %q) = %d, decoded: %d", a, b, got, want)
		}
	})
}

const torchvisionScript = `
import os, sys
try:
    from torchvision.datasets.folder import ImageFolder, find_classes, make_dataset, IMG_EXTENSIONS
except ImportError:
    sys.exit(77)
for root in sys.argv[1:]:
    root = os.fsdecode(os.fsencode(root))
    try:
        data = ImageFolder(root)
    except FileNotFoundError as e:
        # With allow_empty, which some versions lack, labels are those of find_classes.
        classes, labels = find_classes(root)
        print("refused", *[os.fsencode(c).hex() for c in classes])
        full = {c: l for c, l in labels.items() if c != "empty"}
        for path, label in make_dataset(root, full, IMG_EXTENSIONS):
            print(os.fsencode(os.path.relpath(path, root)).hex(), label)
        continue
    print("root", *[os.fsencode(c).hex() for c in data.classes])
    for path, label in data.samples:
        print(os.fsencode(os.path.relpath(path, root)).hex(), label)
`

// TestOrderIsTorchvisions lists random trees with torchvision itself.
func TestOrderIsTorchvisions(t *testing.T) {
	const python = "/usr/bin/python3" // the distribution's Python, for which torchvision is packaged
	const trees = 6
	var places []*place
	args := []string{"-c", torchvisionScript}
	for seed := range trees {
		p := newPlace(t)
		growTree(p, rand.New(rand.NewPCG(uint64(seed), 1)))
		if seed == trees-1 {
			p.write("empty/readme.txt", "") // refused, unless allow_empty is given
		}
		places = append(places, p)
		args = append(args, p.root)
	}
	cmd := exec.Command(python, args...)
	cmd.Env = append(os.Environ(), "PYTHONUTF8=1")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if code := cmd.ProcessState.ExitCode(); code == 77 || errors.Is(err, fs.ErrNotExist) {
		t.Skipf("SKIPPED: no %s with torchvision (Debian: apt-get install python3-torchvision)", python)
	}
	if err != nil {
		t.Fatalf("torchvision: %v\n%s", err, stderr.String())
	}
	var got strings.Builder
	samples := 0
	for _, p := range places {
		d := p.open("")
		if slices.Equal(d.Report.EmptyClasses, []string{"empty"}) {
			got.WriteString("refused")
		} else {
			got.WriteString("root")
		}
		for _, c := range d.Classes {
			got.WriteString(" " + hex.EncodeToString([]byte(c)))
		}
		got.WriteByte('\n')
		for i := range d.Len() {
			fmt.Fprintf(&got, "%s %d\n", hex.EncodeToString([]byte(d.Path(i))), d.Label(i))
		}
		samples += d.Len()
	}
	equal(t, strings.Split(string(out), "\n"), strings.Split(got.String(), "\n"), "torchvision against dataset")
	if samples < 200 {
		t.Errorf("only %d samples in the trees: they test too little", samples)
	}
}

// growTree makes class directories with odd names, nested directories, links, and files of
// other kinds.
func growTree(p *place, r *rand.Rand) {
	extensions := []string{".jpg", ".JPEG", ".Png", ".ppm", ".pgm", ".bmp", ".webp", ".txt", ".jpgx", ""}
	name := func() string {
		n := oddNames[r.IntN(len(oddNames))] + oddNames[r.IntN(len(oddNames))]
		return strings.ReplaceAll(n, "/", "+")
	}
	elsewhere := filepath.Join(filepath.Dir(p.root), "elsewhere")
	testkit.Must(p.t, os.MkdirAll(filepath.Join(elsewhere, "in"), 0o755))
	for _, f := range []string{"x.jpg", "in/y.png"} {
		testkit.Must(p.t, os.WriteFile(filepath.Join(elsewhere, f), nil, 0o644))
	}
	var fill func(dir string, depth int)
	fill = func(dir string, depth int) {
		for range 1 + r.IntN(8) {
			p.write(filepath.Join(dir, name()+extensions[r.IntN(len(extensions))]), image("png", 3, 4, 1))
		}
		for range r.IntN(3) {
			if depth < 3 {
				fill(filepath.Join(dir, "d"+name()), depth+1)
			}
		}
	}
	for k := range 3 + r.IntN(3) {
		class := fmt.Sprintf("%s%d", name(), k)
		p.images(class + "/some.jpg")
		fill(class, 0)
		p.link("some.jpg", class+"/link"+name()+".jpg")
		p.link("nowhere", class+"/broken"+name()+".jpg")
		p.link(elsewhere, class+"/e"+name())
	}
	p.link(elsewhere, "linked class")
	p.images("beside.jpg")
	p.write("readme.txt", "")
}

func TestLayouts(t *testing.T) {
	for name, c := range map[string]struct {
		files   []string
		paths   []string
		labels  []int
		classes []string
		ignored map[string]int
		empty   []string
	}{
		"classes": {
			files:   []string{"b/1.jpg", "a/2.PNG", "a/10.webp", "a/1.tif", "x.jpg", "a/.h.jpg", ".git/y.jpg", "a/.d/z.jpg"},
			paths:   []string{"a/10.webp", "a/2.PNG", "b/1.jpg"},
			labels:  []int{0, 0, 1},
			classes: []string{"a", "b"},
			ignored: map[string]int{"tif": 1, "jpg": 1, ".": 1},
		},
		"empty class keeps its label": {
			files:   []string{"a/1.jpg", "b/readme", "c/1.jpg"},
			paths:   []string{"a/1.jpg", "c/1.jpg"},
			labels:  []int{0, 2},
			classes: []string{"a", "b", "c"},
			ignored: map[string]int{"": 1},
			empty:   []string{"b"},
		},
		"directories by path, before their files by name": {
			files:   []string{"a/b/1.jpg", "a/b-c/1.jpg", "a/z.jpg", "a/b/c/1.jpg"},
			paths:   []string{"a/z.jpg", "a/b/1.jpg", "a/b-c/1.jpg", "a/b/c/1.jpg"},
			labels:  []int{0, 0, 0, 0},
			classes: []string{"a"},
		},
		"flat": {
			files:   []string{"2.jpg", "10.jpg", "é.bmp", "notes/readme.TXT", "x.thumbnails", "x.az09", "x.eightext", "x.ninetexts", "x.a`", "x.a{", "x.a:"},
			paths:   []string{"10.jpg", "2.jpg", "é.bmp"},
			labels:  []int{-1, -1, -1},
			ignored: map[string]int{"txt": 1, "az09": 1, "eightext": 1, "other": 5},
		},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPlace(t)
			p.images(c.files...)
			d := p.open("")
			equal(t, c.paths, paths(d), "paths")
			equal(t, c.labels, labels(d), "labels")
			equal(t, c.classes, d.Classes, "classes")
			equal(t, c.ignored, d.Report.IgnoredBy, "ignored")
			equal(t, c.empty, d.Report.EmptyClasses, "classes without samples")
			if d.Report.Samples != len(c.paths) || d.Report.Classes != len(c.classes) {
				t.Errorf("report %+v", d.Report)
			}
		})
	}
}
