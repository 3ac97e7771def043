package convert

import (
	"bytes"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/batchfs/batchfs/internal/testkit"
)

// TestManifests: for every format and every kind of labels, the result's manifest has the same
// samples with the same labels in the same order, and lies in one directory with its files.
func TestManifests(t *testing.T) {
	dir := t.TempDir()
	for name, data := range map[string][]byte{
		"d/x.jpg":           pngOf(t, 4, 4, false),
		"d/x.png":           pngOf(t, 5, 3, true),
		"d/y":               pngOf(t, 3, 3, false),
		"d/sub/x.bmp":       bmpOf(t, 2, 2),
		"d/sub/frame.0001":  pngOf(t, 6, 2, false),
		"d/sub/frame.0002":  pngOf(t, 2, 6, false),
		"d/with, \"q\n.png": pngOf(t, 1, 9, false),
		"d/bad.png":         []byte("no image"),
		"d/outside/o.png":   pngOf(t, 2, 3, false),
		"d/caf\xe9.png":     pngOf(t, 2, 2, false), // names may contain any bytes, if the format can hold them
		"e/x.png":           pngOf(t, 8, 8, false),
	} {
		write(t, filepath.Join(dir, name), data)
	}
	inside := []string{"x.jpg", "x.png", "y", "sub/x.bmp", "sub/frame.0002", "sub/frame.0001", "with, \"q\n.png", "bad.png", "x.jpg", "outside/o.png"}
	leaving := append(slices.Clone(inside), "../e/x.png", filepath.Join(dir, "e/x.png"), "../d/y")
	anyBytes := append(slices.Clone(inside), "caf\xe9.png")
	for _, test := range []struct {
		name   string
		paths  []string
		labels []string // "" for none; cycled through
	}{
		{"names.csv", anyBytes, []string{"dog", "cat", "", "ant, \"b\""}},
		{"numbers.csv", inside, []string{"7", "-1", "", "3.0"}},
		{"none.csv", leaving, []string{""}},
		{"names.jsonl", leaving, []string{"\"7\"", "\"3\"", "\"<a>\"", "null"}},
		{"numbers.jsonl", inside, []string{"7", "3", "null"}},
		{"names.parquet", anyBytes, []string{"7", "cat", ""}},
		{"numbers.parquet", leaving, []string{"7", "0", ""}},
	} {
		t.Run(test.name, func(t *testing.T) {
			path := filepath.Join(dir, "d", test.name)
			write(t, path, manifestOf(t, test.name, test.paths, test.labels))
			for _, ratio := range []float64{0.4, 1} {
				out, r := convert(t, path, Options{Shares: Shares{Raw: ratio}, Format: PPM, Manifest: path})
				if r.Manifest != filepath.Join(out, test.name) {
					t.Fatalf("the manifest is %s", r.Manifest)
				}
				is := open(t, r.Manifest)
				was := open(t, path)
				sameSamples(t, was, is)
				if !slices.Equal(was.Classes, is.Classes) || (was.Classes == nil) != (is.Classes == nil) {
					t.Errorf("classes %q became %q", was.Classes, is.Classes)
				}
				onlySamples(t, out, is, test.name)
				if len(r.Unreadable) != 1 || r.Unreadable[0].Path != "bad.png" {
					t.Errorf("unreadable: %+v", r.Unreadable)
				}
			}
		})
	}
}

func manifestOf(t *testing.T, name string, paths, labels []string) []byte {
	t.Helper()
	var b bytes.Buffer
	label := func(i int) string { return labels[i%len(labels)] }
	switch filepath.Ext(name) {
	case ".jsonl":
		for i, p := range paths {
			fmt.Fprintf(&b, "{\"path\":%q,\"label\":%s}\n", p, label(i))
		}
	default:
		r := func(write func(row) error) error {
			for i, p := range paths {
				var l any
				if n, err := strconv.ParseInt(label(i), 10, 64); err == nil && !strings.HasPrefix(name, "names") {
					l = n
				} else if label(i) != "" {
					l = label(i)
				}
				if err := write(row{path: p, label: l}); err != nil {
					return err
				}
			}
			return nil
		}
		write := writeCSV
		if filepath.Ext(name) == ".parquet" {
			write = writeParquet
		}
		testkit.Must(t, write(&b, &table{named: strings.HasPrefix(name, "names")}, r))
	}
	return b.Bytes()
}

// TestManifestMissing: a missing file keeps its row.
func TestManifestMissing(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "d/x.png"), pngOf(t, 2, 2, false))
	path := filepath.Join(dir, "list.csv")
	write(t, path, []byte("path,label,height,width,format\nnone/x.png,1,,,\nd/x.png,2,2,2,png\ngone.png,3,5,5,png\n"))
	_, r := convert(t, path, Options{Shares: Shares{Raw: 1}, Manifest: path})
	if r.Symlinked != 2 || len(r.Unreadable) != 2 || r.Converted != 1 {
		t.Errorf("reported %+v", r)
	}
	is := open(t, r.Manifest)
	if is.Len() != 3 || is.Label(0) != 1 || is.Path(1) != "d/x.png.bmp" || is.Label(2) != 3 || is.Problem(2) == "" {
		t.Errorf("%s of %+v", is.Path(1), is.Report)
	}
}
