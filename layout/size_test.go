package layout

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

func metaFor(n int) Meta {
	m := Meta{Valid: max(0, n-1)}
	for i := range n {
		m.Labels = append(m.Labels, int64(i%3)-1)
		m.IDs = append(m.IDs, int64(i)<<33+7)
		m.Sizes = append(m.Sizes, [2]int32{int32(100 + i), int32(200 - i)})
	}
	return m
}

// writeFile makes a whole tensor file: pixels first, then the header, as in the engine. The
// header's memory is dirty before, and nothing after it may change.
func writeFile(t testing.TB, f Form, s Spec, m Meta) (file, pixels []byte) {
	t.Helper()
	file = bytes.Repeat([]byte{0xAA}, int(Size(f, s)))
	at := DataOffset(f, s)
	rng := rand.New(rand.NewPCG(1, uint64(s.N)))
	for i := range file[at:] {
		file[int(at)+i] = byte(rng.Uint32())
	}
	pixels = slices.Clone(file[at:])
	PutHeader(f, s, file, m)
	if !bytes.Equal(pixels, file[at:]) {
		t.Errorf("%v %v: the header changed the pixels", f, s)
	}
	if n := s.N * s.H * s.W * s.C * s.DType.Size(); len(pixels) != n || s.Bytes() != int64(n) {
		t.Errorf("%v %v: room for %d bytes of pixels, want %d", f, s, len(pixels), n)
	}
	if at%Page != 0 {
		t.Errorf("%v %v: pixels at %d", f, s, at)
	}
	return file, pixels
}

// spec is NewSpec for batches that can exist.
func spec(n, h, w, c int, dtype DType, order Order) Spec {
	s, err := NewSpec(n, h, w, c, dtype, order)
	if err != nil {
		panic(err)
	}
	return s
}

func specs() []Spec {
	var all []Spec
	for d := Uint8; d <= Float32; d++ {
		for _, o := range []Order{NHWC, NCHW} {
			for _, c := range []int{1, 3} {
				all = append(all,
					spec(3, 75, 101, c, d, o), spec(1, 1, 1, c, d, o), spec(7, 13, 1, c, d, o),
					spec(0, 375, 500, c, d, o), spec(0, 0, 0, c, d, o))
			}
		}
	}
	return append(all, spec(1000, 2, 3, 3, Uint8, NHWC), spec(170, 5, 7, 3, Uint8, NHWC), spec(169, 5, 7, 3, Uint8, NCHW))
}

func TestHeaders(t *testing.T) {
	for _, s := range specs() {
		checkHeaders(t, s)
	}
}

func FuzzHeaders(f *testing.F) {
	f.Add(uint16(32), uint16(3), uint16(5), uint8(3), uint8(0), false)
	f.Add(uint16(0), uint16(0), uint16(0), uint8(1), uint8(3), true)
	f.Fuzz(func(t *testing.T, n, h, w uint16, c, d uint8, planar bool) {
		s := Spec{N: int(n % 512), H: int(h), W: int(w), C: int(c%4) + 1, DType: DType(d % 4)}
		if planar {
			s.Order = NCHW
		}
		if s.Bytes() > 1<<22 {
			t.Skip("more memory than a fuzzer should touch")
		}
		checkHeaders(t, s)
	})
}

func checkHeaders(t *testing.T, s Spec) {
	t.Helper()
	m := metaFor(s.N)
	checkNPY(t, s, m)
	checkSafeTensors(t, s, m)
	checkSmall(t, s, m)
	for _, f := range []Form{NHWCForm, NCHWForm} {
		file, pixels := writeFile(t, f, s, m)
		if !bytes.Equal(file, pixels) {
			t.Errorf("%v %v has a header", f, s)
		}
	}
	if n := Size(JSON, s); n != -1 {
		t.Errorf("Size(JSON) = %d", n)
	}
}

func checkNPY(t *testing.T, s Spec, m Meta) {
	t.Helper()
	file, _ := writeFile(t, NPY, s, m)
	if s.DType == BFloat16 { // which NumPy does not have
		file = bytes.Replace(file, []byte("'<V2'"), []byte("'<f2'"), 1)
	}
	h, err := ReadNPYHeader(file, int64(len(file)))
	shape := s.Shape()
	if want := []string{"uint8", "float16", "float16", "float32"}[s.DType]; err != nil || h.Bytes != 4096 || h.Type.String() != want || !slices.Equal(h.Shape, shape[:]) {
		t.Errorf("%v: read back as %+v, %v", s, h, err)
	}
}

func checkSmall(t *testing.T, s Spec, m Meta) {
	t.Helper()
	valid := make([]bool, s.N)
	for i := range m.Valid {
		valid[i] = true
	}
	for form, c := range map[Form]struct {
		dtype  string
		shape  []int
		values any
	}{
		Valid: {"bool", []int{s.N}, valid}, Labels: {"int64", []int{s.N}, m.Labels}, IDs: {"int64", []int{s.N}, m.IDs}, Sizes: {"int32", []int{s.N, 2}, m.Sizes},
	} {
		file := AppendNPY(nil, form, s, m)
		want, _ := binary.Append(nil, binary.LittleEndian, c.values)
		h, err := ReadNPYHeader(file, Size(form, s))
		if err != nil || h.Bytes%64 != 0 || h.Type.String() != c.dtype || !slices.Equal(h.Shape, c.shape) || !bytes.Equal(file[h.Bytes:], want) {
			t.Errorf("%v %v: read back as %+v, %v, or with other values", form, s, h, err)
		}
	}
}

