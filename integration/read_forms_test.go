package integration

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"image/png"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/batchfs/batchfs/layout"
	"github.com/batchfs/batchfs/shard"
)

// TestReadForms reads every batch in every form, under settings that affect the form, and
// checks each byte against the files.
func TestReadForms(t *testing.T) {
	for _, test := range []struct {
		name string
		settings
	}{
		{"plain", settings{batch: 9}},
		{"nchw", settings{batch: 16, shards: 2, shuffle: true, seed: 1, nchw: true, fill: 7}},
		{"gray nchw as stored", settings{batch: 16, shards: 3, gray: true, nchw: true, ignore: true}},
		{"of one size", settings{batch: 10, shards: 4, shuffle: true, seed: 3, height: 501, width: 510, fill: 128}},
		{"partial, the last one empty", settings{batch: 1, shards: 4, last: shard.Partial}},
		{"unpadded partial", settings{batch: 10, shards: 4, shuffle: true, seed: 7, unpadded: true, last: shard.Partial}},
		{"unpadded drop, sticking", settings{batch: 10, shards: 4, shuffle: true, seed: 8, unpadded: true, last: shard.Drop, stick: true}},
		{"one batch for all", settings{batch: 30, shards: 3, shuffle: true, seed: 9}},
	} {
		t.Run(test.name, func(t *testing.T) {
			images := formImages(t)
			m := mountBatchfs(t, images, test.flags("--list", "npy", "--epochs", "2")...)
			r := &formReader{m: m, o: newOracle(t, images, test.settings)}
			t.Run("dataset", r.dataset)
			for s := range r.o.o.shards {
				for epoch := range 2 {
					if epoch > 0 && test.height > 0 {
						continue // large, and no different
					}
					r.epoch(t, s, epoch)
					if t.Failed() {
						return
					}
				}
			}
		})
	}
}

// formImages are 41 pictures, with names that need quoting in JSON and shells, in classes
// and in directories below them.
func formImages(t *testing.T) string {
	dir := filepath.Join(scratch(t), "images")
	from := mixedImages(t)
	files, err := filepath.Glob(filepath.Join(from, "*", "*"))
	check(t, err)
	names := []string{"plain", "with space", `quo"ted`, "back\\slash", "ünïcödé", "new\nline", "<tag>&", "'single'"}
	for i := range 41 {
		from := files[(i*17)%len(files)]
		data := mustRead(t, from)
		class := []string{"b", "a a", "C"}[i%3]
		writeFile(t, filepath.Join(dir, class, strings.Repeat("deep/", i%2), fmt.Sprintf("%s-%d%s", names[i%len(names)], i, filepath.Ext(from))), data)
	}
	return dir
}

// A formReader reads one mount.
type formReader struct {
	m *mounted
	o *oracle
}

// dataset checks the documents about the whole dataset.
func (r *formReader) dataset(t *testing.T) {
	var doc struct {
		Samples, Classes int
		Layout, DType    string
		Shape            [4]*int
		Seed             uint64
		Order, Decoder   string
		Fingerprint      string
		Formats          map[string]int
		Settings         map[string]any
	}
	r.m.document(t, "dataset.json", &doc)
	if doc.Samples != r.o.ds.Len() || doc.Classes != 3 || doc.DType != "uint8" || doc.Layout != layoutName(r.o.o) || doc.Seed != r.o.o.seed ||
		doc.Order != shard.OrderVersion || doc.Decoder == "" || doc.Fingerprint == "" || len(doc.Settings) == 0 {
		t.Errorf("dataset.json says %+v", doc)
	}
	if diff := cmp.Diff(r.o.ds.Report.Formats, doc.Formats); diff != "" {
		t.Errorf("formats: %s", diff)
	}
	known := func(n int) *int {
		if n == 0 {
			return nil
		}
		return &n
	}
	shape := []*int{known(r.o.o.batch), known(r.o.o.height), known(r.o.o.width), known(r.o.channels())}
	if r.o.o.nchw {
		shape = []*int{shape[0], shape[3], shape[1], shape[2]}
	}
	if diff := cmp.Diff(shape, doc.Shape[:]); diff != "" {
		t.Errorf("shape: %s", diff)
	}
	if classes := r.m.run(t, "cat", filepath.Join(r.m.dir, "classes.txt")); classes != "C\na a\nb\n" {
		t.Errorf("classes.txt is %q", classes)
	}
}

