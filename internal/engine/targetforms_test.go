package engine

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/batchfs/batchfs/decode/resample"
	"github.com/batchfs/batchfs/internal/catalog"
	"github.com/batchfs/batchfs/internal/target"
	"github.com/batchfs/batchfs/internal/testkit"
	"github.com/batchfs/batchfs/layout"
)

// objectsOf returns the objects of image i of testDir: i modulo 4 of them, some partly outside.
func objectsOf(i int) (all []target.Object) {
	h, w := testSize(i)
	for k := range i % 4 {
		o := target.Object{
			Box: target.Box{float32(k) - 0.5, 0.25, float32(w) - float32(k)*0.5, float32(h) + 1}, Label: int32(k), ID: int64(100*i + k), Flags: target.Flags(k),
			Visible: &target.Box{0, 0, 1, 1},
		}
		if k == 1 {
			o.Keypoints = []target.Keypoint{{X: 1, Y: 1, V: 2}, {X: 2.5, Y: 2, V: 1}, {X: 99, Y: 0, V: 2}}
		}
		all = append(all, o)
	}
	return all
}

// withTargets gives an engine targets of testDir(n). Some images have none, and the target of image
// bad is bad.
func withTargets(t testing.TB, o *Options, n, bad int, rules target.Rules) {
	t.Helper()
	b := target.NewBuilder("")
	t.Cleanup(func() { b.Close() })
	for id := n - 1; id >= 0; id-- {
		i := number(n, int64(id))
		if i%5 == 4 {
			continue
		}
		h, w := testSize(i)
		image := b.Image(fmt.Sprint(id), h, w, false)
		for _, o := range objectsOf(i) {
			b.Object(image, o)
		}
		b.Text(image, fmt.Appendf(nil, `{"caption":%q}`, strings.Repeat("word ", i)))
		if i == bad {
			o.Condemned = map[int64]string{int64(id): "labels.json: annotation 7: the box has 3 numbers"}
		}
	}
	table, err := b.Table(n, func(i int) string { return fmt.Sprint(i) })
	testkit.Must(t, err)
	o.Targets = &catalog.TargetOptions{Table: table, Rules: rules, Boxes: true, Keypoints: true, Text: true}
}

// targetFile returns a batch's file in a form of targets other than masks, and checks that its size
// is as announced.
func targetFile(t testing.TB, e *Engine, k Key, f layout.Form) []byte {
	t.Helper()
	d, err := e.Describe(context.Background(), k)
	testkit.Must(t, err)
	file, err := e.catalog.Options.Targets.TextOf(d)
	testkit.Must(t, err)
	if f != layout.Text {
		rows, err := e.catalog.Options.Targets.RowsOf(d)
		testkit.Must(t, err)
		file = layout.AppendNPY(nil, f, e.catalog.Options.SpecIn(d.Spec, k, f), layout.Meta{Rows: rows})
	}
	if size := e.catalog.Size(k, f); int64(len(file)) != size {
		t.Errorf("%s.%s: %d bytes, and %d were announced", k, f, len(file), size)
	}
	return file
}

const npyHeader = 128

// sameTensors compares the tensors in a .safetensors file with the files of the same content, and
// checks its alignment.
func sameTensors(t testing.TB, e *Engine, k Key) {
	t.Helper()
	images := read(t, e, k, layout.NHWCForm) // the other form may be a copy of this
	file := read(t, e, k, layout.SafeTensors)
	if size := e.catalog.Size(k, layout.SafeTensors); int64(len(file)) != size {
		t.Fatalf("%s: %d bytes, and %d were announced", k, len(file), size)
	}
	if size := e.catalog.Size(k, layout.PNG); int64(len(read(t, e, k, layout.PNG))) != size {
		t.Errorf("%s: the contact sheet has not %d bytes", k, size)
	}
	n := int(binary.LittleEndian.Uint64(file))
	var tensors map[string]struct {
		DType   string `json:"dtype"`
		Shape   []int  `json:"shape"`
		Offsets [2]int `json:"data_offsets"`
	}
	header := bytes.Replace(file[8:8+n], []byte(`{"__metadata__":{"layout":"nhwc"},`), []byte("{"), 1)
	if err := json.Unmarshal(header, &tensors); err != nil {
		t.Fatalf("%s: %v", header, err)
	}
	covered := 0
	for name, tensor := range tensors {
		bytes := map[string]int{"U8": 1, "I32": 4, "F32": 4, "I64": 8}[tensor.DType]
		if at := 8 + n + tensor.Offsets[0]; at%bytes != 0 || name == "images" && at%layout.Page != 0 {
			t.Errorf("%s: %s begins at byte %d", k, name, at)
		}
		for _, s := range tensor.Shape {
			bytes *= s
		}
		if bytes != tensor.Offsets[1]-tensor.Offsets[0] {
			t.Errorf("%s: %s: %+v", k, name, tensor)
		}
		covered += bytes
	}
	if covered != len(file)-8-n {
		t.Errorf("%s: tensors cover %d of %d bytes", k, covered, len(file)-8-n)
	}
	of := func(name string) []byte { return file[8+n+tensors[name].Offsets[0] : 8+n+tensors[name].Offsets[1]] }
	if !bytes.Equal(of("images"), images) {
		t.Errorf("%s: other images than in .nhwc", k)
	}
	has := e.catalog.Options.Extent()
	forms := has.Forms()
	if len(tensors) < 5+len(forms)-1 {
		t.Errorf("%s: only %d tensors", k, len(tensors))
	}
	for _, f := range forms {
		switch name := strings.TrimSuffix(f.Ext(), ".npy"); f {
		case layout.MasksPNG:
		case layout.MasksNPY:
			if !bytes.Equal(of(name), read(t, e, k, f)[layout.Page:]) {
				t.Errorf("%s: other masks than in .masks.npy", k)
			}
		case layout.Text:
			if !bytes.Equal(of("text"), targetFile(t, e, k, f)) {
				t.Errorf("%s: another text than in .text.jsonl", k)
			}
		default:
			if !bytes.Equal(of(name), targetFile(t, e, k, f)[npyHeader:]) {
				t.Errorf("%s: %s is not as in its file", k, name)
			}
		}
	}
}

