package archive

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/batchfs/batchfs/internal/testkit"
)

// inspect fails if samples were found that cannot exist, and unpacks some.
func inspect(t testing.TB, archive []byte, got *Contents, err error) {
	t.Helper()
	if err != nil {
		if !errors.Is(err, ErrBad) {
			t.Fatal(err)
		}
		return
	}
	names := map[string]bool{}
	for i, s := range got.Samples {
		if names[s.Name] || s.Name == "" || s.Name[0] == '/' || slices.Contains(strings.Split(s.Name, "/"), "..") {
			t.Fatalf("sample %d is named %q", i, s.Name)
		}
		names[s.Name] = true
		if s.Label < -1 || got.Problems[i] == "" && !s.Within(int64(len(archive))) {
			t.Fatalf("sample %d: %+v", i, s)
		}
		if i > 20 || s.Room() > 1<<20 {
			continue
		}
		b, err := s.Unpack(make([]byte, s.Room()), archive[s.Offset:][:s.Length])
		if err == nil && int64(len(b)) != s.Size || err != nil && !errors.Is(err, ErrBad) {
			t.Fatalf("sample %d: %d bytes of %d, %v", i, len(b), s.Size, err)
		}
	}
	for i := range got.Problems {
		if i < 0 || i >= len(got.Samples) || got.Samples[i].Place != (Place{}) {
			t.Fatalf("problem of sample %d of %d", i, len(got.Samples))
		}
	}
}

// TestDamaged: changed bytes and a missing end lead to an error, or to a possible result.
func TestDamaged(t *testing.T) {
	dice := rand.New(rand.NewPCG(1, 2))
	rounds := 60
	if testing.Short() {
		rounds = 10
	}
	for name := range expected(t) {
		archive := read(t, name)
		if len(archive) > 1<<20 { // FuzzBeton has small ones
			continue
		}
		for range rounds {
			bad := bytes.Clone(archive)
			for range 1 + dice.IntN(4) {
				at := dice.IntN(len(bad))
				if dice.IntN(2) == 0 { // where most formats describe themselves
					at = len(bad) - 1 - dice.IntN(min(len(bad), 2048))
				}
				bad[at] = byte(dice.Uint32())
			}
			if dice.IntN(2) == 0 {
				bad = bad[:dice.IntN(len(bad))]
			}
			got, err := scan(name, bad, Options{})
			inspect(t, bad, got, err)
		}
	}
}

// TestClaims: an archive's claims take no memory until its content supports them.
func TestClaims(t *testing.T) {
	u32 := binary.LittleEndian.AppendUint32
	u64 := binary.LittleEndian.AppendUint64
	beton := smallBeton(1)
	samples, table := bytes.Clone(beton), bytes.Clone(beton)
	binary.LittleEndian.PutUint64(samples[8:], 1<<40)
	table = append(table, make([]byte, 1000)...)
	record := u64(nil, 1<<40)
	for name, archive := range map[string][]byte{
		"a.mds":      u32(nil, 1<<31),
		"b.mds":      append(u32(u32(u32(nil, 1), 12), 1<<30), "{}"...),
		"a.mds.zstd": []byte("\x28\xb5\x2f\xfd\xa0\xff\xff\xff\x3f\x01\x00\x00"),
		"a.beton":    samples,
		"b.beton":    table,
		"a.tfrecord": append(u32(record, masked(record)), "xxxx"...),
		"a.parquet":  append(append([]byte("PAR1"), make([]byte, 100)...), "\xff\xff\xff\x7fPAR1"...),
		"a.zip":      append(append([]byte("PK\x06\x06"), make([]byte, 60)...), "PK\x05\x06\x00\x00\x00\x00\xff\xff\xff\xff\xff\xff\xff\xff\x00\x00\x00\x00\x00\x00"...),
		"b.parquet":  parquetOf(t, make([]noImage, 200_000)),
	} {
		var err error
		n := testkit.Allocated(func() { _, err = scan(name, archive, Options{}) })
		if !errors.Is(err, ErrBad) || n > 8<<20 {
			t.Errorf("%s: %d MiB were allocated, %v", name, n>>20, err)
		}
	}
}

