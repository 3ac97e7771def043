package archive

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"testing"
	"time"

	"github.com/parquet-go/parquet-go"
)

// largeTar is a WebDataset whose images take no memory: the n-th of them begins at n times stride.
type largeTar struct {
	n, body int64
	image   []byte // the header of all images, whose name differs
	label   []byte // the header and the text of a label
}

func newLargeTar(n, body int64) *largeTar {
	entry := func(name string, size int64) []byte {
		var b bytes.Buffer
		if err := tar.NewWriter(&b).WriteHeader(&tar.Header{Name: name, Size: size, Mode: 0o644, ModTime: time.Unix(0, 0), Format: tar.FormatUSTAR}); err != nil {
			panic(err)
		}
		return b.Bytes()
	}
	label := append(entry("00000000.cls", 2), make([]byte, 512)...)
	copy(label[512:], "17")
	return &largeTar{n, (body + 511) / 512 * 512, entry("00000000.jpg", body), label}
}

func (l *largeTar) stride() int64 { return 512 + l.body + 1024 }
func (l *largeTar) size() int64   { return l.n*l.stride() + 1024 }

// ReadAt makes what is asked for.
func (l *largeTar) ReadAt(p []byte, off int64) (int, error) {
	for n := 0; n < len(p); {
		at := off + int64(n)
		i, within := at/l.stride(), at%l.stride()
		if at >= l.size() {
			return n, io.EOF
		}
		var part []byte
		switch {
		case i >= l.n:
			part = make([]byte, l.size()-at)
		case within < 512:
			part = l.named(l.image, i)[within:]
		case within < 512+l.body:
			k := min(int64(len(p)-n), 512+l.body-within)
			clear(p[n:][:k])
			n += int(k)
			continue
		default:
			part = l.named(l.label, i)[within-512-l.body:]
		}
		n += copy(p[n:], part)
	}
	return len(p), nil
}

// named is a header for the n-th sample, with its checksum.
func (l *largeTar) named(header []byte, i int64) []byte {
	b := bytes.Clone(header)
	copy(b, fmt.Appendf(nil, "%08d", i))
	copy(b[148:156], "        ")
	sum := 0
	for _, c := range b[:512] {
		sum += int(c)
	}
	copy(b[148:156], fmt.Appendf(nil, "%06o\x00 ", sum))
	return b
}

// counting counts the reads of an archive.
type counting struct {
	io.ReaderAt
	reads, bytes int64
}

func (c *counting) ReadAt(p []byte, off int64) (int, error) {
	c.reads++
	c.bytes += int64(len(p))
	return c.ReaderAt.ReadAt(p, off)
}

// TestReads: few reads with a large block, few bytes with a small one.
func TestReads(t *testing.T) {
	l := newLargeTar(500, 100_000)
	for _, c := range []struct{ block, reads, bytes int64 }{
		{0, 2 * l.n, 8 << 10 * l.n},
		{4 << 20, l.size()/(4<<20) + 2, l.size() + 4<<20},
	} {
		r := &counting{ReaderAt: l}
		passed := int64(0)
		o := Options{Block: int(c.block), Progress: func(done, total int64) {
			if done < passed || total != l.size() {
				t.Errorf("%d of %d after %d", done, total, passed)
			}
			passed = done
		}}
		got, err := Scan(context.Background(), "a.tar", r, l.size(), o)
		if err != nil || got.Kind != "webdataset" || len(got.Samples) != int(l.n) {
			t.Fatalf("%v, %v", got, err)
		}
		if r.reads > c.reads || r.bytes > c.bytes || passed == 0 {
			t.Errorf("blocks of %d: %d reads, %d bytes", c.block, r.reads, r.bytes)
		}
		for i, s := range got.Samples {
			if s.Name != fmt.Sprintf("%08d.jpg", i) || s.Label != 17 || s.Offset != int64(i)*l.stride()+512 || s.Size != 100_000 {
				t.Fatalf("%d: %+v", i, s)
			}
		}
	}
}

// TestMemory: an entry takes less than 200 bytes.
func TestMemory(t *testing.T) {
	const n = 20_000
	l := newLargeTar(n, 1)
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	got, err := Scan(context.Background(), "a.tar", l, l.size(), Options{Block: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	if per := (int64(after.HeapAlloc) - int64(before.HeapAlloc)) / n; per >= 200 {
		t.Errorf("%d bytes for each of %d entries", per, n)
	} else {
		t.Logf("%d bytes for each of %d entries", per, n)
	}
	runtime.KeepAlive(got)
}

// TestTablesOfContentsAreCharged: what libraries keep of directories and footers is counted before
// it is read, as about what it is. (A race detector adds some of its own.)
func TestTablesOfContentsAreCharged(t *testing.T) {
	const entries = 20_000
	var zipped, rows bytes.Buffer
	z := zip.NewWriter(&zipped)
	p := parquet.NewGenericWriter[struct {
		Image []byte `parquet:"image"`
		A, B  string
	}](&rows)
	for i := range entries {
		if _, err := z.CreateHeader(&zip.FileHeader{Name: fmt.Sprint(i)}); err != nil {
			t.Fatal(err)
		}
		if i%20 == 0 {
			if err := p.Flush(); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := p.Write(make([]struct {
			Image []byte `parquet:"image"`
			A, B  string
		}, 1)); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(z.Close(), p.Close()); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		data []byte
		open func(r *bytes.Reader) (any, error)
	}{
		"a.zip":     {zipped.Bytes(), func(r *bytes.Reader) (any, error) { return zip.NewReader(r, r.Size()) }},
		"a.parquet": {rows.Bytes(), func(r *bytes.Reader) (any, error) { return parquet.OpenFile(r, r.Size()) }},
	} {
		var before, after runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		opened, err := c.open(bytes.NewReader(c.data))
		runtime.GC()
		runtime.ReadMemStats(&after)
		runtime.KeepAlive(opened)
		if err != nil {
			t.Fatal(err)
		}
		used, charged := int64(after.HeapAlloc)-int64(before.HeapAlloc), int64(0)
		if _, err := scan(name, c.data, Options{Memory: func(n int64) error { charged += n; return nil }}); err != nil {
			t.Fatal(err)
		}
		if charged < used*2/3 || charged > 4*used+(1<<20) {
			t.Errorf("%s: %d bytes were charged, %d are used", name, charged, used)
		}
	}
}

func BenchmarkTar(b *testing.B) {
	l := newLargeTar(10_000, 100_000)
	for b.Loop() {
		if _, err := Scan(context.Background(), "a.tar", l, l.size(), Options{}); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/20_000, "ns/entry")
}
