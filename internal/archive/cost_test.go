package archive

import (
	"archive/zip"
	"bytes"
	"errors"
	"fmt"
	"runtime"
	"testing"

	"github.com/parquet-go/parquet-go"

	"github.com/batchfs/batchfs/internal/testkit"
)

// TestReads: few reads with a large block, few bytes with a small one.
func TestReads(t *testing.T) {
	const n = 500
	tar, _ := photos(t, n, 100_000)
	size := int64(len(tar))
	for _, c := range []struct{ block, reads, bytes int64 }{{0, 2 * n, 8 << 10 * n}, {4 << 20, size/(4<<20) + 2, size + 4<<20}} {
		r, passed, bytes := &tracedReader{Reader: bytes.NewReader(tar)}, int64(0), int64(0)
		got, err := Scan(t.Context(), "a.tar", r, size, Options{Block: int(c.block), Progress: func(done, total int64) {
			if done < passed || total != size {
				t.Errorf("%d of %d after %d", done, total, passed)
			}
			passed = done
		}})
		if err != nil || got.Kind != "webdataset" || len(got.Samples) != n || got.Samples[17].Label != 17 {
			t.Fatalf("%v, %v", got, err)
		}
		for _, s := range r.reads {
			bytes += s.To - s.From
		}
		if int64(len(r.reads)) > c.reads || bytes > c.bytes || passed == 0 {
			t.Errorf("blocks of %d: %d reads, %d bytes", c.block, len(r.reads), bytes)
		}
	}
}

// inUse is what has been allocated and is still in use.
func inUse() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// TestMemory: an entry takes less than 200 bytes.
func TestMemory(t *testing.T) {
	const n = 20_000
	var files []string
	for i := range n {
		files = append(files, fmt.Sprintf("%08d.jpg", i), "x", fmt.Sprintf("%08d.cls", i), "17")
	}
	tar := tarOf(t, files...)
	before := inUse()
	got, err := scan("a.tar", tar, Options{Block: 1 << 20})
	testkit.Must(t, err)
	if per := (inUse() - before) / n; per >= 200 {
		t.Errorf("%d bytes for each of %d entries", per, n)
	} else {
		t.Logf("%d bytes for each of %d entries", per, n)
	}
	for _, kept := range []any{got, files, tar} {
		runtime.KeepAlive(kept)
	}
}

// TestTablesOfContentsAreCharged: memory that libraries keep for directories and footers is charged
// before it is used, at about its size. (A race detector adds some of its own.)
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
			testkit.Must(t, p.Flush())
		}
		if _, err := p.Write(make([]struct {
			Image []byte `parquet:"image"`
			A, B  string
		}, 1)); err != nil {
			t.Fatal(err)
		}
	}
	testkit.Must(t, errors.Join(z.Close(), p.Close()))
	for name, c := range map[string]struct {
		data []byte
		open func(r *bytes.Reader) (any, error)
	}{
		"a.zip":     {zipped.Bytes(), func(r *bytes.Reader) (any, error) { return zip.NewReader(r, r.Size()) }},
		"a.parquet": {rows.Bytes(), func(r *bytes.Reader) (any, error) { return parquet.OpenFile(r, r.Size()) }},
	} {
		before := inUse()
		opened, err := c.open(bytes.NewReader(c.data))
		used, charged := inUse()-before, int64(0)
		runtime.KeepAlive(opened)
		testkit.Must(t, err)
		if _, err := scan(name, c.data, Options{Memory: func(n int64) error { charged += n; return nil }}); err != nil {
			t.Fatal(err)
		}
		if charged < used*2/3 || charged > 4*used+(1<<20) {
			t.Errorf("%s: %d bytes were charged, %d are used", name, charged, used)
		}
	}
}
