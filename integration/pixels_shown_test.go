package integration

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"testing"

	"github.com/batchfs/batchfs/layout"
)

// A slot is a sample in a batch's document, under any look.
type slot struct {
	ID            int64
	Path          string
	Label         int64
	Height, Width int32
	Crop          [4]float64
	Flip          bool
	Status        string
}

// A shown batch is a batch as the mount shows it: its document, and the tensor in both
// orders.
type shown struct {
	Shard, Epoch, Batch int
	Shape               [4]int
	DType, Layout       string
	Seed                uint64
	Valid               int
	Samples             []slot

	spec       layout.Spec
	nhwc, nchw []byte
}

// show reads a batch in every form that has its pixels or their sizes, and checks that they
// agree.
func (m *mounted) show(t testing.TB, l look, shard, epoch, batch int) *shown {
	t.Helper()
	b := &shown{}
	b.nhwc = m.form(t, shard, epoch, batch, layout.NHWCForm)
	if err := json.Unmarshal(m.form(t, shard, epoch, batch, layout.JSON), b); err != nil {
		t.Fatal(err)
	}
	b.spec = layout.Spec{N: b.Shape[0], H: b.Shape[1], W: b.Shape[2], C: b.Shape[3], DType: l.dtype}
	if l.nchw {
		b.spec.C, b.spec.H, b.spec.W = b.Shape[1], b.Shape[2], b.Shape[3]
	}
	if b.Shard != shard || b.Epoch != epoch || b.Batch != batch || b.DType != l.dtype.String() || b.Layout != layoutName(l.settings) ||
		b.Seed != l.seed || b.spec.C != l.channels() || len(b.Samples) != b.spec.N || len(b.nhwc) != int(b.spec.Bytes()) {
		t.Fatalf("%d bytes of %+v", len(b.nhwc), b)
	}
	b.nchw = planesOf(b.nhwc, b.spec)
	if err := m.sameForms(t, l, b); err != nil {
		t.Fatalf("shard %d, epoch %d, batch %d: %v", shard, epoch, batch, err)
	}
	return b
}

// form reads a file of a batch and checks its size against stat.
func (m *mounted) form(t testing.TB, shard, epoch, batch int, f layout.Form) []byte {
	t.Helper()
	path := m.path(shard, epoch, batch, f)
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if int64(len(data)) != info.Size() {
		t.Fatalf("%s has %d bytes, but stat says %d", path, len(data), info.Size())
	}
	return data
}

// planesOf returns the elements of a tensor in order nchw.
//
//go:norace
func planesOf(nhwc []byte, s layout.Spec) []byte {
	size, out := s.DType.Size(), make([]byte, 0, len(nhwc))
	for n := range s.N {
		for c := range s.C {
			for p := range s.H * s.W {
				out = append(out, nhwc[((n*s.H*s.W+p)*s.C+c)*size:][:size]...)
			}
		}
	}
	return out
}

// numpyTypes are the names of the element types in .npy files.
var numpyTypes = map[layout.DType]string{layout.Uint8: "|u1", layout.Float16: "<f2", layout.BFloat16: "<V2", layout.Float32: "<f4"}

// sameForms compares the other forms with the tensor in order nhwc and the document.
func (m *mounted) sameForms(t testing.TB, l look, b *shown) error {
	t.Helper()
	read := func(f layout.Form) []byte { return m.form(t, b.Shard, b.Epoch, b.Batch, f) }
	if err := sameBytes(read(layout.NCHWForm), b.nchw); err != nil {
		return fmt.Errorf("nchw: %w", err)
	}
	own := b.nhwc
	if l.nchw {
		own = b.nchw
	}
	if err := sameArray(read(layout.NPY), numpyTypes[l.dtype], b.Shape, own, 4096); err != nil {
		return fmt.Errorf("npy: %w", err)
	}
	meta := layout.Meta{Valid: b.Valid}
	for _, s := range b.Samples {
		meta.Labels, meta.IDs = append(meta.Labels, s.Label), append(meta.IDs, s.ID)
		meta.Sizes = append(meta.Sizes, [2]int32{s.Height, s.Width})
	}
	if err := sameArray(read(layout.Sizes), "<i4", []int{b.spec.N, 2}, littleEndian(meta.Sizes), 0); err != nil {
		return fmt.Errorf("sizes: %w", err)
	}
	spec := b.spec
	if l.nchw {
		spec.Order = layout.NCHW
	}
	file := make([]byte, layout.Size(layout.SafeTensors, spec))
	layout.PutHeader(layout.SafeTensors, spec, file, meta)
	copy(file[layout.DataOffset(layout.SafeTensors, spec):], own)
	if err := sameBytes(read(layout.SafeTensors), file); err != nil {
		return fmt.Errorf("safetensors: %w", err)
	}
	return nil
}

// pixel returns the elements of pixel (y, x) of a slot.
func (b *shown) pixel(slot, y, x int) []byte {
	n := b.spec.C * b.spec.DType.Size()
	return b.nhwc[((slot*b.spec.H+y)*b.spec.W+x)*n:][:n]
}

