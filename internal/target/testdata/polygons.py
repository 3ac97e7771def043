# Makes polygons.json: polygons, and the runs that COCO's own tools make of them. pip install pycocotools
import json, random
from pycocotools import mask

def runs(encoded):  # the text in which COCO writes runs, see maskApi
    out, i, text = [], 0, encoded
    while i < len(text):
        x = k = 0
        more = True
        while more:
            c = text[i] - 48
            x |= (c & 0x1F) << 5 * k
            more = bool(c & 0x20)
            i += 1
            k += 1
            if not more and c & 0x10:
                x |= -1 << 5 * k
        if len(out) > 2:
            x += out[-2]
        out.append(x)
    return out

random.seed(1)
cases = []
for n in range(150):
    h, w = random.randint(1, 40), random.randint(1, 40)
    points = random.choice([3, 3, 4, 5, 8, 20])
    kind = random.randrange(4)
    if kind == 0:  # whole pixels, with points that come twice
        polygon = [random.randint(-1, max(h, w) + 1) for _ in range(2 * points)]
        polygon += polygon[-2:]
    elif kind == 1:  # beyond the image
        polygon = [round(random.uniform(-20, 60), 2) for _ in range(2 * points)]
    elif kind == 2:  # a box
        x0, y0 = random.uniform(0, w), random.uniform(0, h)
        x1, y1 = random.uniform(x0, w), random.uniform(y0, h)
        polygon = [round(v, 2) for v in (x0, y0, x1, y0, x1, y1, x0, y1)]
    else:
        polygon = [round(random.uniform(0, (w, h)[i % 2]), 2) for i in range(2 * points)]
    encoded = mask.frPyObjects([[float(v) for v in polygon]], h, w)[0]
    cases.append({"height": h, "width": w, "polygon": polygon, "runs": runs(encoded["counts"])})
print(json.dumps(cases, separators=(",", ":")))
