package integration

import (
	"encoding/json"
	"fmt"
	"image"
	"image/color"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/batchfs/batchfs/internal/gen"
	"github.com/batchfs/batchfs/internal/testkit"
	"github.com/batchfs/batchfs/layout"
	"github.com/parquet-go/parquet-go"
)

// targetGeometry computes, from the annotations of a COCO dataset and what .json says of each slot,
// which boxes a batch has and which classes are in the middle of them, and compares that with the
// files of the batch, with .safetensors, and with batchfs.Batches.
const targetGeometry = tensorsInPython + `
mount, annotations = sys.argv[1], json.load(open(sys.argv[2]))
labels = {c["id"]: i for i, c in enumerate(sorted(annotations["categories"], key=lambda c: c["id"]))}
names = {i["id"]: i["file_name"] for i in annotations["images"]}
objects = {}
for a in annotations["annotations"]:
    objects.setdefault(names[a["image_id"]], []).append(a)

kept = dropped = middles = 0
for epoch in range(2):
    directory = f"{mount}/shard-0/epoch-{epoch}"
    count = json.load(open(directory + "/epoch.json"))["batches"]
    for k in range(count):
        path = f"{directory}/batch-{k:05d}."
        doc = json.load(open(path + "json"))
        targets = json.load(open(mount + "/dataset.json"))["targets"]
        files = {f[:-4]: np.load(path + f) for f in targets if f.endswith(".npy")}
        for f in targets:
            assert os.stat(path + f).st_size == len(open(path + f, "rb").read()), f
        every = dict(tensors(path + "safetensors"))
        for name, a in files.items():
            assert every[name].dtype == a.dtype and np.array_equal(every[name], a), name
        assert np.array_equal(every["images"], np.load(path + "npy"))
        batch = batchfs.Batches(mount, shard=0)[epoch, k]
        for name, a in files.items():
            assert np.array_equal(getattr(batch, name.replace(".", "_")), a), name
        offsets, valid = files["boxes.offsets"], doc["valid"]
        less = batchfs.Batches(mount, shard=0, padding=False)[epoch, k]
        assert len(less.masks) == valid and np.array_equal(less.boxes, files["boxes"][:offsets[valid]]) and len(less.boxes_offsets) == valid + 1
        for i, s in enumerate(doc["samples"]):
            y, x, h, w = s["crop"]
            H, W = s["height"], s["width"]
            want = []
            for a in objects.get(s["path"], []):
                bx, by, bw, bh = a["bbox"]
                x0, x1, y0, y1 = (bx - x) * W / w, (bx + bw - x) * W / w, (by - y) * H / h, (by + bh - y) * H / h
                if s["flip"]:
                    x0, x1 = W - x1, W - x0
                box = max(x0, 0), max(y0, 0), min(x1, W), min(y1, H)
                if box[2] > box[0] and box[3] > box[1]:
                    want.append((box, labels[a["category_id"]], a["id"]))
                else:
                    dropped += 1
            rows = slice(offsets[i], offsets[i + 1])
            assert list(files["boxes.ids"][rows]) == [id for _, _, id in want], (k, i)
            assert list(files["boxes.labels"][rows]) == [label for _, label, _ in want], (k, i)
            assert np.allclose(files["boxes"][rows], np.array([box for box, _, _ in want]).reshape(-1, 4), atol=2e-3), (k, i)
            kept += len(want)
            mask = files["masks"][i]
            assert (mask[H:] == 255).all() and (mask[:, W:] == 255).all() and (mask[:H, :W] < 4).all(), (k, i)
            if want:  # nothing covers the last object, and all shapes have their middle
                (x0, y0, x1, y1), label, id = want[-1]
                a = next(a for a in objects[s["path"]] if a["id"] == id)
                whole = abs((x1 - x0) * w / W - a["bbox"][2]) + abs((y1 - y0) * h / H - a["bbox"][3]) < 0.01
                if whole and min(x1 - x0, y1 - y0) > 4 and a is objects[s["path"]][-1]:
                    middles += 1
                    assert mask[int((y0 + y1) / 2), int((x0 + x1) / 2)] == label + 1, (k, i)
assert kept > 60 and middles > 10, (kept, dropped, middles)
`

// TestTargetGeometry: boxes and masks of every batch are where an independent computation puts
// them, in every mode of --resize.
func TestTargetGeometry(t *testing.T) {
	python := testkit.Python(t, "numpy")
	dir := filepath.Join(t.TempDir(), "shapes")
	check(t, gen.Write(t.Context(), gen.Options{Dir: dir, Images: 40, Kind: gen.Coco, Seed: 5}))
	for _, flags := range []string{
		"--resize none", "--resize not-larger --size 64x100 --flip 0.5", "--resize not-smaller --size 100x60 --flip 0.5",
		"--resize center-crop --size 60x60 --resize-to 70", "--resize random-resized-crop --size 96x96 --flip 0.5",
	} {
		t.Run(flags, func(t *testing.T) {
			args := append(strings.Fields(flags), "--targets", "masks,boxes", "--batch-size", "7", "--shuffle")
			mount := mountBatchfs(t, filepath.Join(dir, "train2017"), args...)
			runProgram(t, "/", nil, python, "-c", targetGeometry, mount.dir, filepath.Join(dir, "annotations", "instances_train2017.json"))
			if o := execute(t, "why", mount.path(0, 0, 0, layout.Keypoints)).done(t); !strings.Contains(o.out, "it comes with --targets keypoints") {
				t.Errorf("why there are no keypoints: %s", o.out)
			}
		})
	}
}

