package integration

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/batchfs/batchfs/internal/gen"
	"github.com/batchfs/batchfs/internal/testkit"
)

// A way is a setting of how a batch is made and transferred, which must not change a byte.
type way struct{ path, workers, depth string }

// ways returns all combinations available on this machine.
func ways() (all []way) {
	for _, path := range []string{"passthrough", "direct"} {
		if path == "passthrough" && !(os.Getuid() == 0 && capabilities().Passthrough) {
			continue
		}
		for _, workers := range []string{"1", "8"} {
			for _, depth := range []string{"1", "4"} {
				all = append(all, way{path, workers, depth})
			}
		}
	}
	return all
}

func (w way) flags() []string {
	return []string{"--read-path", w.path, "--workers", w.workers, "--prefetch-queue-depth", w.depth}
}

// drawnByPillow makes two epochs of a mount again, from its flags, the files and the slots in
// .json: MOUNT DATASET LEVELS FLAG=VALUE... LEVELS is how far a pixel may be from Pillow's. It
// prints how many samples were shown, and in which states.
const drawnByPillow = `
import json, sys
import numpy as np
from PIL import Image, ImageOps
mount, root, levels = sys.argv[1], sys.argv[2], float(sys.argv[3])
flags = dict(f.removeprefix("--").split("=") for f in sys.argv[4:])
mode, kind, fill, flip = flags["resize"], flags.get("dtype", "uint8"), int(flags.get("fill", 0)), float(flags.get("flip", 0))
channels, planes = (1 if flags.get("color") == "gray" else 3), flags.get("layout") == "nchw"
size = [int(n) for n in flags["size"].split("x")] if "size" in flags else None
multiple = int(flags.get("pad-multiple", 1))
mean, std = np.zeros(channels), np.ones(channels)
if flags.get("normalize") == "imagenet":
    mean, std = 255 * np.array([0.485, 0.456, 0.406]), 255 * np.array([0.229, 0.224, 0.225])
elif "mean" in flags:
    mean, std = (np.array([float(v) for v in flags[f].split(",")]) for f in ("mean", "std"))
rounding = {"uint8": 0, "float16": 0.2, "bfloat16": 1, "float32": 0.01}[kind]
states, windows, flips, seen = set(), {}, 0, 0

def picture(s):
    image = Image.open(root + "/" + s["path"])
    if channels == 1: image.draft("L", None)  # the luma of a JPEG is its gray
    if "ignore-orientation" not in flags: image = ImageOps.exif_transpose(image)
    image = image.convert("L" if channels == 1 else "RGB")
    (top, left, h, w), size = s["crop"], (s["width"], s["height"])
    if mode == "random-resized-crop":  # no pixel outside the window has a part in it
        image = image.crop((left, top, left + w, top + h)).resize(size, Image.BILINEAR)
    elif mode != "none":
        image = image.resize(size, Image.BILINEAR, box=(left, top, left + w, top + h))
    else:
        assert (left, top, w, h) == (0, 0, *image.size) and image.size == size, s
    if s["flip"]: image = ImageOps.mirror(image)
    return np.asarray(image, np.float64).reshape(s["height"], s["width"], channels)

for epoch in range(2):
    for shard in range(int(flags.get("shards", 1))):
        directory = f"{mount}/shard-{shard}/epoch-{epoch}"
        for k in range(json.load(open(directory + "/epoch.json"))["batches"]):
            path = f"{directory}/batch-{k:05d}."
            doc, x = json.load(open(path + "json")), np.load(path + "npy")
            assert list(x.shape) == doc["shape"] and doc["dtype"] == kind, path
            if planes: x = x.transpose(0, 2, 3, 1)
            assert open(path + "nhwc", "rb").read() == x.tobytes(), path
            assert open(path + "nchw", "rb").read() == x.transpose(0, 3, 1, 2).tobytes(), path
            if kind == "bfloat16": x = (x.view(np.uint16).astype(np.uint32) << 16).view(np.float32)
            x = x.astype(np.float64) * std + mean
            for form, key in ("labels", "label"), ("ids", "id"):
                assert np.load(f"{path}{form}.npy").tolist() == [s[key] for s in doc["samples"]], (path, form)
            assert np.load(path + "sizes.npy").tolist() == [[s["height"], s["width"]] for s in doc["samples"]], path
            largest = [max(s[side] for s in doc["samples"]) for side in ("height", "width")]
            assert x.shape[1:] == (*(size or (-(-n // multiple) * multiple for n in largest)), channels), path
            for got, s in zip(x, doc["samples"]):
                h, w = s["height"], s["width"]
                states.add(s["status"])
                for margin in got[h:], got[:, w:]:
                    assert np.abs(margin - fill).max(initial=0) <= rounding, (path, s)
                if s["status"] == "zeroed" or s["status"] == "padded" and s["label"] == -1 and h == 0:
                    assert h == w == 0 and s["label"] == -1, s
                    continue
                assert mode in ("none", "not-larger") or [h, w] == size, s
                assert mode != "not-larger" or h == size[0] or w == size[1], s
                exact = mode == "none" and not s["path"].endswith((".jpg", ".webp"))
                far = np.abs(got[:h, :w] - picture(s))
                assert far.max() <= (0 if exact else levels) + rounding and far.mean() < 1 + rounding, (s, far.max())
                windows.setdefault(s["id"], set()).add(str(s["crop"]) + str(s["flip"]))
                seen, flips = seen + 1, flips + s["flip"]
assert flips in (0, seen) if flip in (0, 1) else seen / 5 < flips < seen * 4 / 5, (flips, seen)
assert flips == 0 or flip > 0
# One picture has a single pixel, and some crops cover the whole picture.
assert mode != "random-resized-crop" or sum(len(w) > 1 for w in windows.values()) >= len(windows) - 6, windows
print(len(windows), *sorted(states))
`

