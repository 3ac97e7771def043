package integration

import (
	"bytes"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/batchfs/batchfs/internal/testkit"
)

// compareTargets compares a batch, whose images have their own sizes, with what oracle.py printed
// of the dataset: boxes are clipped to the image, and left out if they have no area there.
const compareTargets = `
import json, os, sys
import numpy

batch, ending = sys.argv[1:]
want = json.loads(sys.stdin.read().splitlines()[-1])
load = lambda form: numpy.load(batch + "." + form)
doc = json.load(open(batch + ".json"))
boxes, offsets, masks = load("boxes.npy"), load("boxes.offsets.npy"), load("masks.npy")
labels, ids, flags = load("boxes.labels.npy"), load("boxes.ids.npy"), load("boxes.flags.npy")
assert masks.shape[1:] == tuple(doc["shape"][1:3]) and offsets[-1] == len(boxes) == len(ids)
seen, checked = set(), 0
for slot, sample in enumerate(doc["samples"]):
    w = want[sample["path"].removesuffix(ending)]
    seen.add(sample["path"])
    h, width = w["size"]
    mask, rows = numpy.zeros((h, width), numpy.uint8), []
    for o in w["objects"]:
        x0, y0, x1, y1 = o["box"]
        c = [max(x0, 0), max(y0, 0), min(x1, width), min(y1, h)]
        if x1 > x0 and y1 > y0 and c[2] > c[0] and c[3] > c[1]:
            rows.append((c, o))
        if "shape" in o:
            part = numpy.array(o["shape"]["pixels"], bool).reshape(width, h).T
            mask[part] = o["shape"]["class"] & 255
    lo, hi = offsets[slot : slot + 2]
    assert hi - lo == len(rows), (sample, hi - lo, len(rows))
    for k, (c, o) in zip(range(lo, hi), rows):
        assert numpy.allclose(boxes[k], c, atol=1e-3), (sample, boxes[k], c)
        assert (labels[k], ids[k], flags[k]) == (o["label"], o["id"], o["flags"]), (sample, k, o)
        if "visible" in o:
            x0, y0, x1, y1 = o["visible"]
            c = [max(x0, 0), max(y0, 0), min(x1, width), min(y1, h)]
            if c[2] > c[0] and c[3] > c[1]:
                assert numpy.allclose(load("boxes.visible.npy")[k], c), (sample, k, o)
        if "keypoints" in o:
            for got, p in zip(load("keypoints.npy")[k], o["keypoints"]):
                assert tuple(got) == (tuple(p) if p[2] > 0 else (0, 0, 0)), (sample, k, got, p)
    if "mask" not in w:
        assert (masks[slot, :h, :width] == mask).all(), (sample, masks[slot], mask)
    else:
        assert (masks[slot, :h, :width] == masks[slot, 0, 0]).all() and masks[slot, 0, 0] in (3, 24)
    assert (masks[slot, h:] == 255).all() and (masks[slot, :, width:] == 255).all()
    if w.get("text"):
        line = open(batch + ".text.jsonl").read().splitlines()[slot]
        assert json.loads(line)["captions"] == w["text"], (sample, line)
    checked += len(rows)
assert len(seen) == len(want) and checked > 0, (seen, want.keys())
`

// TestTargetsOfLayouts: of datasets in three official layouts, a batch has what torchvision and
// pycocotools find.
func TestTargetsOfLayouts(t *testing.T) {
	for _, c := range []struct {
		kind, dataset, ending string
		modules               []string
		boxes, masks          int // classes
		flags                 []string
	}{
		{"cityscapes", "", "_leftImg8bit.png", nil, 6, 34, []string{"--targets", "masks,boxes", "--batch-size", "3"}},
		{"voc", "VOCdevkit/VOC2012", ".jpg", nil, 20, 21, []string{"--targets", "masks,boxes", "--batch-size", "3", "--annotations", "VOCdevkit/VOC2012/ImageSets/Main/train.txt"}},
		{"coco", "train2017", "", []string{"pycocotools"}, 3, 4, []string{"--targets", "masks,boxes,keypoints,text", "--batch-size", "4"}},
	} {
		t.Run(c.kind, func(t *testing.T) {
			python := testkit.Python(t, append(c.modules, "torchvision", "PIL", "numpy")...)
			dir := scratch(t)
			want, err := exec.Command(python, "../internal/annotation/testdata/oracle.py", c.kind, dir).Output()
			check(t, err)
			for k, flag := range c.flags {
				if flag == "--annotations" {
					c.flags[k+1] = filepath.Join(dir, c.flags[k+1])
				}
			}
			m := mountBatchfs(t, filepath.Join(dir, c.dataset), c.flags...)
			var doc struct {
				Boxes []string `json:"box_classes"`
				Masks []string `json:"mask_classes"`
			}
			m.document(t, "dataset.json", &doc)
			if len(doc.Boxes) != c.boxes || len(doc.Masks) != c.masks {
				t.Errorf("classes are %q and %q", doc.Boxes, doc.Masks)
			}
			compare := m.command(python, "-c", compareTargets, filepath.Join(m.epochDir(0, 0), "batch-00000"), c.ending)
			compare.Stdin = bytes.NewReader(want)
			if out, err := compare.CombinedOutput(); err != nil {
				t.Errorf("%v\n%s\n%s", err, out, m.logged())
			}
		})
	}
}
