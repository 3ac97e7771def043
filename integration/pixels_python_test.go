package integration

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/batchfs/batchfs/internal/testkit"
	"github.com/batchfs/batchfs/layout"
)

// A typedBatch describes a batch to a Python program: its path without an extension, files
// with the expected bytes of its images and of the same batch as uint8, both in order nhwc,
// and other expected values.
type typedBatch struct {
	Path, DType, Images, Bytes string
	Shape                      [4]int // of images as bytes in order nhwc
	NCHW                       bool
	Mean, Std                  []float64
	Valid                      int
	Labels, IDs                []int64
	Sizes                      [][2]int32
}

// readTyped is the beginning of all programs below. each(kinds) yields batches of some
// dtypes: the batch's description, its images in the mount's order, as numbers computed
// here, and as uint16 or uint32 as they must be in the file.
const readTyped = `
import json, sys
import numpy as np
def each(*kinds):
    for d in json.loads(sys.argv[1]):
        if d["DType"] not in kinds: continue
        bits = {"uint8": "u1", "float16": "<u2", "bfloat16": "<u2", "float32": "<u4"}[d["DType"]]
        order = (lambda x: np.ascontiguousarray(x.transpose(0, 3, 1, 2))) if d["NCHW"] else (lambda x: x)
        v = np.fromfile(d["Bytes"], np.uint8).reshape(d["Shape"]).astype(np.float64)
        if d["Mean"]: v = (v - np.array(d["Mean"])) / np.array(d["Std"])
        yield d, order(v.astype(np.float32)), order(np.fromfile(d["Images"], bits).reshape(d["Shape"]))
    assert sys.argv[1] != "[]"
`

// typedMounts mounts an album in every dtype and describes all batches to Python.
func typedMounts(t *testing.T) (reader *mounted, told string) {
	a := smallAlbum(t)
	dir := scratch(t)
	var all []typedBatch
	var bytewise []string
	for i, dtype := range allDTypes {
		l := look{mode: "random-resized-crop", flip: 0.5, dtype: dtype, settings: settings{batch: 5, shards: 2, shuffle: true, seed: 3, height: 11, width: 7, fill: 9, nchw: i%2 == 1}}
		if dtype != layout.Uint8 {
			l.mean, l.std = normalizations[0].of(3)
		}
		m, convert := mountBatchfs(t, a.dir, l.flags()...), l.convert()
		for batch := range newOracle(t, a.dir, l.settings).plan.Batches(0, 0) {
			b := m.show(t, l, 0, 0, batch)
			if dtype == layout.Uint8 {
				bytewise = append(bytewise, filepath.Join(dir, fmt.Sprintf("%d.bytes", batch)))
				writeFile(t, bytewise[batch], b.nhwc)
			}
			d := typedBatch{
				Path: strings.TrimSuffix(m.path(0, 0, batch, layout.JSON), ".json"), DType: b.DType, NCHW: l.nchw, Mean: l.mean, Std: l.std, Valid: b.Valid,
				Shape: [4]int{b.spec.N, b.spec.H, b.spec.W, b.spec.C}, Bytes: bytewise[batch], Images: filepath.Join(dir, fmt.Sprintf("%d.%s", batch, dtype)),
			}
			for _, s := range b.Samples {
				d.Labels, d.IDs, d.Sizes = append(d.Labels, s.Label), append(d.IDs, s.ID), append(d.Sizes, [2]int32{s.Height, s.Width})
			}
			pixels := b.nhwc
			if dtype != layout.Uint8 {
				u := mustRead(t, bytewise[batch])
				pixels = convert(u)
			}
			writeFile(t, d.Images, pixels)
			all = append(all, d)
		}
		reader = m
	}
	text, err := json.Marshal(all)
	if err != nil {
		t.Fatal(err)
	}
	return reader, string(text)
}