// noImage is a row that takes almost no bytes.
type noImage struct {
	Image []byte `parquet:"image,optional"`
}

// smallBeton is a beton without the pages that FFCV's writer leaves mostly empty.
func smallBeton(n int) []byte {
	le := binary.LittleEndian
	b := le.AppendUint16(le.AppendUint16(nil, 2), 2)
	b = le.AppendUint32(b, 1<<21)
	b = le.AppendUint64(b, uint64(n))
	pixels := betonHeader + 2*betonField + 24*n
	b = le.AppendUint64(b, uint64(pixels+6*n))
	for _, f := range []struct {
		kind byte
		name string
	}{{betonImage, "image"}, {betonInt, "label"}} {
		field := make([]byte, betonField)
		field[0] = f.kind
		copy(field[1:], f.name)
		b = append(b, field...)
	}
	for i := range n {
		b = append(b, byte(i%2)) // JPEG or pixels
		b = le.AppendUint16(le.AppendUint16(b, 2), 1)
		b = le.AppendUint64(b, uint64(pixels+6*i))
		b = append(b, 0, 0, 0)
		b = le.AppendUint64(b, uint64(i))
	}
	for i := range 6 * n {
		b = append(b, byte(i))
	}
	for i := range n {
		b = le.AppendUint64(le.AppendUint64(le.AppendUint64(b, uint64(i)), uint64(pixels+6*i)), 6)
	}
	return b
}

func TestBeton(t *testing.T) {
	b := smallBeton(3)
	got, err := scan("a.beton", b, Options{})
	if err != nil || len(got.Samples) != 3 {
		t.Fatalf("%+v, %v", got, err)
	}
	if s := string(sample(t, b, got.Samples[1])); s != "P6\n2 1\n255\n\x06\x07\x08\x09\x0a\x0b" {
		t.Errorf("%q", s)
	}
	for at, want := range map[int]string{
		0:                               "version",
		betonHeader + betonField:        "not known",
		betonHeader + 2*betonField + 5:  "its data",
		betonHeader + 2*betonField + 24: "neither JPEG nor pixels",
		betonHeader + 2*betonField + 25: "its pixels",
		betonHeader + 2*betonField + 23: "label -",
		len(b) - 1:                      "its data",
		betonHeader + 2*betonField + 31: "its data",
	} {
		bad := bytes.Clone(b)
		bad[at] |= 0xf8
		if _, err := scan("a.beton", bad, Options{}); !errors.Is(err, ErrBad) || !strings.Contains(err.Error(), want) {
			t.Errorf("byte %d: %v", at, err)
		}
	}
	for _, o := range []Options{{Image: "label"}, {Label: "image"}} {
		if _, err := scan("a.beton", b, o); err == nil || !strings.Contains(err.Error(), `["image" "label"]`) {
			t.Errorf("%+v: %v", o, err)
		}
	}
}

// TestOverlap: a small zip that claims to hold much because its files share bytes is refused.
func TestOverlap(t *testing.T) {
	b := read(t, "stored.zip")
	var first []byte
	for at := bytes.Index(b, []byte("PK\x01\x02")); at >= 0; {
		entry := b[at:]
		switch name := string(entry[46:][:le16(entry[28:])]); {
		case !IsImage(name) || Hidden(name):
		case first == nil:
			first = entry
		default:
			copy(entry[42:46], first[42:46])
			copy(entry[20:28], first[20:28])
		}
		next := bytes.Index(b[at+4:], []byte("PK\x01\x02"))
		if next < 0 {
			break
		}
		at += 4 + next
	}
	if _, err := scan("a.zip", b, Options{}); !errors.Is(err, ErrBad) || !strings.Contains(err.Error(), "overlap") {
		t.Error(err)
	}
}

