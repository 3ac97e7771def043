package integration

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/batchfs/batchfs/internal/testkit"
)

// makeArrays writes the arrays of images, and the manifest that names them: a pose of one shape, a
// track with its own number of rows, and a flag without dimensions. Image 3 has none, and the track
// of image 8 has another dtype.
const makeArrays = `
import json, sys
import numpy as np
root, n = sys.argv[1], int(sys.argv[2])
rng = np.random.default_rng(7)
with open(root + "/m.jsonl", "w") as m, open(root + "/good.jsonl", "w") as good:
    for i in range(n):
        pose = rng.standard_normal((2, 3)).astype("<f2")
        track = rng.integers(-9, 9, (i % 4, 2)).astype("<i4" if i != 8 else "<i8")
        for name, a, version in ("pose", pose, (1, 0)), ("track", track, (2, 0)), ("flag", np.array(i % 2 == 0), (3, 0)):
            with open(f"{root}/{name}{i}.npy", "wb") as f:
                np.lib.format.write_array(f, a, version)
        row = {"path": f"images/{i:02}.png", **({name: f"{name}{i}.npy" for name in ("pose", "track", "flag")} if i != 3 else {})}
        m.write(json.dumps(row) + "\n")
        if i == 8:
            del row["track"]
        good.write(json.dumps(row) + "\n")
`

// tensorsInPython reads .safetensors by the rules of the format.
const tensorsInPython = `
import json, os, sys
import numpy as np
import batchfs
def tensors(path):
    data = open(path, "rb").read()
    assert len(data) == os.stat(path).st_size, path
    n = int.from_bytes(data[:8], "little")
    types = {"I64": "<i8", "I32": "<i4", "F16": "<f2", "F32": "<f4", "BOOL": "|b1", "U8": "|u1"}
    for name, t in json.loads(data[8:8 + n]).items():
        if name != "__metadata__":
            a, b = (8 + n + at for at in t["data_offsets"])
            assert a % np.dtype(types[t["dtype"]]).itemsize == 0, name
            yield name, np.frombuffer(data[a:b], types[t["dtype"]]).reshape(t["shape"])
`

// expectArrays compares all files of arrays of a mount, in two epochs, with the arrays that the
// manifest names for its samples. .json says what slots show; without a shuffle, slot j of batch i
// is planned to show sample i * batch + j.
const expectArrays = tensorsInPython + `
mount, manifest, size, fails, shuffled = sys.argv[1], sys.argv[2], int(sys.argv[3]), json.loads(sys.argv[4]), sys.argv[5] == "true"
rows = [json.loads(line) for line in open(manifest)]
root = os.path.dirname(manifest)
likes = {"pose": ("<f2", (2, 3)), "track": ("<i4", (0, 2)), "flag": ("|b1", ())}
def stored(id, name):
    a = np.load(f"{root}/{rows[id][name]}") if name in rows[id] else np.zeros(likes[name][1], likes[name][0])
    return a if a.dtype == likes[name][0] else np.zeros(*reversed(likes[name]))

targets = json.load(open(mount + "/dataset.json"))["targets"]
assert targets == ["flag.npy", "pose.npy", "track.npy", "track.offsets.npy"], targets
seen = set()
for epoch in range(2):
    directory = f"{mount}/shard-0/epoch-{epoch}"
    count = json.load(open(directory + "/epoch.json"))["batches"]
    listed = os.listdir(directory)
    for k in range(count):
        path = f"{directory}/batch-{k:05d}."
        assert all(f"batch-{k:05d}.{f}" in listed for f in targets)
        doc = json.load(open(path + "json"))
        planned = [s["id"] for s in doc["samples"]] if shuffled else [min(k * size + j, len(rows) - 1) for j in range(size)]
        if set(planned) & set(fails):
            for f in targets + ["npy", "safetensors"]:
                try:
                    open(path + f, "rb").read()
                except OSError as e:
                    assert e.errno == 5 and b"track8.npy: its dtype" in os.getxattr(path + f, "user.batchfs.error"), (f, e)
                else:
                    assert False, f
            continue
        want = {"pose": [], "track": [], "flag": []}
        offsets = [0]
        for s, plan in zip(doc["samples"], planned):
            seen.add((s["status"], plan))
            shows = s["status"] != "zeroed" and doc["samples"][planned.index(plan)]["status"] != "zeroed"
            for name in ("pose", "flag"):
                want[name].append(stored(s["id"], name) * shows)
            track = stored(plan, "track")
            want["track"].append(track * (shows and s["id"] == plan))
            offsets.append(offsets[-1] + len(track))
        want = {"pose": np.stack(want["pose"]), "track": np.concatenate(want["track"]), "flag": np.stack(want["flag"]), "track.offsets": np.array(offsets)}
        every = dict(tensors(path + "safetensors"))
        batch = batchfs.Batches(mount, shard=0)[epoch, k]
        less = batchfs.Batches(mount, shard=0, padding=False)[epoch, k]
        for name, a in want.items():
            file = path + name + ".npy"
            b = np.load(file, mmap_mode="r" if a.size else None)
            assert b.dtype == (likes[name][0] if name in likes else "<i8") and np.array_equal(a, b), (k, name, a, b)
            assert os.stat(file).st_size == len(open(file, "rb").read()), name
            assert every[name].dtype == b.dtype and np.array_equal(every[name], b), (k, name)
            field = name.replace(".", "_")
            assert np.array_equal(getattr(batch, field), b), (k, name)
            valid = doc["valid"]
            used = {"track": offsets[valid], "track.offsets": valid + 1}.get(name, valid)
            assert np.array_equal(getattr(less, field), b[:used]), (k, name)
        assert np.array_equal(every["images"], np.load(path + "npy"))
print(sorted({status for status, _ in seen}), len({plan for _, plan in seen}))
`