// TestReadDTypes reads arrays of every dtype with common libraries, each in one line, and
// compares them with numbers that the libraries computed themselves.
func TestReadDTypes(t *testing.T) {
	skipWithoutFUSE(t)
	t.Parallel()
	m, told := typedMounts(t)
	for _, test := range []struct {
		name    string
		modules []string
		program string
	}{
		{"numpy", []string{"numpy"}, `
for d, v, bits in each("uint8", "float16", "float32"):
    x = np.load(d["Path"] + ".npy", mmap_mode="r")
    assert x.dtype == np.dtype(d["DType"]) and x.shape == v.shape and x.offset == 4096, d["Path"]
    assert np.array_equal(x.view(bits.dtype), bits) and np.array_equal(x, v.astype(x.dtype)), d["Path"]
    raw = np.memmap(d["Path"] + (".nchw" if d["NCHW"] else ".nhwc"), x.dtype, "r").reshape(v.shape)
    assert np.array_equal(raw, x), d["Path"]
    assert np.array_equal(np.load(d["Path"] + ".sizes.npy"), d["Sizes"])
for d, v, bits in each("bfloat16"):  # which NumPy does not know
    x = np.load(d["Path"] + ".npy", mmap_mode="r")
    assert x.dtype == np.dtype("V2") and x.shape == v.shape and x.offset == 4096, d["Path"]
    assert np.array_equal(x.view(np.uint16), bits), d["Path"]
    near = (x.view(np.uint16).astype(np.uint32) << 16).view(np.float32)
    assert np.all(np.abs(near - v) <= np.abs(v) / 256), d["Path"]
`},
		{"ml_dtypes", []string{"numpy", "ml_dtypes"}, `
import ml_dtypes
for d, v, bits in each("bfloat16"):
    x = np.load(d["Path"] + ".npy", mmap_mode="r").view(ml_dtypes.bfloat16)
    assert x.shape == v.shape and np.array_equal(x, v.astype(ml_dtypes.bfloat16)), d["Path"]
`},
		{"torch", []string{"numpy", "torch", "safetensors"}, `
import torch
from safetensors.torch import load_file
for d, v, bits in each("uint8", "float16", "float32"):
    x = torch.from_numpy(np.load(d["Path"] + ".npy", mmap_mode="c"))
    kind = getattr(torch, d["DType"])
    assert x.dtype == kind and torch.equal(x, torch.from_numpy(v).to(kind)), d["Path"]
for d, v, bits in each("bfloat16"):
    x = torch.from_numpy(np.load(d["Path"] + ".npy", mmap_mode="c").view(np.int16)).view(torch.bfloat16)
    assert torch.equal(x, torch.from_numpy(v).to(torch.bfloat16)), d["Path"]
for d, v, bits in each("uint8", "float16", "bfloat16", "float32"):
    x, kind = load_file(d["Path"] + ".safetensors"), getattr(torch, d["DType"])
    assert x["images"].dtype == kind and torch.equal(x["images"], torch.from_numpy(v).to(kind)), d["Path"]
    assert x["ids"].tolist() == d["IDs"] and x["sizes"].tolist() == d["Sizes"], d["Path"]
`},
		{"safetensors", []string{"numpy", "safetensors"}, `
from safetensors import safe_open
from safetensors.numpy import load_file
for d, v, bits in each("uint8", "float16", "float32"):
    path = d["Path"] + ".safetensors"
    x = load_file(path)
    assert sorted(x) == ["ids", "images", "labels", "sizes", "valid"], x.keys()
    assert x["images"].dtype == np.dtype(d["DType"]) and np.array_equal(x["images"].view(bits.dtype), bits), path
    assert np.array_equal(x["ids"], d["IDs"]) and np.array_equal(x["labels"], d["Labels"]) and np.array_equal(x["sizes"], d["Sizes"]) and x["valid"].tolist() == [d["Valid"]], path
for d, v, bits in each("bfloat16"):
    path = d["Path"] + ".safetensors"
    with safe_open(path, framework="np") as f:
        assert f.get_slice("images").get_dtype() == "BF16" and f.get_slice("images").get_shape() == list(v.shape), path
        assert np.array_equal(f.get_tensor("sizes"), d["Sizes"]) and f.get_tensor("valid").tolist() == [d["Valid"]], path
`},
	} {
		t.Run(test.name, func(t *testing.T) {
			m.run(t, testkit.Python(t, test.modules...), "-c", readTyped+test.program, told)
		})
	}
}

