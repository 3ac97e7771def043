package layout

import (
	"encoding/json"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/batchfs/batchfs/internal/testkit"
)

// arraySpec is a batch with two arrays of each type: one of fixed shape, one Ragged.
func arraySpec(n int) Spec {
	var list []Array
	for i, t := range arrayTypes {
		a := Array{Name: t.name + "-" + strconv.Itoa(i), Type: t, Shape: []int{i % 4, 3}[i%2:]}
		if i%3 == 1 {
			a.Ragged, a.Offsets = true, []int64{0}
			for k := range n {
				a.Offsets = append(a.Offsets, a.Offsets[k]+int64((k+i)%4))
			}
		}
		list = append(list, a)
	}
	s := spec(n, 5, 7, 3, Uint8, NHWC)
	return s.WithTargets(Targets{Arrays: &list, HasMasks: true, Masks: Uint8, Boxes: true, Rows: 3, Text: true, Line: 5})
}

// putArrays writes a file of a batch with a pattern in place of the elements of each array.
func putArrays(f Form, s Spec) []byte {
	file := make([]byte, Size(f, s))
	rows := &Rows{Offsets: make([]int64, s.N+1), Boxes: make([][4]float32, 3), Labels: make([]int64, 3), IDs: make([]int64, 3), Flags: make([]uint8, 3)}
	PutHeader(f, s, file, Meta{Rows: rows})
	for i := range *s.Targets.Arrays {
		at, bytes := InSafeTensors(ArrayForm(i), s)
		if f == ArrayForm(i) {
			at = DataOffset(f, s)
		} else if f != SafeTensors {
			continue
		}
		for k := range bytes {
			file[at+k] = byte(k+int64(i)) & 1
		}
	}
	return file
}

// TestArraysRead: NumPy and safetensors read arrays correctly: dtypes, shapes and elements, each at
// a multiple of its size.
func TestArraysRead(t *testing.T) {
	interpreter := testkit.Python(t, "numpy", "safetensors")
	const script = `
import json, os, sys, numpy as np
from safetensors import safe_open
dir = sys.argv[1]
for k in range(3):
    p = os.path.join(dir, str(k))
    raw = open(p + ".safetensors", "rb").read()
    start = 8 + int.from_bytes(raw[:8], "little")
    header = json.loads(raw[8:start])
    said = json.load(open(p + ".json"))
    with safe_open(p + ".safetensors", framework="np") as f:
        for i, (name, shape, offsets) in enumerate(said):
            a = np.load(f"{p}.{name}.npy")
            dtype = np.dtype(name.split("-")[0])
            assert a.dtype == dtype and a.flags.c_contiguous and list(a.shape) == shape, (k, name, a.dtype, a.shape)
            assert np.array_equal(np.frombuffer(a.tobytes(), "u1"), (np.arange(a.nbytes) + i) & 1), (k, name)
            b = f.get_tensor(name)
            assert b.dtype == dtype and b.shape == a.shape and b.tobytes() == a.tobytes(), (k, name, b.dtype)
            assert (start + header[name]["data_offsets"][0]) % dtype.itemsize == 0, (k, name)
            if offsets is not None:
                c = np.load(f"{p}.{name}.offsets.npy")
                assert c.dtype == np.int64 and c.tolist() == offsets == f.get_tensor(name + ".offsets").tolist(), (k, name)
print("all good")
`
	dir := t.TempDir()
	for k, n := range []int{4, 1, 0} {
		s := arraySpec(n)
		write(t, dir, k, ".safetensors", putArrays(SafeTensors, s))
		var said []any
		for i, a := range *s.Targets.Arrays {
			write(t, dir, k, "."+s.Targets.Names().Ext(ArrayForm(i)), putArrays(ArrayForm(i), s))
			if a.Ragged {
				file := AppendNPY(nil, ArrayOffsets(i), s, Meta{})
				if int64(len(file)) != Size(ArrayOffsets(i), s) {
					t.Errorf("offsets have %d bytes, not %d", len(file), Size(ArrayOffsets(i), s))
				}
				write(t, dir, k, "."+s.Targets.Names().Ext(ArrayOffsets(i)), file)
			}
			said = append(said, []any{a.Name, a.shape(n), a.Offsets})
		}
		text, err := json.Marshal(said)
		testkit.Must(t, err)
		write(t, dir, k, ".json", text)
	}
	out, err := exec.Command(interpreter, "-c", script, dir).CombinedOutput()
	if err != nil || !strings.Contains(string(out), "all good") {
		t.Fatalf("%v\n%s", err, out)
	}
}