// newArrayed makes images with arrays.
func newArrayed(t *testing.T) masked {
	t.Helper()
	python := testkit.Python(t, "numpy")
	m := newMasked(t)
	runProgram(t, "/", nil, python, "-c", makeArrays, m.dir, fmt.Sprint(maskedImages))
	return m
}

// TestArraysInAStore: arrays that a manifest in a store names are the same as on a disk. The
// requests for them are counted, too, and take no more memory than those for images alone.
func TestArraysInAStore(t *testing.T) {
	m := newArrayed(t)
	check(t, os.Rename(filepath.Join(m.dir, "m.jsonl"), filepath.Join(m.dir, "metadata.jsonl")))
	server, there := objectStore(t, filepath.Dir(m.dir))
	flags := strings.Fields("--targets arrays --shuffle --batch-size 4 --on-error replace")
	want := allBatches(t, mountBatchfs(t, m.dir, flags...), 1)
	for range 2 { // the first mount has kept what it read
		before := server.Requests.Load()
		m := sameFrom(t, want, 1, "s3://masked", append(flags, there...)...)
		asked, stats := server.Requests.Load()-before, m.stats(t)
		if n := stats.Storage.Store.Requests; n < asked {
			t.Errorf("stats.json shows %d requests, and the store got %d", n, asked)
		}
		if index := stats.Memory.Index; index > 1024*96<<10*3/2 { // that of the most requests, and half as much
			t.Errorf("the index takes %d bytes", index)
		}
		m.finish(t)
	}
	if len(want) != 2*4*6 {
		t.Errorf("there are %d files", len(want))
	}
}

// TestNamesOfArrays: directories list the arrays that are asked for, and the absence of others is
// explained.
func TestNamesOfArrays(t *testing.T) {
	m := newArrayed(t)
	manifest := filepath.Join(m.dir, "good.jsonl")
	mount := mountBatchfs(t, manifest, "--targets", "arrays", "--batch-size", "14", "--list", "track.offsets.npy,npy,pose.npy")
	entries, err := os.ReadDir(mount.epochDir(0, 0))
	if names := fmt.Sprint(entries); err != nil || names != "[- batch-00000.npy - batch-00000.pose.npy - batch-00000.track.offsets.npy - epoch.json]" {
		t.Errorf("%s, %v", names, err)
	}
	for ext, want := range map[string]string{
		"pose.offsets.npy": "its arrays all have the same shape", "poses.npy": "the files of a batch end in", "track.npy": "no open of this batch has failed",
	} {
		path := filepath.Join(mount.epochDir(0, 0), "batch-00000."+ext)
		if o := execute(t, "why", path).done(t); !strings.Contains(o.out, want) {
			t.Errorf("why %s: %s", ext, o.out)
		}
	}
}

// TestArraysOfAMount: arrays are those that the manifest names, of one shape or packed, whatever
// form is read, also in padded batches and if samples are bad.
func TestArraysOfAMount(t *testing.T) {
	python := testkit.Python(t, "numpy")
	for name, test := range map[string]struct {
		flags          string
		manifest, want string
		spoilt         bool
	}{
		"good":     {"--shuffle", "good.jsonl", "['ok', 'padded'] 14\n", false},
		"fail":     {"", "m.jsonl", "['ok', 'padded'] 10\n", false},
		"replaced": {"--on-error replace", "m.jsonl", "['ok', 'padded', 'replaced'] 14\n", true},
		"zeroed":   {"--on-error zero --resize random-resized-crop --size 16x16", "m.jsonl", "['ok', 'padded', 'zeroed'] 14\n", true},
	} {
		t.Run(name, func(t *testing.T) {
			m := newArrayed(t)
			if test.spoilt {
				check(t, os.Truncate(filepath.Join(m.dir, "images", "05.png"), 300))
			}
			fails := "[]"
			if name == "fail" {
				fails = "[8]"
			}
			manifest := filepath.Join(m.dir, test.manifest)
			mount := mountBatchfs(t, manifest, append(strings.Fields(test.flags), "--targets", "arrays", "--batch-size", fmt.Sprint(maskedBatch))...)
			got := runProgram(t, "/", nil, python, "-c", expectArrays, mount.dir, manifest, fmt.Sprint(maskedBatch), fails, fmt.Sprint(name == "good"))
			if got != test.want {
				t.Errorf("%s, and not %s", got, test.want)
			}
		})
	}
}
