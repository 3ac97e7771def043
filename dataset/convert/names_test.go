package convert

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/batchfs/batchfs/dataset"
)

func TestRawName(t *testing.T) {
	long := strings.Repeat("é", 126) // 252 bytes
	for _, test := range []struct {
		name    string
		variant uint16
		want    string
	}{
		{"x.jpg", 0, "x.bmp"},
		{"x.jpg", 1, "x.jpg.bmp"},
		{"x.jpg", 2, "x.jpg~1.bmp"},
		{"x.jpg", 3, "x.jpg-1.bmp"},
		{"x.jpg", 6, "x.jpg~2.bmp"},
		{"x.JPEG", 0, "x.bmp"},
		{"x.y.webp", 0, "x.y.bmp"},
		{"x", 0, "x.bmp"},
		{"frame.0001", 0, "frame.0001.bmp"},
		{".jpg", 0, ".jpg.bmp"},
		{long + ".jp", 0, strings.Repeat("é", 125) + ".bmp"},
		{long + "a", 2, strings.Repeat("é", 124) + "~1.bmp"},
		{strings.Repeat("\xa9", 255), 0, strings.Repeat("\xa9", 251) + ".bmp"},
	} {
		got := rawName(test.name, test.variant, ".bmp")
		if got != test.want || len(got) > maxName {
			t.Errorf("%q, %d: %q of %d bytes, want %q", test.name, test.variant, got, len(got), test.want)
		}
	}
}

// nameAll names the files of a directory as newTree does.
func nameAll(t testing.TB, exts, names, others []string, fixed map[string]bool) (map[string]uint16, int) {
	t.Helper()
	variants := map[string]uint16{}
	n := newNaming(exts, names, others)
	for k, name := range names {
		if fixed[name] {
			n.pass(name)
			continue
		}
		following := ""
		if k+1 < len(names) {
			following = names[k+1]
		}
		v, err := n.choose(name, following)
		if err != nil {
			t.Fatal(err)
		}
		variants[name] = v
	}
	return variants, n.moved
}

func TestNaming(t *testing.T) {
	for _, test := range []struct {
		names, others []string
		fixed         map[string]bool
		want          []string // as BMP
	}{
		{[]string{"a.jpg", "b.jpg"}, nil, nil, []string{"a.bmp", "b.bmp"}},
		{[]string{"x.jpg", "x.png"}, nil, nil, []string{"x.bmp", "x.png.bmp"}},
		{[]string{"x.bmp", "x.jpg"}, nil, map[string]bool{"x.bmp": true}, []string{"x.bmp", "x.jpg.bmp"}},
		{[]string{"x.bmp"}, nil, nil, []string{"x.bmp.bmp"}}, // a JPEG with that name
		{[]string{"x.jpg", "x.jpg.bmp"}, nil, map[string]bool{"x.jpg.bmp": true}, []string{"x.bmp", "x.jpg.bmp"}},
		{[]string{"x.bmp", "x.jpg", "x.jpg.bmp"}, nil, map[string]bool{"x.bmp": true, "x.jpg.bmp": true}, []string{"x.bmp", "x.jpg-1.bmp", "x.jpg.bmp"}},
		{[]string{"a.JPG", "a.bmp", "a.jpg", "a.jpg.png", "a.png"}, nil, map[string]bool{"a.bmp": true}, []string{"a.JPG.bmp", "a.bmp", "a.jpg-1.bmp", "a.jpg.png.bmp", "a.png.bmp"}},
		{[]string{"x.jpg", "x.jpg (1).jpg"}, []string{"x.bmp"}, nil, []string{"x.jpg !1.bmp", "x.jpg (1).bmp"}},
		{[]string{"x.jpg"}, []string{"x.bmp"}, nil, []string{"x.jpg.bmp"}}, // a directory
		{[]string{"X.jpg", "x.png"}, nil, nil, []string{"X.bmp", "x.png.bmp"}},
		{[]string{"x.d.jpg", "x.jpg"}, nil, nil, []string{"x.d.bmp", "x.jpg.bmp"}}, // x.bmp would sort first
		{[]string{"x.jpg", "x.jpg-1.jpg"}, nil, nil, []string{"x.bmp", "x.jpg-1.bmp"}},
		{[]string{"i.jpg", "i.jpg\xff"}, []string{"i.bmp"}, nil, []string{"i.jpg.bmp", "i.jpg\xff.bmp"}},
	} {
		variants, _ := nameAll(t, []string{".bmp"}, test.names, test.others, test.fixed)
		var got []string
		for _, name := range test.names {
			if test.fixed[name] {
				got = append(got, name)
			} else {
				got = append(got, rawName(name, variants[name], ".bmp"))
			}
		}
		if !slices.Equal(got, test.want) {
			t.Errorf("%q beside %q become %q, want %q", test.names, test.others, got, test.want)
		}
	}
}

