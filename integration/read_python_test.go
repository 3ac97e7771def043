package integration

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/batchfs/batchfs/internal/gen"
	"github.com/batchfs/batchfs/internal/testkit"
	"github.com/batchfs/batchfs/layout"
)

// A pythonBatch describes a batch to a Python program: its path without an extension, and
// files with the expected bytes of its arrays.
type pythonBatch struct {
	Path               string
	Shape              [4]int
	Valid              int
	Images             string
	Labels, IDs, Sizes any
}

// pythonBatches describes the expected batches of an epoch.
func pythonBatches(t *testing.T, m *mounted, o *oracle, shard, epoch int) string {
	t.Helper()
	dir := scratch(t)
	var all []pythonBatch
	for b := range o.plan.Batches(shard, epoch) {
		x := o.batch(t, shard, epoch, b)
		p := pythonBatch{
			Path: filepath.Join(m.epochDir(shard, epoch), layout.BatchName(b)), Shape: o.shape(x), Valid: x.valid,
			Images: filepath.Join(dir, strconv.Itoa(b)), Labels: x.labels, IDs: x.ids, Sizes: x.sizes,
		}
		writeFile(t, p.Images, o.tensor(x))
		all = append(all, p)
	}
	text, err := json.Marshal(all)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// TestReadNumPyAndPyTorch reads each array in one line, as in the README, and compares it
// with the files decoded directly.
func TestReadNumPyAndPyTorch(t *testing.T) {
	const program = `
import json, sys
import numpy as np
if sys.argv[2] == "torch": import torch
for d in json.loads(sys.argv[1]):
    b = d["Path"]
    want = np.fromfile(d["Images"], np.uint8).reshape(d["Shape"])

    x = np.load(f"{b}.npy", mmap_mode="r"); y = np.load(f"{b}.labels.npy")
    assert isinstance(x, np.memmap) and x.dtype == np.uint8 and x.offset == 4096 and np.array_equal(x, want), b
    assert y.dtype == np.int64 and np.array_equal(y, d["Labels"]), b
    assert np.array_equal(np.load(f"{b}.npy"), want), b
    assert np.array_equal(np.fromfile(f"{b}.nchw", np.uint8).reshape(want.shape), want), b
    assert np.array_equal(np.memmap(f"{b}.nchw", np.uint8, "r", shape=want.shape), want), b
    nhwc = np.ascontiguousarray(want.transpose(0, 2, 3, 1))
    assert np.array_equal(np.memmap(f"{b}.nhwc", np.uint8, "r").reshape(nhwc.shape), nhwc), b
    ids = np.load(f"{b}.ids.npy", mmap_mode="r"); sizes = np.load(f"{b}.sizes.npy", mmap_mode="r")
    assert ids.dtype == np.int64 and np.array_equal(ids, d["IDs"]), b
    valid = np.load(f"{b}.valid.npy")
    assert valid.dtype == np.bool_ and np.array_equal(valid, np.arange(len(y)) < d["Valid"]), b
    assert sizes.dtype == np.int32 and np.array_equal(sizes, d["Sizes"]), b
    doc = json.load(open(f"{b}.json"))
    assert doc["shape"] == list(want.shape) and [s["id"] for s in doc["samples"]] == d["IDs"] and doc["valid"] == d["Valid"], b

    if sys.argv[2] == "torch":
        x = torch.from_numpy(np.load(f"{b}.npy", mmap_mode="c"))
        assert x.dtype == torch.uint8 and torch.equal(x, torch.from_numpy(want)), b
        assert torch.from_numpy(np.load(f"{b}.labels.npy")).tolist() == d["Labels"], b
        s = torch.UntypedStorage.from_file(f"{b}.nchw", False, want.size) if hasattr(torch, "UntypedStorage") else torch.ByteStorage.from_file(f"{b}.nchw", False, want.size)
        assert torch.equal(torch.tensor([], dtype=torch.uint8).set_(s).reshape(want.shape), torch.from_numpy(want)), b
`
	images := mixedImages(t)
	overReadPaths(t, func(t *testing.T, user account, readPath string) {
		modules, torch := []string{"numpy"}, "no"
		if readPath == "passthrough" || user.name == "user" { // slow to import
			modules, torch = append(modules, "torch"), "torch"
		}
		python := testkit.Python(t, modules...)
		s := settings{batch: 6, shards: 2, shuffle: true, seed: 8, nchw: true}
		m := mountAs(t, user, images, s.flags("--read-path", readPath)...)
		m.run(t, python, "-c", program, pythonBatches(t, m, newOracle(t, images, s), 1, 3), torch)
	})
}

// TestReadSafetensors opens files with the real library. TestReadDTypes has batches in color
// and of other types.
func TestReadSafetensors(t *testing.T) {
	const program = `
import json, sys
import numpy as np
from safetensors import safe_open
from safetensors.numpy import load_file
try:
    import torch
    from safetensors.torch import load_file as load_torch
except ImportError:
    torch = None
for i, d in enumerate(json.loads(sys.argv[1])):
    path = d["Path"] + ".safetensors"
    want = {
        "images": np.fromfile(d["Images"], np.uint8).reshape(d["Shape"]), "labels": np.array(d["Labels"], np.int64),
        "ids": np.array(d["IDs"], np.int64), "sizes": np.array(d["Sizes"], np.int32), "valid": np.array([d["Valid"]], np.int64),
    }
    def same(got):
        assert sorted(got) == sorted(want), got.keys()
        for k in want:
            g = np.asarray(got[k])
            assert g.dtype == want[k].dtype and np.array_equal(g, want[k]), (path, k)
    same(load_file(path))
    with safe_open(path, framework="np") as f:
        same({k: f.get_tensor(k) for k in f.keys()})
    if torch is not None: same({k: v.numpy() for k, v in load_torch(path).items()})
`
	skipWithoutFUSE(t)
	python := testkit.Python(t, "numpy", "safetensors")
	images := mixedImages(t)
	s := settings{batch: 7, shards: 3, shuffle: true, nchw: true, gray: true, fill: 9}
	m := mountBatchfs(t, images, s.flags()...)
	m.run(t, python, "-c", program, pythonBatches(t, m, newOracle(t, images, s), 0, 0))
}

// TestReadLikePillow compares batches with Pillow's decoding of the files: equal for
// lossless formats, close for JPEG and WebP, whose decoders may round differently.
func TestReadLikePillow(t *testing.T) {
	const program = `
import json, sys, os
import numpy as np
from PIL import Image
root, epoch = sys.argv[1:3]
seen = 0
for name in sorted(os.listdir(epoch)):
    if not name.endswith(".npy") or name.count(".") > 1: continue
    x = np.load(os.path.join(epoch, name))
    doc = json.load(open(os.path.join(epoch, name[:-4] + ".json")))
    for slot, s in enumerate(doc["samples"]):
        want = np.asarray(Image.open(os.path.join(root, s["path"])).convert("RGB"), np.int16)
        got = x[slot, :s["height"], :s["width"]].astype(np.int16)
        assert got.shape == want.shape, s
        far = int(np.abs(got - want).max())
        lossy = s["path"].endswith((".jpg", ".webp"))
        assert far == 0 or lossy and far <= 12 and np.abs(got - want).mean() < 1, (s["path"], far)
        assert not x[slot, s["height"]:].any() and not x[slot, :, s["width"]:].any(), s
        seen += 1
print(seen)
`
	python := testkit.Python(t, "numpy", "PIL")
	dir := filepath.Join(scratch(t), "images")
	n := 0
	for _, format := range gen.Formats() {
		from := makeDataset(t, gen.Options{Images: 3, Classes: 3, Format: format})
		files, err := filepath.Glob(filepath.Join(from, "*", "*"))
		if err != nil {
			t.Fatal(err)
		}
		for i, path := range files {
			if err := os.Rename(path, filepath.Join(mkdir(t, filepath.Join(dir, format)), fmt.Sprint(i)+filepath.Ext(path))); err != nil {
				t.Fatal(err)
			}
			n++
		}
	}
	m := mountBatchfs(t, dir, "--batch-size", "4", "--last-batch", "partial", "--size", "400x512", "--list", "npy")
	if got := m.run(t, python, "-c", program, dir, m.epochDir(0, 0)); got != fmt.Sprintln(n) {
		t.Errorf("%s samples were compared, of %d", got, n)
	}
}

func mkdir(t testing.TB, path string) string {
	t.Helper()
	if err := os.MkdirAll(path, 0o755); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestReadLikeImageFolder compares order and labels with torchvision's ImageFolder, from
// the directory to the batches.
func TestReadLikeImageFolder(t *testing.T) {
	const program = `
import json, sys
from torchvision.datasets import ImageFolder
folder = ImageFolder(sys.argv[1])
print(json.dumps({"Classes": folder.classes, "Samples": [[p[len(sys.argv[1]) + 1:], l] for p, l in folder.samples]}))
`
	python := testkit.Python(t, "torchvision")
	dir := filepath.Join(scratch(t), "images")
	for i, name := range []string{
		"b/2.ppm", "b/10.ppm", "b/1.ppm", "B/x.PPM", "a/z.ppm", "a/sub/a.ppm", "a/sub/deeper/b.ppm", "a/Sub/c.pgm", "a/.", "ä/1.ppm", "a-b/1.ppm", "a b/1.ppm",
		"a.b/1.ppm", "10/1.ppm", "9/1.ppm", "9/1.txt", "9/a-1.ppm", "9/a.1.ppm", "9/a1.ppm", "9/A1.ppm", "top.ppm",
	} {
		if filepath.Ext(name) == "." {
			continue
		}
		writeFile(t, filepath.Join(dir, name), plainImage(1+i%3, 2, byte(i)))
	}
	var want struct {
		Classes []string
		Samples [][2]any
	}
	out, err := output(thisUser().reader(0, []string{python, "-c", program, dir}))
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal([]byte(out), &want); err != nil {
		t.Fatal(err)
	}
	m := mountBatchfs(t, dir, "--batch-size", "4", "--last-batch", "partial")
	var got [][2]any
	var epoch struct{ Batches int }
	m.document(t, "shard-0/epoch-0/epoch.json", &epoch)
	for b := range epoch.Batches {
		var doc batchDoc
		m.document(t, filepath.Join("shard-0/epoch-0", layout.BatchName(b)+".json"), &doc)
		var labels []int64
		for _, s := range doc.Samples {
			got = append(got, [2]any{s.Path, float64(s.Label)})
			labels = append(labels, s.Label)
		}
		data, err := os.ReadFile(m.path(0, 0, b, layout.Labels))
		if err != nil {
			t.Fatal(err)
		}
		if err := sameArray(data, "<i8", []int{len(labels)}, littleEndian(labels), 0); err != nil {
			t.Errorf("labels of batch %d: %v", b, err)
		}
	}
	if diff := cmp.Diff(want.Samples, got); diff != "" {
		t.Errorf("samples: %s", diff)
	}
	var classes string
	for _, c := range want.Classes {
		classes += c + "\n"
	}
	if got := m.run(t, "cat", filepath.Join(m.dir, "classes.txt")); got != classes {
		t.Errorf("classes: %s", cmp.Diff(classes, got))
	}
}
