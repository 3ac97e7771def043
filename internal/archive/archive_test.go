package archive

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/batchfs/batchfs/internal/testkit"
)

// expectation is what the format's own software reads from an archive of testdata.
type expectation struct {
	Kind    string   `json:"kind"`
	Ordered bool     `json:"ordered"`
	Classes []string `json:"classes"`
	Samples []struct {
		Name  string `json:"name"`
		Label int64  `json:"label"`
		Class string `json:"class"`
		Size  int    `json:"size"`
		CRC   uint32 `json:"crc"`
	} `json:"samples"`
}

func expected(t testing.TB) map[string]expectation {
	t.Helper()
	var all map[string]expectation
	text, err := os.ReadFile("testdata/expected.json")
	if err == nil {
		err = json.Unmarshal(text, &all)
	}
	if err != nil || len(all) == 0 {
		t.Fatalf("%d archives, %v", len(all), err)
	}
	return all
}

func read(t testing.TB, name string) []byte {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("testdata", name))
	if errors.Is(err, os.ErrNotExist) { // one that is mostly zeros
		var f *os.File
		if f, err = os.Open(filepath.Join("testdata", name+".gz")); err == nil {
			defer f.Close()
			var z *gzip.Reader
			if z, err = gzip.NewReader(f); err == nil {
				b, err = io.ReadAll(z)
			}
		}
	}
	testkit.Must(t, err)
	return b
}

func scan(name string, b []byte, o Options) (*Contents, error) {
	return Scan(context.Background(), name, bytes.NewReader(b), int64(len(b)), o)
}

// sample returns the bytes of a sample, as a reader of the archive would.
func sample(t testing.TB, archive []byte, s Sample) []byte {
	t.Helper()
	stored := archive[s.Offset:][:s.Length:s.Length]
	dst := make([]byte, s.Room())
	b, err := s.Unpack(dst, stored)
	if err != nil {
		t.Fatalf("%s: %v", s.Name, err)
	}
	if int64(len(b)) != s.Size {
		t.Fatalf("%s: %d bytes, but the size is %d", s.Name, len(b), s.Size)
	}
	return b
}

// TestAgainstOthers: the samples are those that the format's own software reads, in the same order.
func TestAgainstOthers(t *testing.T) {
	for name, want := range expected(t) {
		for _, block := range []int{0, 1 << 20} {
			archive := read(t, name)
			got, err := scan(name, archive, Options{Block: block})
			if err != nil {
				t.Errorf("%s: %v", name, err)
				continue
			}
			var wants, gots []string
			for _, s := range want.Samples {
				wants = append(wants, fmt.Sprintln(s.Name, s.Label, s.Class, s.Size, s.CRC))
			}
			for i, s := range got.Samples {
				b := []byte{}
				if got.Problems[i] == "" {
					b = sample(t, archive, s)
				}
				gots = append(gots, fmt.Sprintln(s.Name, s.Label, s.Class, len(b), crc32.ChecksumIEEE(b)))
			}
			if diff := cmp.Diff(wants, gots); diff != "" || got.Kind != want.Kind || got.Ordered != want.Ordered || !cmp.Equal(got.Classes, want.Classes) {
				t.Errorf("%s: %s, ordered %v, classes %q; want -, got +\n%s", name, got.Kind, got.Ordered, got.Classes, diff)
			}
		}
	}
}

func TestRefused(t *testing.T) {
	for name, want := range map[string]string{
		"encrypted.zip":    "encrypted",
		"list.parquet":     "no column holds",
		"fraction.parquet": "label 0.5 is not a whole number",
		"paths.parquet":    "no column holds the bytes of images",
		"prefix.parquet":   "DELTA_BYTE_ARRAY",
	} {
		_, err := scan(name, read(t, name), Options{})
		if !errors.Is(err, ErrBad) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, name := range []string{"a.tar.gz", "dir.x/A.TGZ", "a.tar.zst", "x.mds.br"} {
		if _, err := scan(name, nil, Options{}); !Is(name) || err == nil || !strings.Contains(err.Error(), "unpack it") {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, name := range []string{"a.jpg", "tar", "dir.tar/x", "", "train-1-of-2", "train-00000-of-01024/x",
		"a.array_record-00000-of-00001", "train-00000-of-01024.txt"} {
		if _, err := scan(name, nil, Options{}); Is(name) || !errors.Is(err, ErrBad) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestNumbered: a shard of records without an extension is recognized by its number.
func TestNumbered(t *testing.T) {
	b := recordOf(featureOf("image", bytesOf("pixels")))
	got, err := scan("d.x/train-00000-of-01024", b, Options{})
	if err != nil || got.Kind != "tfrecord" || len(got.Samples) != 1 || !Is("train-00000-of-01024") {
		t.Errorf("%+v, %v", got, err)
	}
	if kind := ExtensionKey("d.x/train-00000-of-01024"); kind != "tfrecord" {
		t.Error(kind)
	}
	if _, err := scan("train-00000-of-01024", []byte("no records, but text"), Options{}); !errors.Is(err, ErrBad) {
		t.Error(err)
	}
}

// TestProblems: a file that an archive does not hold as it is keeps its place among the samples.
func TestProblems(t *testing.T) {
	for name, want := range map[string]map[string]string{
		"odd-gnu.tar":   {"sparse.jpg": "--sparse", "symlink.jpg": "--dereference", "whole.jpg": "", "zlink.jpg": "--dereference"},
		"odd-posix.tar": {"sparse.jpg": "--sparse", "symlink.jpg": "--dereference", "whole.jpg": "", "zlink.jpg": "--dereference"},
	} {
		got, err := scan(name, read(t, name), Options{})
		if err != nil || len(got.Samples) != len(want) {
			t.Errorf("%s: %v, %v", name, got, err)
			continue
		}
		for i, s := range got.Samples {
			if reason := got.Problems[i]; want[s.Name] == "" != (reason == "") || !strings.Contains(reason, want[s.Name]) {
				t.Errorf("%s: %s: %q", name, s.Name, reason)
			}
		}
	}
}

// failing is a reader with an error of its own from some offset on.
type failing struct {
	*bytes.Reader
	from int64
	err  error
}

func (f failing) ReadAt(p []byte, off int64) (int, error) {
	if off+int64(len(p)) > f.from {
		return 0, f.err
	}
	return f.Reader.ReadAt(p, off)
}

// TestReader: an error of the storage, and a context that ends, are not the archive's fault.
func TestReader(t *testing.T) {
	away := errors.New("away")
	cancelled, cancel := context.WithCancel(context.Background())
	cancel()
	for name := range expected(t) {
		b := read(t, name)
		for from := int64(0); from < int64(len(b)); from += int64(len(b))/8 + 1 {
			_, err := Scan(context.Background(), name, failing{bytes.NewReader(b), from, away}, int64(len(b)), Options{})
			if err != nil && (!errors.Is(err, away) || errors.Is(err, ErrBad)) || err == nil && from == 0 {
				t.Errorf("%s: %v", name, err)
			}
		}
		if _, err := Scan(cancelled, name, bytes.NewReader(b), int64(len(b)), Options{}); err != context.Canceled {
			t.Errorf("%s: %v", name, err)
		}
		_, err := Scan(context.Background(), name, bytes.NewReader(nil), int64(len(b)), Options{})
		if !errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, ErrBad) {
			t.Errorf("%s: an object that became shorter: %v", name, err)
		}
	}
}

func label(s Sample) string { return fmt.Sprint(s.Label) }