func layoutName(s settings) string {
	if s.nchw {
		return "nchw"
	}
	return "nhwc"
}

// epoch reads all of one shard's epoch.
func (r *formReader) epoch(t *testing.T, s, epoch int) {
	t.Helper()
	batches := r.o.plan.Batches(s, epoch)
	r.epochDocument(t, s, epoch, batches)
	dir, err := os.ReadDir(r.m.epochDir(s, epoch))
	check(t, err)
	var names, wantNames []string
	for _, e := range dir {
		names = append(names, e.Name())
	}
	for b := range batches {
		wantNames = append(wantNames, layout.BatchName(b)+".npy")
	}
	wantNames = append(wantNames, "epoch.json")
	if diff := cmp.Diff(wantNames, names); diff != "" {
		t.Errorf("the directory of shard %d, epoch %d: %s", s, epoch, diff)
	}
	for b := range batches {
		x := r.o.batch(t, s, epoch, b)
		for _, f := range layout.Forms() {
			if f == layout.PNG && epoch > 0 {
				continue // drawn from the pixels of the other forms, slowly, and no different
			}
			if err := r.form(x, s, epoch, b, f); err != nil {
				t.Errorf("%s: %v", r.m.path(s, epoch, b, f), err)
			}
		}
	}
}

func (r *formReader) epochDocument(t *testing.T, s, epoch, batches int) {
	t.Helper()
	type epochDoc struct {
		Shard, Epoch, Batches int
		Samples, Valid        int64
		Range                 [2]int64
		Seed                  uint64
	}
	want := epochDoc{Shard: s, Epoch: epoch, Batches: batches, Seed: r.o.o.seed}
	want.Range[0], want.Range[1] = r.o.plan.Range(s, epoch)
	for b := range batches {
		slots, valid := r.o.plan.Size(s, epoch, b)
		want.Samples += int64(slots)
		want.Valid += int64(valid)
	}
	var got epochDoc
	r.m.document(t, fmt.Sprintf("shard-%d/epoch-%d/epoch.json", s, epoch), &got)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("epoch.json of shard %d, epoch %d: %s", s, epoch, diff)
	}
}

// form reads a batch in one form. The size from stat must be right.
func (r *formReader) form(x want, s, epoch, b int, f layout.Form) error {
	path := r.m.path(s, epoch, b, f)
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	got, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	if int64(len(got)) != info.Size() {
		return fmt.Errorf("%d bytes were read, but stat says %d", len(got), info.Size())
	}
	switch f {
	case layout.NHWCForm:
		return sameBytes(got, x.pixels)
	case layout.NCHWForm:
		return sameBytes(got, x.planes())
	case layout.NPY:
		return sameArray(got, "|u1", r.o.shape(x), r.o.tensor(x), 4096)
	case layout.SafeTensors:
		return r.safetensors(got, x)
	case layout.Valid:
		return sameArray(got, "|b1", []int{x.n}, ones(x.valid, x.n), 0)
	case layout.Labels:
		return sameArray(got, "<i8", []int{x.n}, littleEndian(x.labels), 0)
	case layout.IDs:
		return sameArray(got, "<i8", []int{x.n}, littleEndian(x.ids), 0)
	case layout.Sizes:
		return sameArray(got, "<i4", []int{x.n, 2}, littleEndian(x.sizes), 0)
	case layout.JSON:
		return r.json(got, x, s, epoch, b)
	case layout.PNG:
		_, err := png.Decode(bytes.NewReader(got)) // package layout tests how it is drawn
		return err
	}
	return fmt.Errorf("form %s is not tested", f)
}

// ones are n bytes, of which the first are 1 and the others 0.
func ones(first, n int) []byte {
	return append(bytes.Repeat([]byte{1}, first), make([]byte, n-first)...)
}