// masked is a dataset of PNGs of one size, with masks beside them.
type masked struct{ dir string }

const (
	maskedImages            = 14
	maskedBatch             = 4
	maskedHeight, maskedWid = 24, 33
)

func newMasked(t testing.TB) masked {
	t.Helper()
	m := masked{filepath.Join(scratch(t), "masked")}
	for id := range maskedImages {
		rgb := noise(uint64(300+id), maskedHeight, maskedWid)
		writeFile(t, filepath.Join(m.dir, fmt.Sprintf("images/%02d.png", id)), asPNG(opaque(maskedHeight, maskedWid, rgb)))
		m.write(t, id)
	}
	return m
}

func (m masked) mask(id int) string {
	return filepath.Join(m.dir, "masks", fmt.Sprintf("%02d.png", id))
}

// write writes the mask of an image, with a palette.
func (m masked) write(t testing.TB, id int) {
	t.Helper()
	mask := image.NewPaletted(image.Rect(0, 0, maskedWid, maskedHeight), nil)
	for k := range 21 {
		mask.Palette = append(mask.Palette, color.Gray{Y: uint8(255 - k)})
	}
	for i := range mask.Pix {
		mask.Pix[i] = byte((id*5 + i*i) % 21)
	}
	writeFile(t, m.mask(id), asPNG(mask))
}

// TestTargetsInColumns: a folder with a manifest has the same masks, boxes and texts if the
// manifest is in a store, if they are in the columns of Parquet files with the images, here and in
// a store, and if the folder is converted.
func TestTargetsInColumns(t *testing.T) {
	type picture struct {
		Bytes []byte  `parquet:"bytes"`
		Path  *string `parquet:"path"`
	}
	type objects struct {
		BBox     [][]float32 `parquet:"bbox,list"`
		Category []string    `parquet:"category,list"`
		Crowd    []bool      `parquet:"iscrowd,list"`
	}
	type row struct {
		Image   picture  `parquet:"image"`
		Mask    *picture `parquet:"mask"`
		Label   int32    `parquet:"label"`
		Objects objects  `parquet:"objects"`
		Caption string   `parquet:"caption"`
	}
	m := newMasked(t)
	root := filepath.Dir(m.dir)
	var rows []row
	var manifest strings.Builder
	for id := range maskedImages {
		name := fmt.Sprintf("%02d.png", id)
		image := mustRead(t, filepath.Join(m.dir, "images", name))
		mask := mustRead(t, m.mask(id))
		r := row{Image: picture{image, &name}, Mask: &picture{mask, nil}, Label: int32(id % 5), Caption: fmt.Sprint("picture ", id)}
		line := map[string]any{"file_name": "images/" + name, "mask": "masks/" + name, "label": r.Label, "caption": r.Caption}
		if id%5 == 4 {
			r.Mask = nil
			delete(line, "mask")
		}
		boxes := []any{}
		for k := range id % 3 {
			x, class, crowd := float32(id+k), fmt.Sprint("class ", id%4), k == 1
			r.Objects.BBox = append(r.Objects.BBox, []float32{x, 2, 8, 9.5})
			r.Objects.Category, r.Objects.Crowd = append(r.Objects.Category, class), append(r.Objects.Crowd, crowd)
			boxes = append(boxes, map[string]any{"box": []float32{x, 2, x + 8, 11.5}, "label": class, "crowd": crowd})
		}
		line["boxes"] = boxes
		text, err := json.Marshal(line)
		check(t, err)
		fmt.Fprintf(&manifest, "%s\n", text)
		rows = append(rows, r)
	}
	writeFile(t, filepath.Join(m.dir, "metadata.jsonl"), []byte(manifest.String()))
	check(t, os.Mkdir(filepath.Join(root, "packed"), 0o755))
	for k, part := range [][]row{rows[:5], rows[5:]} {
		check(t, parquet.WriteFile(filepath.Join(root, "packed", fmt.Sprintf("train-%d.parquet", k)), part, parquet.MaxRowsPerRowGroup(3)))
	}
	_, there := objectStore(t, root)
	flags := strings.Fields("--targets masks,boxes,text --shuffle --seed 3 --batch-size 4 --resize random-resized-crop --size 20x20 --flip 0.5 --list " +
		"nhwc,labels.npy,masks.npy,boxes.npy,boxes.labels.npy,boxes.offsets.npy,boxes.ids.npy,boxes.flags.npy,text.jsonl")
	want := allBatches(t, mountBatchfs(t, m.dir, flags...), 1)
	if len(want) != 2*4*9 {
		t.Errorf("there are %d files", len(want))
	}
	for _, place := range []string{
		there[1] + "/masked/metadata.jsonl", root + "/packed", "s3://packed/train-*.parquet",
	} {
		all := flags
		if strings.Contains(place, "://") {
			all = slices.Concat(flags, there)
		}
		for range 2 { // the first mount has kept what it read
			sameFrom(t, want, 1, place, all...).finish(t)
		}
	}
	for name, shares := range map[string][]string{"packed": {"--packed-ratio", "1"}, "raw": {"--raw-ratio", "1"}} {
		out := filepath.Join(t.TempDir(), name)
		execute(t, append([]string{"convert", m.dir, out}, shares...)...).done(t)
		sameFrom(t, want, 1, out, flags...).finish(t)
	}
}