// checkNames: whichever samples are raw, no two files of a directory share a name, ignoring
// case, no name is too long, and the order stays the same unless a name is unlucky.
func checkNames(t testing.TB, names []string, r *rand.Rand) {
	slices.SortFunc(names, dataset.CompareNames)
	names = slices.Compact(names)
	exts := [][]string{{".bmp"}, {".ppm", ".pgm"}}[r.IntN(2)]
	fixed := map[string]bool{}
	lower := map[string]string{}
	for _, name := range names {
		fixed[name] = r.IntN(4) == 0
		lower[strings.ToLower(name)] = name
	}
	variants, moved := nameAll(t, exts, names, nil, fixed)
	if moved > 0 && !unlucky(names) {
		t.Fatalf("%q: %d have no name that keeps the order", names, moved)
	}
	for _, name := range names {
		if fixed[name] {
			continue
		}
		for _, ext := range exts {
			raw := rawName(name, variants[name], ext)
			if other, ok := lower[strings.ToLower(raw)]; ok {
				t.Fatalf("%q of %q is also %q", raw, name, other)
			}
			if len(raw) > maxName || strings.Contains(raw, "/") {
				t.Fatalf("%q becomes %q", name, raw)
			}
			lower[strings.ToLower(raw)] = name
		}
	}
	for range 4 {
		var result []string
		for _, name := range names {
			if !fixed[name] && r.IntN(2) == 0 {
				name = rawName(name, variants[name], exts[r.IntN(len(exts))])
			}
			result = append(result, name)
		}
		if moved == 0 && !slices.IsSortedFunc(result, dataset.CompareNames) {
			t.Fatalf("%q become %q", names, result)
		}
	}
}

// unlucky says whether a directory has a name that cannot be extended: it has the maximum
// length, or what follows it in the next name sorts before everything that could be appended.
func unlucky(names []string) bool {
	for k, name := range names {
		if len(name) > maxName-len(" !1000.bmp") {
			return true
		}
		if k+1 < len(names) && strings.HasPrefix(names[k+1], name) && names[k+1][len(name):] < " \"" {
			return true
		}
	}
	return false
}

func TestNamesAreUniqueAndInOrder(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	parts := []string{"x", "X", "y", ".", "-", "~", "!", " ", " (", "1", ".jpg", ".JPG", ".png", ".bmp", ".ppm", "\x01", "\xff", "\xc3", "\xa9", "é"}
	for range 10000 {
		var names []string
		for range 1 + r.IntN(9) {
			name := ""
			for range 1 + r.IntN(4) {
				name += parts[r.IntN(len(parts))]
			}
			if name != "." && name != ".." {
				names = append(names, name)
			}
		}
		checkNames(t, names, r)
	}
}

// TestUsualNames: in a directory of common names the natural raw name is always free.
func TestUsualNames(t *testing.T) {
	var names []string
	for i := range 2000 {
		names = append(names, fmt.Sprintf("n%08d_%d.JPEG", i%7, i*i))
	}
	slices.Sort(names)
	variants, moved := nameAll(t, []string{".bmp"}, names, nil, nil)
	for name, v := range variants {
		if v != 0 || moved != 0 {
			t.Fatalf("%s becomes %s", name, rawName(name, v, ".bmp"))
		}
	}
}

func FuzzNames(f *testing.F) {
	f.Add("x.jpg/x.png/x.bmp/x.jpg.bmp", uint64(1))
	f.Add("a.jpg/A.jpg/a.b.jpg/a-b.jpg", uint64(2))
	f.Fuzz(func(t *testing.T, list string, seed uint64) {
		var names []string
		for name := range strings.SplitSeq(list, "/") {
			if name != "" && name != "." && name != ".." && len(name) <= maxName {
				names = append(names, name)
			}
		}
		checkNames(t, names, rand.New(rand.NewPCG(seed, 0)))
	})
}