// TestNPYSpelling: headers are spelled as NumPy spells them.
func TestNPYSpelling(t *testing.T) {
	want := "\x93NUMPY\x01\x00\x76\x00{'descr': '<i8', 'fortran_order': False, 'shape': (3,), }"
	if got := AppendNPY(nil, Labels, Spec{N: 3}, Meta{})[:128]; strings.TrimRight(string(got), " \n") != want || got[127] != '\n' {
		t.Errorf("%q", got)
	}
}

type tensorEntry struct {
	DType   string   `json:"dtype"`
	Shape   []int    `json:"shape"`
	Offsets [2]int64 `json:"data_offsets"`
}

func checkSafeTensors(t *testing.T, s Spec, m Meta) {
	t.Helper()
	file, pixels := writeFile(t, SafeTensors, s, m)
	start := 8 + int64(binary.LittleEndian.Uint64(file))
	var header map[string]json.RawMessage
	if err := json.Unmarshal(file[8:start], &header); err != nil || file[8] != '{' {
		t.Fatalf("%v: header %q: %v", s, file[8:start], err)
	}
	if got := string(header["__metadata__"]); got != `{"layout":"`+s.Order.String()+`"}` {
		t.Errorf("%v: metadata %s", s, got)
	}
	delete(header, "__metadata__")
	shape := s.Shape()
	want := []struct {
		name, dtype string
		elem        int64
		shape       []int
	}{
		{"labels", "I64", 8, []int{s.N}}, {"ids", "I64", 8, []int{s.N}}, {"sizes", "I32", 4, []int{s.N, 2}},
		{"valid", "I64", 8, []int{1}}, {"images", []string{"U8", "F16", "BF16", "F32"}[s.DType], Page, shape[:]},
	}
	if len(header) != len(want) {
		t.Errorf("%v: tensors %v", s, header)
	}
	data, end := map[string][]byte{}, int64(0)
	for _, w := range want {
		var e tensorEntry
		if err := json.Unmarshal(header[w.name], &e); err != nil {
			t.Fatalf("%v: %s: %v", s, w.name, err)
		}
		if e.DType != w.dtype || !slices.Equal(e.Shape, w.shape) || e.Offsets[0] != end || (start+end)%w.elem != 0 {
			t.Errorf("%v: %s is %+v after byte %d of data that starts at %d", s, w.name, e, end, start)
		}
		data[w.name], end = file[start+e.Offsets[0]:start+e.Offsets[1]], e.Offsets[1]
	}
	if start+end != int64(len(file)) {
		t.Errorf("%v: tensors end at %d of %d", s, start+end, len(file))
	}
	all, _ := binary.Append(nil, binary.LittleEndian, m.Labels)
	all, _ = binary.Append(all, binary.LittleEndian, m.IDs)
	all, _ = binary.Append(all, binary.LittleEndian, m.Sizes)
	all, _ = binary.Append(all, binary.LittleEndian, int64(m.Valid))
	if !bytes.Equal(all, file[start:len(file)-len(pixels)]) || !bytes.Equal(data["images"], pixels) {
		t.Errorf("%v: tensors hold other values", s)
	}
}

// Slices that are too short must not stop a header from being written.
func TestShortMeta(t *testing.T) {
	s := Spec{N: 3, H: 1, W: 1, C: 3}
	file := make([]byte, Size(SafeTensors, s))
	PutHeader(SafeTensors, s, file, Meta{Labels: []int64{5}, Valid: 2})
	at := DataOffset(SafeTensors, s) - 8*10
	want, _ := binary.Append(nil, binary.LittleEndian, []int64{5, -1, -1, -1, -1, -1, 0, 0, 0, 2})
	if !bytes.Equal(file[at:DataOffset(SafeTensors, s)], want) {
		t.Errorf("got %v", file[at:])
	}
}

func TestAppendKeepsWhatWasThere(t *testing.T) {
	s, m := Spec{N: 2}, Meta{Labels: []int64{1, 1}, Sizes: [][2]int32{{2, 3}}, Valid: 1}
	got := bytes.Repeat([]byte{7}, 1000)[:1] // memory that was used before
	for _, f := range []Form{Labels, Sizes, Valid} {
		got = AppendNPY(got, f, s, m)
	}
	want := slices.Concat([]byte{7}, AppendNPY(nil, Labels, s, m), AppendNPY(nil, Sizes, s, m), AppendNPY(nil, Valid, s, m))
	if !bytes.Equal(got, want) {
		t.Error("appending changed the result")
	}
}

func TestPad(t *testing.T) {
	for _, c := range []struct {
		doc  string
		size int
		want string
	}{
		{"{}", 4, "{}  "}, {"{}", 2, "{}"}, {"", 2, "  "}, {"", 0, ""},
	} {
		doc := append(make([]byte, 0, 16), c.doc...)
		copy(doc[:cap(doc)][len(doc):], "dirty dirty dirty")
		got, err := Pad(doc, c.size)
		if err != nil || string(got) != c.want {
			t.Errorf("Pad(%q, %d) = %q, %v", c.doc, c.size, got, err)
		}
	}
	if got, err := Pad([]byte("{}\n"), 2); err == nil {
		t.Errorf("a document that is too long became %q", got)
	}
}
