package main

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"image"
	"image/png"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/batchfs/batchfs/decode"
	"github.com/batchfs/batchfs/internal/catalog"
	"github.com/batchfs/batchfs/internal/dataset"
	"github.com/batchfs/batchfs/internal/target"
	"github.com/batchfs/batchfs/internal/testkit"
	"github.com/batchfs/batchfs/shard"
)

// cocoImages makes a dataset of 4 images. COCO annotations exist for 3 of them, one without
// objects. One object is bad, one is of an image that is not listed, and one listed image is
// missing.
func cocoImages(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for _, name := range []string{"a", "b", "c", "d"} {
		imageIn(t, dir, "images/"+name+".png")
	}
	text := `{"images": [{"id": 1, "file_name": "a.png", "height": 3, "width": 5}, {"id": 2, "file_name": "b.png"}, {"id": 3, "file_name": "c.png"}, {"id": 4, "file_name": "e.png"}],
		"categories": [{"id": 1, "name": "cat"}, {"id": 9, "name": "dog"}], "annotations": [
		{"id": 1, "image_id": 1, "category_id": 9, "bbox": [0, 0, 2, 2], "segmentation": [[0, 0, 2, 0, 2, 2, 0, 2]]},
		{"id": 2, "image_id": 2, "category_id": 1, "bbox": [0, 0, -2, 2]}, {"id": 3, "image_id": 7, "category_id": 1, "bbox": [0, 0, 2, 2]}]}`
	save(t, filepath.Join(dir, "annotations", "instances_images.json"), text)
	return dir
}

// imageIn writes an image below a folder.
func imageIn(t *testing.T, dir, name string) { writeImage(t, filepath.Join(dir, name), 3, 5) }

// TestOpenTargets: the first line counts what was found, and the options contain it.
func TestOpenTargets(t *testing.T) {
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	r, ds, err := openTargeted(t, cocoImages(t), target.Masks, target.Boxes)
	testkit.Must(t, err)
	const want = "; annotations: COCO (instances_images.json), 1 box in 2 classes (cat, dog), masks of 3 classes; 1 image without annotations left out; " +
		"1 annotated image missing; 1 annotation of images that are not listed; 1 image with bad annotations ("
	if !strings.HasPrefix(r.annotated, want) || !strings.Contains(r.annotated, "annotations[1]: bbox has a negative size)") {
		t.Error(r.annotated)
	}
	m := r.engine.Masks
	if ds.Len() != 3 || fmt.Sprint(m.Rows) != "[-1 -1 -1]" || m.Ignore != 255 || m.Classes != 3 || fmt.Sprint(m.Map) != "[0 1 2]" {
		t.Errorf("%d samples, %+v", ds.Len(), m)
	}
	mask := make([]byte, 15)
	if err := m.Draw(0, mask); err != nil || fmt.Sprint(mask) != "[2 2 0 0 0 2 2 0 0 0 0 0 0 0 0]" {
		t.Errorf("%v, %v", err, mask)
	}
	if h, w := m.Size(1); h != 3 || w != 5 {
		t.Errorf("an image whose size is not said has %d x %d", h, w)
	}
	if o := r.engine.Targets; !o.Boxes || o.Keypoints || o.Text || o.Table.Count(0) != 1 || o.Table.Objects(0)[0].Label != 1 {
		t.Errorf("%+v", o)
	}
}