func littleEndian(v any) []byte {
	var out bytes.Buffer
	_ = binary.Write(&out, binary.LittleEndian, v) // fixed sizes, into memory: does not fail
	return out.Bytes()
}

func sameBytes(got, want []byte) error {
	if bytes.Equal(got, want) {
		return nil
	}
	for i := range min(len(got), len(want)) {
		if got[i] != want[i] {
			return fmt.Errorf("byte %d of %d is %d instead of %d", i, len(want), got[i], want[i])
		}
	}
	return fmt.Errorf("%d bytes instead of %d", len(got), len(want))
}

// sameArray parses a .npy file. offset is where the data must start; 0: anywhere.
func sameArray[S ~[]int | [4]int](got []byte, dtype string, shape S, data []byte, offset int) error {
	if len(got) < 10 || string(got[:8]) != "\x93NUMPY\x01\x00" {
		return fmt.Errorf("no .npy of version 1.0: %.10q", got)
	}
	start := 10 + int(binary.LittleEndian.Uint16(got[8:]))
	if start > len(got) || start%64 != 0 || offset > 0 && start != offset {
		return fmt.Errorf("the data starts at %d", start)
	}
	dimensions := strings.Trim(strings.ReplaceAll(fmt.Sprint(shape), " ", ", "), "[]")
	if !strings.Contains(dimensions, ",") {
		dimensions += ","
	}
	want := fmt.Sprintf("{'descr': '%s', 'fortran_order': False, 'shape': (%s), }", dtype, dimensions)
	if header := strings.TrimRight(string(got[10:start]), " \n"); header != want || got[start-1] != '\n' {
		return fmt.Errorf("the header is %s instead of %s", header, want)
	}
	return sameBytes(got[start:], data)
}

// safetensors compares a file with what package layout makes of the batch. TestReadDTypes opens
// such files with the real library.
func (r *formReader) safetensors(got []byte, x want) error {
	spec := layout.Spec{N: x.n, H: x.h, W: x.w, C: x.c}
	if r.o.o.nchw {
		spec.Order = layout.NCHW
	}
	file := make([]byte, layout.Size(layout.SafeTensors, spec))
	layout.PutHeader(layout.SafeTensors, spec, file, layout.Meta{Labels: x.labels, IDs: x.ids, Sizes: x.sizes, Valid: x.valid})
	copy(file[layout.DataOffset(layout.SafeTensors, spec):], r.o.tensor(x))
	return sameBytes(got, file)
}

// A sampleDoc is a slot in a batch's document.
type sampleDoc struct {
	ID             int
	Path           string
	Label          int
	Height, Width  int
	Crop           [4]int
	Flip           bool
	Status, Reason string
}

type batchDoc struct {
	Shard, Epoch, Batch int
	Shape               [4]int
	DType, Layout       string
	Seed                uint64
	Valid               int
	Samples             []sampleDoc
}

// json compares a batch's description with the plan. Its padding must be spaces.
func (r *formReader) json(got []byte, x want, s, epoch, b int) error {
	var doc batchDoc
	if err := json.Unmarshal(got, &doc); err != nil {
		return err
	}
	want := batchDoc{
		Shard: s, Epoch: epoch, Batch: b, Shape: r.o.shape(x), DType: "uint8", Layout: layoutName(r.o.o),
		Seed: r.o.o.seed, Valid: x.valid, Samples: []sampleDoc{},
	}
	for i, id := range x.ids {
		h, w := int(x.sizes[i][0]), int(x.sizes[i][1])
		d := sampleDoc{ID: int(id), Path: x.paths[i], Label: int(x.labels[i]), Height: h, Width: w, Crop: [4]int{0, 0, h, w}, Status: "ok"}
		if i >= x.valid {
			d.Status = "padded"
		}
		want.Samples = append(want.Samples, d)
	}
	if diff := cmp.Diff(want, doc); diff != "" {
		return fmt.Errorf("%s", diff)
	}
	if tail := got[bytes.LastIndexByte(got, '}')+1:]; len(bytes.Trim(tail, " ")) > 1 {
		return fmt.Errorf("padded with %q", tail)
	}
	return nil
}