func write(t *testing.T, dir string, k int, ext string, data []byte) {
	t.Helper()
	testkit.Must(t, os.WriteFile(filepath.Join(dir, strconv.Itoa(k)+ext), data, 0o644))
}

// TestArrayForms: there are enough forms for all arrays, and they are distinct.
func TestArrayForms(t *testing.T) {
	s := arraySpec(2)
	names, seen := s.Targets.Names(), map[string]bool{}
	for _, f := range s.Targets.Forms() {
		ext := names.Ext(f)
		if back, ok := names.Parse(ext); !ok || back != f || seen[ext] {
			t.Errorf("%q is %v, %v", ext, back, ok)
		}
		seen[ext] = true
		name := string(names.AppendName(nil, 17, f))
		if batch, back, ok := names.ParseBatchName(name); !ok || batch != 17 || back != f || name != "batch-00017."+ext {
			t.Errorf("%q is %d, %v, %v", name, batch, back, ok)
		}
		if _, _, ok := noArrays.ParseBatchName(name); ok == f.IsArray() {
			t.Errorf("%q without names: %v", name, ok)
		}
		i, elements := f.Array()
		if elements != (f.IsArray() && f == ArrayForm(i)) || f.IsArray() && (f.Large() != elements || !f.IsTarget()) {
			t.Errorf("%q has the elements of array %d: %v", ext, i, elements)
		}
	}
	for i, a := range *s.Targets.Arrays {
		if !seen[a.Name+".npy"] || seen[a.Name+".offsets.npy"] != a.Ragged {
			t.Errorf("array %d has other forms", i)
		}
	}
	if s.Targets.Has(ArrayForm(len(names))) || ArrayForm(MaxArrays) != NumForms {
		t.Error("there are other forms of arrays")
	}
	if a := (*s.Targets.Arrays)[4]; a.String() != "uint16-4 uint16 [*, 0, 3]" {
		t.Error(a.String())
	}
}

func TestArrayNames(t *testing.T) {
	if err := (Names{"embedding", "A-1", "_x", "offsets", "m"}).Check(); err != nil {
		t.Error(err)
	}
	for _, bad := range []string{"", "a.b", "a/b", "a b", "ä", strings.Repeat("a", 101), "masks", "boxes", "keypoints", "text", "labels", "ids", "sizes", "valid", "images", "npy", "__metadata__"} {
		if err := (Names{"good", bad}).Check(); err == nil || !strings.Contains(err.Error(), "give the column") {
			t.Errorf("%q: %v", bad, err)
		}
	}
	if err := make(Names, MaxArrays+1).Check(); err == nil || !strings.Contains(err.Error(), "17, of at most 16") {
		t.Error(err)
	}
}

// TestHugeArrays: a batch with more bytes than a file can have still reports a size.
func TestHugeArrays(t *testing.T) {
	float, _ := parseArrayType("<f8")
	for _, a := range []Array{
		{Name: "a", Type: float, Shape: []int{1 << 59}}, {Name: "a", Type: float, Shape: []int{1 << 40, 1 << 18}},
		{Name: "a", Type: float, Ragged: true, Offsets: []int64{0, 1 << 59, 1 << 60}},
	} {
		s := spec(2, 0, 0, 0, Uint8, NHWC).WithTargets(Targets{Arrays: &[]Array{a}})
		if s.Err() == nil || Size(ArrayForm(0), s) != math.MaxInt64 || Size(SafeTensors, s) != math.MaxInt64 {
			t.Errorf("%v: %v, %d bytes", a, s.Err(), Size(ArrayForm(0), s))
		}
		if a.Ragged && Size(ArrayOffsets(0), s) != smallHeader+24 {
			t.Errorf("offsets have %d bytes", Size(ArrayOffsets(0), s))
		}
	}
	fits := spec(2, 0, 0, 0, Uint8, NHWC).WithTargets(Targets{Arrays: &[]Array{{Name: "a", Type: float, Shape: []int{1 << 50}}}})
	if fits.Err() != nil || Size(ArrayForm(0), fits) != Page+1<<54 {
		t.Error(fits.Err(), Size(ArrayForm(0), fits))
	}
	if _, known := parseArrayType("<f3"); known {
		t.Error("float24 is a type")
	}
}