// TestMasksOfWebDatasets: masks are members beside the images.
func TestMasksOfWebDatasets(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"a.png", "a.seg.png", "b.png", "c.png", "c.seg.png"} {
		imageIn(t, dir, name)
	}
	for _, labels := range []bool{false, true} {
		t.Setenv("XDG_CACHE_HOME", t.TempDir())
		names := []string{"a.png", "a.seg.png", "b.png", "c.png", "c.seg.png"}
		if labels {
			names = slices.Insert(names, 2, "a.cls")
			save(t, filepath.Join(dir, "a.cls"), "4")
		}
		tar := filepath.Join(dir, fmt.Sprintf("%v.tar", labels))
		if out, err := exec.Command("tar", append([]string{"-C", dir, "-cf", tar}, names...)...).CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		r, ds := openMasked(t, tar)
		m := r.engine.Masks
		var shown []string
		for i := range ds.Len() {
			shown = append(shown, ds.Path(i)+" "+m.Dataset.Path(int(m.Rows[i])))
		}
		if fmt.Sprint(shown) != "[a.png a.seg.png c.png c.seg.png]" || !strings.Contains(r.annotated, "a WebDataset (*.seg.png); 1 image without annotations left out") {
			t.Errorf("%q, %s", shown, r.annotated)
		}
	}
}

// TestMembersOfWebDatasets: members .json and .txt are used like the columns of a manifest, and a
// bad member makes its sample bad.
func TestMembersOfWebDatasets(t *testing.T) {
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	dir := t.TempDir()
	members := []string{
		"a.png", "a.json", `{"objects": {"bbox": [[1, 0, 2, 3], [0, 0, 1, 1]], "label": ["dog", "cat"]}, "url": "u", "width": 999, "nothing": null}`, "a.txt", "a dog\n",
		"b.png", "b.json", `{"boxes": [[1, 0, 2, 3, "cat"], {"box": [0, 0, 1, 1], "crowd": true, "label": "cat"}], "keypoints": [[1, 1, 2], []]}`,
		"c.png",
		"d.png", "d.json", `{"boxes": {"box": [[1, 0, 2, 3]], "label": ["dog", "cat"]}}`, "e.png", "e.json", `{"boxes": 7}`,
		"f.png", "f.txt", "", "g.png", "g.json", `{"a": "` + strings.Repeat("x", 1<<19) + `"}`,
		"h.png", "h.json", `{"objects": [{"bbox": [1, 0, -2, 3]}]}`, "i.png", "i.json", `{"objects": {"bbox": [1, 0, 2, 3]}}`,
		"j.png", "j.json", `{"boxes": [[1, 0, 2, 3, "cat"], [1, 0, 2, 3]]}`, "k.png", "k.json", `{"boxes": [[1, 0, 2, 3, 1]]}`,
	}
	names := []string{"-C", dir, "-cf", filepath.Join(dir, "x.tar")}
	for i, name := range members {
		switch filepath.Ext(name) {
		case ".png":
			imageIn(t, dir, name)
			names = append(names, name)
		case ".json", ".txt":
			save(t, filepath.Join(dir, name), members[i+1])
			names = append(names, name)
		}
	}
	if out, err := exec.Command("tar", names...).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	tar := filepath.Join(dir, "x.tar")
	for range 2 { // without and with an index
		r, ds, err := openTargeted(t, tar, target.Boxes, target.Keypoints, target.Text)
		testkit.Must(t, err)
		table, samples := r.engine.Targets.Table, map[string]int{}
		for i := range ds.Len() {
			samples[ds.Path(i)] = i
		}
		for name, want := range map[string]string{
			"a.png": `[{[1 0 3 3] <nil> 1 0 0 []} {[0 0 1 1] <nil> 0 1 0 []}] {"text":"a dog","url":"u","width":999} `,
			"b.png": `[{[1 0 2 3] <nil> 0 0 0 [{1 1 2}]} {[0 0 1 1] <nil> 0 1 1 []}]  `,
			"d.png": "[]  d.json: there are 1 of box, but 2 of label", "e.png": "[]  e.json: there is something else where a list should be",
			"f.png": `[] {"text":""} `, "g.png": "[]  its text has more than 65536 bytes", "h.png": "[]  h.json: bbox has a negative size",
			"i.png": "[]  i.json: bbox is no list",
			"j.png": `[{[1 0 2 3] <nil> 0 0 0 []} {[1 0 2 3] <nil> 0 1 0 []}]  *.json, *.txt: the label of boxes[1] is no name, but others are, such as "cat"`,
			"k.png": `[{[1 0 2 3] <nil> 1 0 0 []}]  *.json, *.txt: the label of boxes[0] is no name, but others are, such as "cat"`,
		} {
			row, known := samples[name]
			if !known {
				t.Errorf("%s is no sample", name)
				continue
			}
			if got := fmt.Sprintf("%v %s %s", table.Objects(row), table.Text(row), table.Bad(row)); got != want {
				t.Errorf("%s: %s, not %s", name, got, want)
			}
		}
		if ds.Len() != 10 || fmt.Sprint(r.engine.Targets.Classes) != "[cat dog]" || !strings.Contains(r.annotated, "a WebDataset (*.json, *.txt), 7 boxes in 2 classes (cat, dog); 1 image without annotations left out; 7 images with bad annotations") {
			t.Errorf("%d samples: %s", ds.Len(), r.annotated)
		}
	}
	if _, ds, err := openTargeted(t, tar, target.Text); err != nil || ds.Len() != 10 {
		t.Error(err)
	}
	if _, _, err := openTargeted(t, tar, target.Masks, target.Text); err == nil || !strings.Contains(err.Error(), `no sample has an image "seg.png"`) {
		t.Error(err)
	}
}