// TestUnpackRefuses: changed bytes are noticed if the coding allows it, and never lead beyond the
// given memory.
func TestUnpackRefuses(t *testing.T) {
	for _, name := range []string{"deflated.zip", "snappy-v1.parquet", "gzip-v1.parquet", "zstd-v2.parquet", "lz4-v1.parquet", "brotli-v1.parquet", "jpeg.mds.zstd", "raw.beton", "wds-cls.tar"} {
		b := read(t, name)
		got, err := scan(name, b, Options{})
		testkit.Must(t, err)
		s := got.Samples[3]
		room := make([]byte, s.Room()+100)
		for what, p := range map[string]Place{
			"cut":      change(s.Place, func(p *Place) { p.Length-- }),
			"longer":   change(s.Place, func(p *Place) { p.Size++; p.Block-- }),
			"negative": change(s.Place, func(p *Place) { p.From = -1 }),
			"behind":   change(s.Place, func(p *Place) { p.From = p.Block + p.Size + 1 }),
			"coding":   change(s.Place, func(p *Place) { p.Coding = 99 }),
			"huge":     change(s.Place, func(p *Place) { p.Block = 1 << 50; p.Size = 1 << 50 }),
		} {
			clear(room)
			stored := b[p.Offset:][:max(0, p.Length)]
			if got, err := p.Unpack(room[:0:s.Room()], stored); err == nil || !errors.Is(err, ErrBad) {
				t.Errorf("%s, %s: %d bytes, %v", name, what, len(got), err)
			}
			if !bytes.Equal(room[s.Room():], make([]byte, 100)) {
				t.Errorf("%s, %s: it wrote behind the memory", name, what)
			}
		}
		if _, err := s.Unpack(room, b[s.Offset:][:s.Length-1]); !errors.Is(err, ErrBad) {
			t.Errorf("%s: %v", name, err)
		}
	}
	b := read(t, "deflated.zip")
	got, _ := scan("a.zip", b, Options{})
	for _, s := range got.Samples {
		if s.CRC++; s.Coding == Deflate {
			if _, err := s.Unpack(make([]byte, s.Room()), b[s.Offset:][:s.Length]); err == nil || !strings.Contains(err.Error(), "checksum") {
				t.Error(err)
			}
		}
	}
}

func change(p Place, f func(*Place)) Place {
	f(&p)
	return p
}

// TestNoAllocation: repeated unpacking allocates nothing, except for brotli, whose reader
// allocates.
func TestNoAllocation(t *testing.T) {
	if testkit.RaceDetector() {
		t.Skip("SKIPPED: the race detector empties pools")
	}
	for _, name := range []string{"deflated.zip", "snappy-v1.parquet", "gzip-v1.parquet", "zstd-v2.parquet", "lz4-v1.parquet", "raw.beton", "wds-cls.tar"} {
		b := read(t, name)
		got, err := scan(name, b, Options{})
		testkit.Must(t, err)
		s := got.Samples[3]
		room, stored := make([]byte, s.Room()), b[s.Offset:][:s.Length]
		if n := testing.AllocsPerRun(100, func() {
			if _, err := s.Unpack(room, stored); err != nil {
				t.Error(err)
			}
		}); n >= 1 {
			t.Errorf("%s: %v allocations for each sample", name, n)
		}
	}
}

// fuzz scans mutations of the archives of testdata with an extension.
func fuzz(f *testing.F, ext string, seeds ...[]byte) {
	for name := range expected(f) {
		if strings.HasSuffix(name, ext) || ext == ".tfrecord" && strings.Contains(name, ext) {
			if b := read(f, name); len(b) < 1<<20 {
				seeds = append(seeds, b)
			}
		}
	}
	if len(seeds) == 0 {
		f.Fatal("no seeds")
	}
	for _, b := range seeds {
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		got, err := scan("x"+ext, b, Options{})
		inspect(t, b, got, err)
	})
}

func FuzzTar(f *testing.F)      { fuzz(f, ".tar") }
func FuzzZip(f *testing.F)      { fuzz(f, ".zip") }
func FuzzParquet(f *testing.F)  { fuzz(f, ".parquet") }
func FuzzMDS(f *testing.F)      { fuzz(f, ".mds", read(f, "jpeg.mds.zstd")) }
func FuzzTFRecord(f *testing.F) { fuzz(f, ".tfrecord") }
func FuzzBeton(f *testing.F)    { fuzz(f, ".beton", smallBeton(3)) }