// TestPixelsLikeTorchvision resizes real photos, and pictures of every shape, with Pillow
// as torchvision does, to the windows in each batch's document.
func TestPixelsLikeTorchvision(t *testing.T) {
	const program = `
import json, os, sys
import numpy as np
from PIL import Image, ImageOps
root, epoch, mode, allowed = sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4])
seen, worst = 0, 0
for name in sorted(os.listdir(epoch)):
    if not name.endswith(".npy") or name.count(".") > 1: continue
    x = np.load(os.path.join(epoch, name)).astype(np.int16)
    doc = json.load(open(os.path.join(epoch, name[:-4] + ".json")))
    for slot, s in enumerate(doc["samples"]):
        image = ImageOps.exif_transpose(Image.open(os.path.join(root, s["path"]))).convert("RGB")
        (top, left, h, w), size = s["crop"], (s["width"], s["height"])
        if mode == "random-resized-crop":  # no pixel outside the window has a part in it
            image = image.crop((left, top, left + w, top + h)).resize(size, Image.BILINEAR)
        else:
            image = image.resize(size, Image.BILINEAR, box=(left, top, left + w, top + h))
        if s["flip"]: image = ImageOps.mirror(image)
        far = int(np.abs(x[slot, :s["height"], :s["width"]] - np.asarray(image, np.int16)).max())
        assert far <= allowed, (s, far)
        seen, worst = seen + 1, max(worst, far)
print(seen)
`
	skipWithoutFUSE(t)
	python := testkit.Python(t, "numpy", "PIL")
	for _, test := range []struct {
		name, dir     string
		modes         []string
		height, width int
		count         int
	}{
		{"photos", photos(t), allModes[3:], 224, 224, 12}, {"album", smallAlbum(t).dir, allModes[1:], albumHeight, albumWidth, 22},
	} {
		for _, mode := range test.modes {
			l := look{mode: mode, flip: 0.5, settings: settings{batch: 6, seed: 4, height: test.height, width: test.width}}
			t.Run(test.name+"/"+mode, func(t *testing.T) {
				t.Parallel()
				m := mountBatchfs(t, test.dir, l.flags("--last-batch", "partial", "--list", "npy")...)
				if got := m.run(t, python, "-c", program, test.dir, m.epochDir(0, 0), mode, m.likeLibjpeg(t)); got != fmt.Sprintln(test.count) {
					t.Errorf("%s pictures were compared, of %d", got, test.count)
				}
			})
		}
	}
}

// likeLibjpeg is the allowed difference from Pillow, in levels: two, or more if JPEGs are
// decoded with another library than Pillow's.
func (m *mounted) likeLibjpeg(t *testing.T) string {
	t.Helper()
	var doc struct{ Decoder string }
	m.document(t, "dataset.json", &doc)
	if strings.Contains(doc.Decoder, "libjpeg") {
		return "2"
	}
	return "12"
}

// TestNormalizedLikeTorchvision runs the most common training pipeline: torchvision's
// random-resized-crop, flip, to_tensor and normalize.
func TestNormalizedLikeTorchvision(t *testing.T) {
	const program = `
import json, os, sys
import numpy as np, torch
from PIL import Image
from torchvision.transforms import functional as F
root, path, allowed = sys.argv[1], sys.argv[2], float(sys.argv[3])
mean, std = [0.485, 0.456, 0.406], [0.229, 0.224, 0.225]
x = torch.from_numpy(np.load(path + ".npy"))
assert x.dtype == torch.float32
for slot, s in enumerate(json.load(open(path + ".json"))["samples"]):
    top, left, h, w = map(int, s["crop"])
    image = F.resized_crop(Image.open(os.path.join(root, s["path"])).convert("RGB"), top, left, h, w, [s["height"], s["width"]])
    if s["flip"]: image = F.hflip(image)
    want = F.normalize(F.to_tensor(image), mean, std)
    far = ((x[slot] - want) * torch.tensor(std).reshape(3, 1, 1)).abs().max().item() * 255
    assert far <= allowed + 0.01, (s, far)
`
	skipWithoutFUSE(t)
	t.Parallel()
	python := testkit.Python(t, "numpy", "torch", "torchvision", "PIL")
	l := look{mode: "random-resized-crop", flip: 0.5, dtype: layout.Float32, settings: settings{batch: 6, height: 160, width: 128, nchw: true, shuffle: true}}
	m := mountBatchfs(t, photos(t), l.flags("--normalize", "imagenet")...)
	m.run(t, python, "-c", program, photos(t), filepath.Join(m.epochDir(0, 2), layout.BatchName(1)), m.likeLibjpeg(t))
}