// near checks a batch of bytes against the reference for the pictures in its document:
// within one level, except for JPEG, and exactly if nothing is filtered. Outside the valid
// pixels there must be the fill value.
//
//go:norace
func (a album) near(t testing.TB, l look, o *oracle, b *shown) {
	t.Helper()
	slots, _ := o.plan.Batch(b.Shard, b.Epoch, b.Batch, nil)
	for i, s := range b.Samples {
		p := a.pictures[s.ID]
		upright := p.upright(l.gray, l.ignore)
		want := l.appearance(slots[i].Epoch, s.ID, upright.h, upright.w)
		values := want.values(upright)
		worst, at := 0.0, ""
		for y := range b.spec.H {
			for x := range b.spec.W {
				for c, got := range b.pixel(i, y, x) {
					expected, allowed := float64(l.fill), 0.0
					if y < want.h && x < want.w {
						from := x
						if s.Flip {
							from = want.w - 1 - x
						}
						expected, allowed = math.Floor(values[(y*want.w+from)*b.spec.C+c]+0.5), p.farthest()
						if l.mode == "" && p.exact {
							allowed = 0
						}
					}
					if far := math.Abs(float64(got)-expected) - allowed; far > worst {
						worst, at = far, fmt.Sprintf("(%d, %d) channel %d is %d instead of %g", y, x, c, got, expected)
					}
				}
			}
		}
		if worst > 0 {
			t.Errorf("batch %d, %s: %s", b.Batch, p.name, at)
		}
	}
}

// documented checks that a batch's slots are those of the plan, with the reference's
// appearance.
func (a album) documented(t testing.TB, l look, o *oracle, b *shown) {
	t.Helper()
	slots, valid := o.plan.Batch(b.Shard, b.Epoch, b.Batch, nil)
	if b.Valid != valid || len(slots) != len(b.Samples) {
		t.Fatalf("%d slots, %d of them valid, where the plan has %d and %d", len(b.Samples), b.Valid, len(slots), valid)
	}
	h, w := l.height, l.width
	if l.mode == "" && h == 0 {
		for _, s := range slots {
			p := a.pictures[s.ID].upright(false, l.ignore)
			h, w = max(h, p.h), max(w, p.w)
		}
		m := max(l.pad, 1)
		h, w = (h+m-1)/m*m, (w+m-1)/m*m
	}
	if b.spec.H != h || b.spec.W != w {
		t.Errorf("batch %d is %dx%d, not %dx%d", b.Batch, b.spec.H, b.spec.W, h, w)
	}
	for i, s := range slots {
		p := a.pictures[s.ID]
		upright := p.upright(false, l.ignore)
		want := l.appearance(s.Epoch, s.ID, upright.h, upright.w)
		status := "ok"
		if i >= valid {
			status = "padded"
		}
		got := b.Samples[i]
		if got.ID != s.ID || got.Path != p.name || got.Status != status || int(got.Height) != want.h || int(got.Width) != want.w ||
			got.Flip != want.flip || !nearCrop(got.Crop, want.crop) {
			t.Errorf("batch %d, slot %d: %+v, which %s must not be: %+v, %s", b.Batch, i, got, p.name, want, status)
		}
	}
}

// nearCrop compares windows. Windows of whole pixels must be equal.
func nearCrop(got, want [4]float64) bool {
	for i := range got {
		if far := math.Abs(got[i] - want[i]); far > 1e-9*(1+want[i]) || want[i] == math.Floor(want[i]) && far != 0 && got[i] == math.Floor(got[i]) {
			return false
		}
	}
	return true
}

// convert returns the conversion from tensors of bytes to the look's elements.
func (l look) convert() func(nhwc []byte) []byte {
	channels := l.channels()
	tables := make([][256][]byte, channels)
	for c := range tables {
		tables[c] = l.elements(c)
	}
	return func(nhwc []byte) []byte { return lookUp(nhwc, tables, l.dtype.Size()) }
}

// lookUp returns the element for each byte, from the table of its channel.
//
//go:norace
func lookUp(nhwc []byte, tables [][256][]byte, size int) []byte {
	out := make([]byte, 0, len(nhwc)*size)
	for i, v := range nhwc {
		out = append(out, tables[i%len(tables)][v]...)
	}
	return out
}

// xattrs checks that the batch's attributes describe it.
func (m *mounted) xattrs(t testing.TB, b *shown) {
	t.Helper()
	shape := bytes.Trim(fmt.Append(nil, b.Shape), "[]")
	shape = bytes.ReplaceAll(shape, []byte(" "), []byte(","))
	got := m.part(t, "part-xattrs", m.path(b.Shard, b.Epoch, b.Batch, layout.NPY))
	for name, value := range map[string]string{"shape": string(shape), "dtype": b.DType, "layout": b.Layout, "valid": fmt.Sprint(b.Valid)} {
		if !bytes.Contains([]byte(got), []byte("user.batchfs."+name+"="+value+"\n")) {
			t.Errorf("user.batchfs.%s is not %s:\n%s", name, value, got)
		}
	}
}

func mustRead(t testing.TB, path string) []byte {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return data
}