// int64s returns the elements of an .npy file.
func int64s(file []byte) (all []int64) {
	for file = file[npyHeader:]; len(file) > 0; file = file[8:] {
		all = append(all, int64(binary.LittleEndian.Uint64(file)))
	}
	return all
}

// TestTargets: in every mode and form, targets have the announced sizes, a .safetensors file has
// the same content as the other files, and the rows of each slot are those of its sample.
func TestTargets(t *testing.T) {
	const n = 23
	dir, masks := maskDirs(t, n)
	for mode := range resample.RandomResizedCrop + 1 {
		for _, rules := range []target.Rules{{}, {Max: 2, Format: target.CXCYWH}, {NoClip: true, MinArea: 1.5}} {
			t.Run(fmt.Sprint(mode, rules.Max, rules.NoClip), func(t *testing.T) {
				e := startMasks(t, dir, masks, n, func(o *Options) {
					o.Shuffle, o.Seed = true, 7
					withTargets(t, o, n, -1, rules)
					o.Transform = resample.Options{Mode: mode, Flip: 0.5, CropArea: resample.DefaultCropArea, CropRatio: resample.DefaultCropRatio, ResizeTo: 9}
					if mode != resample.None {
						o.Transform.Height, o.Transform.Width = 7, 8
					}
				})
				for _, k := range allKeys(e) {
					sameTensors(t, e, k)
					ids := int64s(targetFile(t, e, k, layout.BoxIDs))
					labels := int64s(targetFile(t, e, k, layout.BoxLabels))
					d, _ := e.Describe(t.Context(), k)
					offsets := make([]int64, len(d.Samples)+1)
					for i := range offsets {
						offsets[i] = int64(i * rules.Max)
					}
					if rules.Max == 0 {
						offsets = int64s(targetFile(t, e, k, layout.BoxOffsets))
					}
					for i, s := range d.Samples {
						for r := offsets[i]; r < offsets[i+1]; r++ {
							if labels[r] >= 0 && ids[r] != 100*int64(number(n, s.ID))+labels[r] || labels[r] < 0 && rules.Max == 0 {
								t.Fatalf("%s: row %d of slot %d, which has sample %d, is of object %d", k, r, i, s.ID, ids[r])
							}
						}
						if mode == resample.None && rules.Max == 0 && rules.MinArea == 0 && number(n, s.ID)%5 != 4 && offsets[i+1]-offsets[i] != int64(number(n, s.ID)%4) {
							t.Errorf("%s: slot %d has %d rows", k, i, offsets[i+1]-offsets[i])
						}
					}
				}
			})
		}
	}
}

// TestTargetsInFingerprint: every setting that targets depend on changes the fingerprint.
func TestTargetsInFingerprint(t *testing.T) {
	const n = 8
	dir := testDir(t, n)
	seen := map[string]string{}
	for name, rules := range map[string]*target.Rules{
		"none": nil, "plain": {}, "area": {MinArea: 1}, "unclipped": {NoClip: true}, "format": {Format: target.XYWH}, "most": {Max: 9},
	} {
		f := start(t, dir, func(o *Options) {
			if rules != nil {
				withTargets(t, o, n, -1, *rules)
			}
		}).catalog.Fingerprint
		if other, known := seen[f]; known {
			t.Errorf("%s and %s have the same fingerprint", name, other)
		}
		seen[f] = name
	}
}