// TestMasksOfManifests: masks come from the column, and a missing one is a bad file.
func TestMasksOfManifests(t *testing.T) {
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	dir := t.TempDir()
	for _, name := range []string{"a", "b", "m/a"} {
		imageIn(t, dir, name+".png")
	}
	save(t, filepath.Join(dir, "m.csv"), "path,mask\na.png,m/a.png\nb.png,m/b.png\nb.png,\na.png,m/a.png\n")
	r, _ := openMasked(t, filepath.Join(dir, "m.csv"))
	m := r.engine.Masks
	if fmt.Sprint(m.Rows) != "[2 1 1 2]" || m.Dataset.Format(0) != "maskrgb" || m.Dataset.Problem(1) == "" || !strings.Contains(r.annotated, "2 images with bad annotations") || !strings.Contains(r.annotated, "m.csv: line 4: an earlier row has the same path, and other values") {
		t.Errorf("%v, %q, %q, %s", m.Rows, m.Dataset.Problem(0), m.Dataset.Problem(1), r.annotated)
	}
}

// TestBoxesLeftOut: the first line counts the images with more boxes than batches have rows for.
func TestBoxesLeftOut(t *testing.T) {
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	dir := t.TempDir()
	rows := ""
	for i, boxes := range []int{0, 1, 2, 4} {
		name := fmt.Sprintf("%d.png", i)
		imageIn(t, dir, name)
		rows += fmt.Sprintf(`{"path": %q, "boxes": [%s]}`+"\n", name, strings.TrimSuffix(strings.Repeat("[0, 0, 1, 1],", boxes), ","))
	}
	save(t, filepath.Join(dir, "m.jsonl"), rows)
	for most, want := range map[int]string{0: "", 1: "; 2 images with more than --max-boxes 1, up to 4", 3: "; 1 image with more than --max-boxes 3, up to 4", 4: ""} {
		r := targetRequest(filepath.Join(dir, "m.jsonl"), target.Boxes)
		r.targets.Rules.Max = most
		a, err := r.openTargets(t.Context())
		testkit.Must(t, err)
		testkit.Must(t, a.Close())
		if !strings.HasSuffix(r.annotated, "7 boxes"+want) {
			t.Errorf("--max-boxes %d: %s", most, r.annotated)
		}
	}
}

// targetRequest asks for a mount of a dataset with some targets.
func targetRequest(path string, kinds ...target.Kind) *mountRequest {
	c := &console{out: io.Discard, err: io.Discard, machine: thisHost(), env: readEnvironment(os.LookupEnv, os.Getuid())}
	r := &mountRequest{console: c, dataset: path, source: dataset.Options{Workers: 3, Logger: quiet}}
	for _, kind := range kinds {
		r.targets.Kinds[kind] = true
	}
	return r
}

