package archive

import (
	"archive/zip"
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/klauspost/compress/snappy"
	"github.com/klauspost/compress/zstd"

	"github.com/batchfs/batchfs/internal/testkit"
)

// zipOf writes a zip with headers as they are given.
func zipOf(t *testing.T, headers ...zip.FileHeader) []byte {
	t.Helper()
	var b bytes.Buffer
	w := zip.NewWriter(&b)
	for _, h := range headers {
		f, err := w.CreateRaw(&h)
		if err == nil && !strings.HasSuffix(h.Name, "/") {
			_, err = f.Write([]byte("x"))
		}
		testkit.Must(t, err)
	}
	testkit.Must(t, w.Close())
	return b.Bytes()
}

func stored(name string) zip.FileHeader {
	return zip.FileHeader{Name: name, CompressedSize64: 1, UncompressedSize64: 1}
}

func TestZip(t *testing.T) {
	unix := stored(`b\c.jpg`)
	unix.CreatorVersion = 3 << 8
	link := stored("l.jpg")
	link.SetMode(0o777 | 1<<27) // fs.ModeSymlink
	b := zipOf(t, stored(`a\b.jpg`), unix, link, stored("a/b.jpg"), stored("dir.jpg/"), stored(".a/x.jpg"), stored("x.txt"))
	got, err := scan("a.zip", b, Options{})
	testkit.Must(t, err)
	var names []string
	for i, s := range got.Samples {
		names = append(names, s.Name+" "+got.Problems[i])
	}
	want := []string{`b\c.jpg `, "l.jpg it is a link; write the archive without -y", "a/b.jpg "}
	if diff := cmp.Diff(want, names); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(map[string]int{".": 1, "txt": 1}, got.Ignored); diff != "" {
		t.Error(diff)
	}
}

func TestBadZip(t *testing.T) {
	deflated := func(packed, size uint64) zip.FileHeader {
		return zip.FileHeader{Name: "a.jpg", Method: zip.Deflate, CompressedSize64: packed, UncompressedSize64: size}
	}
	method := func(m uint16) zip.FileHeader {
		h := stored("m.jpg")
		h.Method = m
		return h
	}
	differ := stored("a.jpg")
	differ.UncompressedSize64 = 2
	for want, b := range map[string][]byte{
		"with method 14, which": zipOf(t, stored("a.jpg"), method(14)),
		"with method 93, which": zipOf(t, method(93)),
		`"12.jpg": it is compr`: read(t, "methods.zip"),
		"leads out":             zipOf(t, stored("../a.jpg")),
		"NUL":                   zipOf(t, stored("a\x00.jpg")),
		"sizes 1 and 2 make no": zipOf(t, differ),
		"sizes 1 and 107374182": zipOf(t, deflated(1, maxBlock+1)),
		"outside":               zipOf(t, deflated(1, 1<<20)), // more than one byte can hold
		"sizes 18446744073709":  zipOf(t, deflated(1<<64-1, 1)),
		"lies outside of":       zipOf(t, deflated(100, 1)),
	} {
		if got, err := scan("a.zip", b, Options{}); !errors.Is(err, ErrBad) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %+v, %v", want, got, err)
		}
	}
}

// TestBombs: a block that holds more than it should is refused without making room for it.
func TestBombs(t *testing.T) {
	zeros := make([]byte, 64<<20)
	encoder, err := zstd.NewWriter(nil)
	testkit.Must(t, err)
	for coding, b := range map[Coding][]byte{Snappy: snappy.Encode(nil, zeros), Zstd: encoder.EncodeAll(zeros, nil)} {
		p := Place{Length: int64(len(b)), Block: 100, Size: 100, Coding: coding}
		var err error
		if n := testkit.Allocated(func() { _, err = p.Unpack(make([]byte, 100), b) }); !errors.Is(err, ErrBad) || n > 16<<20 {
			t.Errorf("coding %d: %d MiB were allocated, %v", coding, n>>20, err)
		}
		if p.Block, p.Size, p.Length = maxBlock+1, 1, maxBlock; p.Within(maxBlock) {
			t.Errorf("coding %d: a block of %d bytes is accepted", coding, p.Block)
		}
	}
}
