"""Makes a small dataset in an official layout, and prints what other readers find in it.

python3 oracle.py coco|voc|cityscapes DIR
"""
import contextlib
import json
import os
import random
import sys

import numpy
from PIL import Image

kind, root = sys.argv[1:]
rand = random.Random(7)


def path(*names):
    file = os.path.join(root, *names)
    os.makedirs(os.path.dirname(file), exist_ok=True)
    return file


def image(height, width, *names):
    Image.fromarray(numpy.zeros((height, width, 3), numpy.uint8)).save(path(*names))


def box(height, width):
    x, y = rand.uniform(0, width - 8), rand.uniform(0, height - 8)
    return [round(x, 2), round(y, 2), round(rand.uniform(2, width - x), 2), round(rand.uniform(2, height - y), 2)]


def corners(x, y, w, h):
    return [x, y, x + w, y + h]


def coco():
    from pycocotools import mask
    from torchvision.datasets import CocoDetection

    size = {k: (rand.randrange(20, 60), rand.randrange(20, 60)) for k in (9, 25, 30, 34)}
    for k, (h, w) in size.items():
        image(h, w, "train2017", "%012d.jpg" % k)
    image(20, 20, "train2017", "unlisted.jpg")
    images = [{"id": k, "file_name": "%012d.jpg" % k, "height": h, "width": w} for k, (h, w) in size.items()]
    images.append({"id": 77, "file_name": "absent.jpg", "height": 5, "width": 5})
    categories = [{"id": k, "name": "c%d" % k, "supercategory": "x"} for k in (90, 1, 17)]
    categories[1]["keypoints"] = ["nose", "left_eye", "right_eye"]
    annotations = []
    for number in range(40):
        k = rand.choice((9, 25, 30))
        h, w = size[k]
        one = {"id": 1000 - number, "image_id": k, "category_id": rand.choice((1, 17, 90)), "bbox": box(h, w), "iscrowd": 0, "area": 1.5}
        way = number % 4
        if way < 2:
            one["segmentation"] = [[round(rand.uniform(0, w), 2) if i % 2 == 0 else round(rand.uniform(0, h), 2) for i in range(8)] for _ in range(way + 1)]
        else:
            pixels = numpy.asfortranarray(numpy.array([[rand.random() < 0.3 for _ in range(w)] for _ in range(h)], numpy.uint8))
            if way == 2:
                pixels[:, : w // 2] = 1
            packed = mask.encode(pixels)
            one["iscrowd"] = 1
            flat = pixels.flatten(order="F").tolist()
            runs, last = [0], 0
            for v in flat:
                if v != last:
                    runs.append(0)
                    last = v
                runs[-1] += 1
            one["segmentation"] = {"size": [h, w], "counts": packed["counts"].decode() if way == 2 else runs}
        if one["category_id"] == 1:
            one["keypoints"] = [v for _ in range(3) for v in (rand.randrange(w), rand.randrange(h), rand.randrange(3))]
        annotations.append(one)
    info = {"info": {"text": 'a "quoted" \\ text ]}'}, "images": images, "annotations": annotations, "categories": categories, "licenses": [[], {}, 1.5e3, None, True]}
    for name in ("instances", "person_keypoints"):
        json.dump(info, open(path("annotations", name + "_train2017.json"), "w"))
    captions = [{"id": n, "image_id": k, "caption": "caption %d of \u00e9 \"%d\"" % (n, k)} for n, k in enumerate((9, 25, 9, 30, 34))]
    json.dump({"images": images, "annotations": captions}, open(path("annotations", "captions_train2017.json"), "w"))

    labels = {c: n for n, c in enumerate(sorted(c["id"] for c in categories))}
    found = {}
    ds = CocoDetection(os.path.join(root, "train2017"), os.path.join(root, "annotations", "instances_train2017.json"))
    for k in ds.ids:
        if k == 77:
            continue
        i, o = ds.coco.loadImgs(k)[0], []
        for a in ds._load_target(k):
            one = {"box": corners(*a["bbox"]), "label": labels[a["category_id"]], "id": a["id"], "flags": a["iscrowd"]}
            if "keypoints" in a:
                one["keypoints"] = [a["keypoints"][j : j + 3] for j in range(0, 9, 3)]
            s = {"class": -1 if a["iscrowd"] else labels[a["category_id"]] + 1}
            s["pixels"] = ds.coco.annToMask(a).flatten(order="F").tolist()
            one["shape"] = s
            o.append(one)
        texts = [c["caption"] for c in captions if c["image_id"] == k]
        text = json.dumps({"captions": texts}, ensure_ascii=False, separators=(",", ":"))
        found[i["file_name"]] = {"size": [i["height"], i["width"]], "objects": o, "text": text}
    return found


def voc():
    from torchvision.datasets import VOCDetection, VOCSegmentation

    base = "VOCdevkit/VOC2012"
    names = ["2007_%06d" % k for k in range(5)]
    classes = "aeroplane bicycle bird boat bottle bus car cat chair cow diningtable dog horse motorbike person pottedplant sheep sofa train tvmonitor".split()
    for n in names:
        h, w = rand.randrange(20, 60), rand.randrange(20, 60)
        image(h, w, base, "JPEGImages", n + ".jpg")
        Image.fromarray(numpy.full((h, w), 3, numpy.uint8), "P").save(path(base, "SegmentationClass", n + ".png"))
        text = "<annotation>\n<folder>VOC2012</folder><filename>%s.jpg</filename><size><width>%d</width><height>%d</height><depth>3</depth></size>" % (n, w, h)
        for k in range(rand.randrange(1, 4)):
            x, y, a, b = (int(v) + 1 for v in corners(*box(h, w)))
            text += "<object><name>%s</name><pose>Left</pose><difficult>%d</difficult><bndbox><xmax>%d</xmax><xmin>%d</xmin><ymax>%d</ymax><ymin>%d</ymin></bndbox>" % (rand.choice(classes), k % 2, a, x, b, y)
            text += "<part><name>head</name><bndbox><xmin>1</xmin><ymin>1</ymin><xmax>2</xmax><ymax>2</ymax></bndbox></part></object>"
        open(path(base, "Annotations", n + ".xml"), "w").write(text + "</annotation>")
    for task in ("Main", "Segmentation"):
        open(path(base, "ImageSets", task, "train.txt"), "w").write("".join(n + "\n" for n in names[:3]))
        open(path(base, "ImageSets", task, "all.txt"), "w").write("".join(n + "\n" for n in names))
    ds, masks, found = VOCDetection(root, image_set="train"), VOCSegmentation(root, image_set="train"), {}
    for k in range(len(ds)):
        a, o = ds[k][1]["annotation"], []
        for i, one in enumerate(a["object"]):
            b = {name: int(v) for name, v in one["bndbox"].items()}
            o.append({"box": [b["xmin"] - 1, b["ymin"] - 1, b["xmax"], b["ymax"]], "label": classes.index(one["name"]), "id": i, "flags": 4 * int(one["difficult"])})
        found[a["filename"][:-4]] = {"size": [int(a["size"]["height"]), int(a["size"]["width"])], "objects": o, "mask": os.path.basename(masks.masks[k])}
    return found


def cityscapes():
    from torchvision.datasets import Cityscapes

    labels = ["pedestrian", "rider", "sitting person", "person (other)", "person group", "ignore"]
    found = {}
    for city, k in (("aachen", 0), ("aachen", 1), ("bochum", 0)):
        stem = "%s_%06d_000019" % (city, k)
        image(32, 64, "leftImg8bit", "train", city, stem + "_leftImg8bit.png")
        for form, dtype in (("labelIds", numpy.uint8), ("instanceIds", numpy.uint16), ("color", numpy.uint8)):
            Image.fromarray(numpy.full((32, 64), 24 if form != "instanceIds" else 24003, dtype)).save(path("gtFine", "train", city, "%s_gtFine_%s.png" % (stem, form)))
        open(path("gtFine", "train", city, stem + "_gtFine_polygons.json"), "w").write("{}")
        o, want = [], []
        for n, label in enumerate(labels):
            b, v = [rand.randrange(9) for _ in range(4)], [rand.randrange(9) for _ in range(4)]
            o.append({"instanceId": 24000 + n, "bbox": b, "bboxVis": v, "label": label})
            want.append({"box": corners(*b), "visible": corners(*v), "label": n, "id": 24000 + n, "flags": 2 if n > 3 else 0})
        json.dump({"imgHeight": 32, "imgWidth": 64, "objects": o}, open(path("gtBboxCityPersons", "train", city, stem + "_gtBboxCityPersons.json"), "w"))
        found[city + "/" + stem] = {"size": [32, 64], "objects": want}
    ds = Cityscapes(root, split="train", mode="fine", target_type=["semantic"])
    for file, targets in zip(ds.images, ds.targets):
        name = os.path.relpath(file, os.path.join(root, "leftImg8bit", "train"))[: -len("_leftImg8bit.png")]
        found[name]["mask"] = os.path.relpath(targets[0], os.path.join(root, "gtFine", "train"))
    return found


with contextlib.redirect_stdout(sys.stderr):
    found = {"coco": coco, "voc": voc, "cityscapes": cityscapes}[kind]()
print(json.dumps(found))