// openTargeted opens a dataset with some targets until the end of the test, as a mount does.
func openTargeted(t *testing.T, path string, kinds ...target.Kind) (*mountRequest, *dataset.Dataset, error) {
	t.Helper()
	r := targetRequest(path, kinds...)
	a, err := r.openTargets(t.Context())
	if err != nil {
		return r, nil, err
	}
	t.Cleanup(func() { _ = a.Close() })
	return r, a.Images, nil
}

// openMasked opens a dataset with masks.
func openMasked(t *testing.T, path string) (*mountRequest, *dataset.Dataset) {
	t.Helper()
	r, ds, err := openTargeted(t, path, target.Masks)
	testkit.Must(t, err)
	return r, ds
}

// TestDrawnMasksInFingerprint: masks drawn from other polygons are other masks, even if no other
// annotations are wanted.
func TestDrawnMasksInFingerprint(t *testing.T) {
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	dir := cocoImages(t)
	drawn := func() string {
		t.Helper()
		r, ds := openMasked(t, dir)
		made, err := catalog.New(ds, catalog.Options{
			Config: shard.Config{Shards: 1, BatchSize: 1}, Epochs: 1, Decoding: decode.Options{MaxPixels: 1 << 20}, Masks: r.engine.Masks,
		})
		testkit.Must(t, err)
		return made.Fingerprint
	}
	before, again := drawn(), drawn()
	file := filepath.Join(dir, "annotations", "instances_images.json")
	text, err := os.ReadFile(file)
	testkit.Must(t, err)
	save(t, file, strings.Replace(string(text), "[[0, 0, 2, 0,", "[[0, 0, 3, 0,", 1))
	if after := drawn(); before != again || before == after {
		t.Errorf("the fingerprint was %s, is %s again, and %s with another polygon", before, again, after)
	}
}

// writeMask writes a gray image.
func writeMask(t *testing.T, path string, height, width int) {
	t.Helper()
	var file bytes.Buffer
	testkit.Must(t, png.Encode(&file, image.NewGray(image.Rect(0, 0, width, height))))
	save(t, path, file.Bytes())
}

// TestIndexTargets: index reads annotations, and a mount with the same targets does not read them
// again, wherever it is started.
func TestIndexTargets(t *testing.T) {
	cache := t.TempDir()
	dir := cocoImages(t)
	file := filepath.Join(dir, "annotations", "instances_images.json")
	long := time.Now().Add(-time.Hour)
	testkit.Must(t, os.Chtimes(file, long, long))
	got := batchfsIn(t, cache, "index", "--targets", "boxes", dir)
	if got.status != statusDone || !strings.Contains(got.out, "annotations: COCO (instances_images.json), 1 box in 2 classes (cat, dog)") {
		t.Errorf("status %d, %s%s", got.status, got.out, got.err)
	}
	kept := func() []string {
		files, _ := filepath.Glob(cache + "/batchfs/*.targets")
		return files
	}
	before := kept()
	if len(before) != 1 {
		t.Fatalf("%q are kept", before)
	}
	info, err := os.Stat(before[0])
	testkit.Must(t, err)
	t.Chdir(dir)
	if got := batchfsIn(t, cache, "plan", "--targets", "boxes", "images/"); got.status != statusDone {
		t.Errorf("status %d, %s%s", got.status, got.out, got.err)
	}
	if after, err := os.Stat(before[0]); err != nil || !os.SameFile(info, after) || len(kept()) != 1 {
		t.Errorf("annotations were read again: %v, %q", err, kept())
	}
}

// writeArray writes an .npy file with that many bytes of elements below a folder.
func writeArray(t *testing.T, dir, name, descr, shape string, bytes int) {
	t.Helper()
	header := fmt.Sprintf("{'descr': '%s', 'fortran_order': False, 'shape': %s, }\n", descr, shape)
	file := binary.LittleEndian.AppendUint16([]byte("\x93NUMPY\x01\x00"), uint16(len(header)))
	file = append(append(file, header...), make([]byte, bytes)...)
	save(t, filepath.Join(dir, name), file)
}