// TestPixels: batches show the files as Pillow draws them by the mount's flags and its .json, in
// every mode of --resize, every dtype, color and layout, even if bad files are replaced or zeroed,
// and however batches are made and read. Packages resample and engine test which windows and flips
// are chosen.
func TestPixels(t *testing.T) {
	python := testkit.Python(t, "numpy", "PIL")
	torn := filepath.Join(scratch(t), "torn") // the album in two classes, with some files cut off
	for name, data := range testkit.Files(t, smallAlbum(t)) {
		switch name[:2] {
		case "04", "09", "15", "21":
			data = data[:len(data)*2/3]
		}
		writeFile(t, filepath.Join(torn, fmt.Sprint("class-", name[1]%2), name), data)
	}
	every := filepath.Join(scratch(t), "every")
	for _, format := range gen.Formats() {
		check(t, gen.Write(t.Context(), gen.Options{Dir: filepath.Join(every, format), Images: 3, Classes: 1, Format: format}))
	}
	album, photos := smallAlbum(t), photos(t)
	const own, all, bad = "22 ok", "22 ok padded", "18 ok padded "
	for i, c := range []struct{ dataset, flags, want string }{
		{every, "--resize=none", fmt.Sprint(3*len(gen.Formats()), " ok")},
		{photos, "--resize=not-smaller --size=224x224", "12 ok"},
		{photos, "--resize=center-crop --resize-to=256 --size=224x224 --flip=1", "12 ok"},
		{photos, "--resize=random-resized-crop --size=160x128 --dtype=float32 --normalize=imagenet --layout=nchw --shuffle=true", "12 ok"},
		{album, "--resize=none --pad-multiple=32 --fill=255", own},
		{album, "--resize=none --pad-multiple=7 --fill=1 --dtype=float16 --mean=1,2,3 --std=4,5,6 --ignore-orientation=true --layout=nchw", own},
		{album, "--resize=none --flip=1 --size=150x160 --color=gray --dtype=float32 --mean=9 --std=2 --fill=200", own},
		{album, "--resize=stretch --size=24x33 --flip=0.5 --color=gray --shards=2", all},
		{album, "--resize=not-larger --size=24x33 --flip=0.5 --fill=99 --dtype=bfloat16 --layout=nchw", own},
		{album, "--resize=not-larger --size=50x11 --flip=1 --color=gray --dtype=float16", own},
		{album, "--resize=not-smaller --size=24x33 --flip=0.5 --ignore-orientation=true --shuffle=true", own},
		{album, "--resize=center-crop --size=24x33 --resize-to=38 --flip=0.5 --dtype=float32", own},
		{album, "--resize=random-resized-crop --size=24x33 --flip=0.5 --shuffle=true --shards=2 --layout=nchw", all},
		{album, "--resize=random-resized-crop --size=24x33 --color=gray --dtype=bfloat16 --mean=127.5 --std=127.5", own},
		{torn, "--resize=random-resized-crop --size=12x20 --flip=0.5 --on-error=replace --last-batch=fill", bad + "replaced"},
		{torn, "--resize=not-larger --size=12x20 --flip=0.5 --on-error=replace --last-batch=fill --dtype=float16 --mean=1,2,3 --std=4,5,6 --fill=70", bad + "replaced"},
		{torn, "--resize=stretch --size=12x20 --on-error=zero --last-batch=fill --dtype=float32 --color=gray --fill=70", bad + "zeroed"},
		{torn, "--resize=not-smaller --size=12x20 --on-error=zero --last-batch=fill --layout=nchw", bad + "zeroed"},
	} {
		t.Run(filepath.Base(c.dataset)+" "+c.flags, func(t *testing.T) {
			t.Parallel()
			flags := append(strings.Fields(c.flags), "--seed=4", "--batch-size=4")
			if !strings.Contains(c.flags, "--last-batch") && !strings.Contains(c.flags, "--shards") {
				flags = append(flags, "--last-batch=partial")
			}
			m := mountBatchfs(t, c.dataset, append(ways()[i%len(ways())].flags(), flags...)...)
			args := append([]string{python, "-c", drawnByPillow, m.dir, c.dataset, m.likeLibjpeg(t)}, flags...)
			if got := strings.TrimSpace(m.run(t, args...)); got != c.want {
				t.Errorf("shown are %s, not %s", got, c.want)
			}
			if lines := m.badLines(t); c.dataset == torn && len(lines) != 4 {
				t.Errorf("%d lines for 4 bad files: %+v", len(lines), lines)
			}
		})
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

// readTyped is the beginning of the programs below. each(kinds) yields batches of mounts of some
// dtypes, whose directories are the argument: the path without an extension, the document, and the
// images in the mount's order, as numbers computed from those of the mount of bytes.
const readTyped = `
import json, sys
import numpy as np
mounts = json.loads(sys.argv[1])
def each(*kinds):
    batches = json.load(open(mounts["uint8"] + "/epoch.json"))["batches"]
    assert batches > 1
    for kind in kinds:
        for k in range(batches):
            path = f"{mounts[kind]}/batch-{k:05d}"
            doc = json.load(open(path + ".json"))
            n, h, w, c = doc["shape"] if doc["layout"] == "nhwc" else (doc["shape"][i] for i in (0, 2, 3, 1))
            v = np.fromfile(f"{mounts['uint8']}/batch-{k:05d}.nhwc", np.uint8).reshape(n, h, w, c).astype(np.float64)
            if kind != "uint8": v = (v - 255 * np.array([0.485, 0.456, 0.406])) / (255 * np.array([0.229, 0.224, 0.225]))
            if doc["layout"] == "nchw": v = np.ascontiguousarray(v.transpose(0, 3, 1, 2))
            assert doc["dtype"] == kind
            yield path, doc, v.astype(np.float32)
def column(doc, name): return [s[name] for s in doc["samples"]]
def sizes(doc): return [[s["height"], s["width"]] for s in doc["samples"]]
`

// TestReadDTypes reads arrays of every dtype with common libraries, each in one line, as in the
// README, and compares them with numbers that the libraries computed themselves. Every mount is
// read in another way.
func TestReadDTypes(t *testing.T) {
	t.Parallel()
	dirs := map[string]string{}
	var m *mounted
	for i, dtype := range []string{"uint8", "float16", "bfloat16", "float32"} {
		flags := append(ways()[(3*i)%len(ways())].flags(), strings.Fields("--resize random-resized-crop --flip 0.5 --batch-size 5 --shards 2 --shuffle --seed 3 --size 11x7 --fill 9 --dtype "+dtype)...)
		if dtype != "uint8" {
			flags = append(flags, "--normalize", "imagenet")
		}
		if i%2 == 1 {
			flags = append(flags, "--layout", "nchw")
		}
		m = mountBatchfs(t, smallAlbum(t), flags...)
		dirs[dtype] = m.epochDir(0, 0)
	}
	told, err := json.Marshal(dirs)
	check(t, err)
	for _, test := range []struct {
		name    string
		modules []string
		program string
	}{
		{"numpy", []string{"numpy"}, `
for path, doc, v in each("uint8", "float16", "bfloat16", "float32"):
    kind = doc["dtype"]
    x = np.load(path + ".npy", mmap_mode="r")
    assert isinstance(x, np.memmap) and x.shape == v.shape and x.offset == 4096, path
    if kind == "bfloat16":  # which NumPy does not know
        assert x.dtype == np.dtype("V2"), path
        b = v.view(np.uint32)
        assert np.array_equal(x.view(np.uint16), b + 0x7fff + (b >> 16 & 1) >> 16), path
    else:
        assert x.dtype == np.dtype(kind) and np.array_equal(x, v.astype(kind)), path
    file = path + "." + doc["layout"]
    for raw in np.memmap(file, np.uint8, "r"), np.fromfile(file, np.uint8):
        assert raw.tobytes() == x.tobytes(), path
    y, ids, sized, valid = (np.load(f"{path}.{name}.npy") for name in ("labels", "ids", "sizes", "valid"))
    assert y.dtype == ids.dtype == np.int64 and y.tolist() == column(doc, "label") and ids.tolist() == column(doc, "id"), path
    assert sized.dtype == np.int32 and sized.tolist() == sizes(doc), path
    assert valid.dtype == np.bool_ and valid.tolist() == [i < doc["valid"] for i in range(len(y))], path
`},
		{"ml_dtypes", []string{"numpy", "ml_dtypes"}, `
import ml_dtypes
for path, doc, v in each("bfloat16"):
    x = np.load(path + ".npy", mmap_mode="r").view(ml_dtypes.bfloat16)
    assert x.shape == v.shape and np.array_equal(x, v.astype(ml_dtypes.bfloat16)), path
`},
		{"torch", []string{"numpy", "torch", "safetensors"}, `
import torch
from safetensors.torch import load_file
for path, doc, v in each("uint8", "float16", "bfloat16", "float32"):
    kind = getattr(torch, doc["dtype"])
    x = np.load(path + ".npy", mmap_mode="c")
    x = torch.from_numpy(x.view(np.int16)).view(kind) if doc["dtype"] == "bfloat16" else torch.from_numpy(x)
    assert x.dtype == kind and torch.equal(x, torch.from_numpy(v).to(kind)), path
    file, size = path + "." + doc["layout"], x.nbytes if hasattr(x, "nbytes") else x.numel() * x.element_size()
    s = torch.UntypedStorage.from_file(file, False, size) if hasattr(torch, "UntypedStorage") else torch.ByteStorage.from_file(file, False, size)
    assert torch.equal(torch.tensor([], dtype=kind).set_(s).reshape(v.shape), x), path
    assert torch.from_numpy(np.load(path + ".labels.npy")).tolist() == column(doc, "label"), path
    x = load_file(path + ".safetensors")
    assert x["images"].dtype == kind and torch.equal(x["images"], torch.from_numpy(v).to(kind)), path
    assert x["ids"].tolist() == column(doc, "id") and x["sizes"].tolist() == sizes(doc), path
`},
		{"safetensors", []string{"numpy", "safetensors"}, `
from safetensors import safe_open
from safetensors.numpy import load_file
def same(path, doc, x):
    for name, kind, want in ("ids", "int64", column(doc, "id")), ("labels", "int64", column(doc, "label")), ("sizes", "int32", sizes(doc)), ("valid", "int64", [doc["valid"]]):
        assert x[name].dtype == np.dtype(kind) and x[name].tolist() == want, (path, name)
for path, doc, v in each("uint8", "float16", "float32"):
    x = load_file(path + ".safetensors")
    assert sorted(x) == ["ids", "images", "labels", "sizes", "valid"], x.keys()
    assert x["images"].dtype == np.dtype(doc["dtype"]) and np.array_equal(x["images"], v.astype(doc["dtype"])), path
    same(path, doc, x)
for path, doc, v in each("uint8", "bfloat16"):
    with safe_open(path + ".safetensors", framework="np") as f:
        images = f.get_slice("images")
        assert images.get_dtype() == {"uint8": "U8", "bfloat16": "BF16"}[doc["dtype"]] and images.get_shape() == list(v.shape), path
        same(path, doc, {k: f.get_tensor(k) for k in f.keys() if k != "images"})
`},
	} {
		t.Run(test.name, func(t *testing.T) {
			m.run(t, testkit.Python(t, test.modules...), "-c", readTyped+test.program, string(told))
		})
	}
}