// arrayed makes a dataset of images 0.png to 6.png. Each has a pose, all of one shape, and a track
// with its own number of rows, except 3.png, which has neither.
func arrayed(t *testing.T) (dir, manifest string) {
	t.Helper()
	dir = t.TempDir()
	var lines strings.Builder
	for i := range 7 {
		imageIn(t, dir, fmt.Sprintf("%d.png", i))
		writeArray(t, dir, fmt.Sprintf("p%d.npy", i), "<f4", "(2,)", 8)
		writeArray(t, dir, fmt.Sprintf("t%d.npy", i), "<i2", fmt.Sprintf("(%d, 3)", i), 6*i)
		if i == 3 {
			lines.WriteString(`{"path":"3.png"}` + "\n")
			continue
		}
		fmt.Fprintf(&lines, "{\"path\":\"%d.png\",\"pose\":\"p%d.npy\",\"track\":\"t%d.npy\"}\n", i, i, i)
	}
	manifest = filepath.Join(dir, "m.jsonl")
	save(t, manifest, lines.String())
	return dir, manifest
}

// TestArraysOfManifests: the first line says what the arrays are, and counts the bad annotations:
// arrays that differ from most others of their column.
func TestArraysOfManifests(t *testing.T) {
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	dir, manifest := arrayed(t)
	r, _, err := openTargeted(t, manifest, target.Arrays)
	testkit.Must(t, err)
	if want := "; annotations: a manifest (m.jsonl); arrays: pose float32 [2] (1 image without), track int16 [*, 3] (1 image without)"; r.annotated != want || len(r.engine.Condemned) > 0 {
		t.Errorf("%s, %v", r.annotated, r.engine.Condemned)
	}
	if rows := fmt.Sprint(r.engine.Arrays[0].Rows, r.engine.Arrays[1].Rows); rows != "[0 1 2 -1 3 4 5] [0 1 2 -1 3 4 5]" {
		t.Error(rows)
	}

	if err := os.Remove(filepath.Join(dir, "p0.npy")); err != nil { // the first array, which told what the others are
		t.Fatal(err)
	}
	if r, _, err := openTargeted(t, manifest, target.Arrays); err != nil || !strings.Contains(r.annotated, "pose float32 [2]") {
		t.Errorf("%v, %v", r.annotated, err)
	}

	writeArray(t, dir, "p1.npy", "<f8", "(2,)", 16)
	writeArray(t, dir, "p4.npy", ">f4", "(2,)", 8)
	writeArray(t, dir, "p5.npy", "<f4", "(2,)", 7)
	writeArray(t, dir, "t4.npy", "<i2", "(2, 4)", 16)
	save(t, filepath.Join(dir, "t5.npy"), "no array")
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	if r, _, err = openTargeted(t, manifest, target.Arrays); err != nil {
		t.Fatal(err)
	}
	for id, want := range map[int64]string{
		0: "p0.npy: no such file", 1: "p1.npy: its dtype or its shape is not that of the others, pose float32 [2]", 2: "",
		4: "p4.npy: its elements are big-endian", 5: "p5.npy: it has 75 bytes, and its header says 76", 6: "",
	} {
		if why := r.engine.Condemned[id]; !strings.HasPrefix(why, want) || (want == "") != (why == "") {
			t.Errorf("%d.png: %q", id, why)
		}
	}
	if !strings.Contains(r.annotated, "; 4 images with bad annotations (p0.npy: no such file") {
		t.Error(r.annotated)
	}
	got := batchfs(t, "verify", "--targets", "arrays", manifest)
	for _, want := range []string{"1.png: p1.npy: its dtype or its shape is not", "4.png: p4.npy: its elements are big-endian", "7 images and 12 arrays, 4 bad\n"} {
		if got.status != statusFailed || !strings.Contains(got.out, want) {
			t.Errorf("status %d, and not %q: %s%s", got.status, want, got.out, got.err)
		}
	}
}
