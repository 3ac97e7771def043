"""PyTorch's DataLoader and torchvision, over images with their masks or boxes.

The crop and the flip of an image and of its targets are those of transforms.v2, or, before torchvision 0.15, which has
none, of its functions for tensors, as its reference programs for segmentation and detection use them.
"""

import json
import random

import contender


def by_v2(size):
    """The transforms of transforms.v2 that crop and flip an image with a mask or with boxes."""
    from torchvision import tv_tensors
    from torchvision.transforms import v2

    steps = [v2.RandomResizedCrop(size, antialias=True), v2.RandomHorizontalFlip(0.5)]
    both, boxed = v2.Compose(steps), v2.Compose([*steps, v2.ClampBoundingBoxes(), v2.SanitizeBoundingBoxes()])

    def of_mask(image, mask):
        return both(tv_tensors.Image(image), tv_tensors.Mask(mask))

    def of_boxes(image, boxes, labels):
        wrapped = tv_tensors.BoundingBoxes(boxes, format="XYXY", canvas_size=image.shape[-2:])
        image, target = boxed(tv_tensors.Image(image), {"boxes": wrapped, "labels": labels})
        return image, target["boxes"], target["labels"]

    return of_mask, of_boxes, "transforms.v2"


def by_functions(size):
    """The same with older functions."""
    import torch
    from torchvision import ops, transforms
    from torchvision.transforms import InterpolationMode, functional

    def cropped(image):
        top, left, height, width = transforms.RandomResizedCrop.get_params(image, scale=(0.08, 1), ratio=(3 / 4, 4 / 3))
        flip = random.random() < 0.5

        def crop(of, **how):
            of = functional.resize(functional.crop(of, top, left, height, width), [size, size], **how)
            return functional.hflip(of) if flip else of

        return crop, flip, torch.tensor([left, top] * 2), torch.tensor([size / width, size / height] * 2)

    def of_mask(image, mask):
        crop, *_ = cropped(image)
        return crop(image, antialias=True), crop(mask, interpolation=InterpolationMode.NEAREST)

    def of_boxes(image, boxes, labels):
        crop, flip, origin, scale = cropped(image)
        boxes = ops.clip_boxes_to_image((boxes - origin) * scale, (size, size))
        if flip:
            boxes = torch.stack((size - boxes[:, 2], boxes[:, 1], size - boxes[:, 0], boxes[:, 3]), 1)
        kept = ((boxes[:, 2:] - boxes[:, :2]) >= 1).all(1)  # as SanitizeBoundingBoxes does
        return crop(image, antialias=True), boxes[kept], labels[kept]

    return of_mask, of_boxes, "transforms.functional"


def main():
    flags = contender.flags(__doc__)
    contender.targets(flags)
    o = flags.parse_args()

    import torch
    import torchvision
    from dataloader import endless
    from torchvision import io

    try:
        of_mask, of_boxes, which = by_v2(o.size)
    except ImportError:
        of_mask, of_boxes, which = by_functions(o.size)

    def decoded(path):
        return io.decode_jpeg(io.read_file(path), mode=io.ImageReadMode.RGB)

    class Masked(torch.utils.data.Dataset):
        def __init__(self):
            self.pairs = contender.pairs(o.dataset, o.masks)

        def __len__(self):
            return len(self.pairs)

        def __getitem__(self, i):
            image, mask = self.pairs[i]
            image, mask = of_mask(decoded(image), io.decode_png(io.read_file(mask)))
            return image, mask[0]

    class Boxed(torch.utils.data.Dataset):
        def __init__(self):
            with open(o.boxes) as f:
                coco = json.load(f)
            self.images, rows = coco["images"], {image["id"]: [] for image in coco["images"]}
            for a in coco["annotations"]:
                x, y, width, height = a["bbox"]
                rows[a["image_id"]].append(([x, y, x + width, y + height], a["category_id"]))
            self.rows = {
                id: (torch.tensor([box for box, _ in of], dtype=torch.float32).reshape(-1, 4), torch.tensor([label for _, label in of]))
                for id, of in rows.items()
            }

        def __len__(self):
            return len(self.images)

        def __getitem__(self, i):
            image = self.images[i]
            return of_boxes(decoded(f"{o.dataset}/{image['file_name']}"), *self.rows[image["id"]])

    def packed(samples):
        images, boxes, labels = zip(*samples)
        offsets = torch.tensor([0, *map(len, boxes)]).cumsum(0)
        return torch.stack(images), (offsets, torch.cat(boxes), torch.cat(labels))

    torch.set_num_threads(1)
    dataset = Masked() if o.masks else Boxed()
    dataset[0]  # fail here if it cannot work, not in a worker
    what = f"PyTorch {torch.__version__}, torchvision {torchvision.__version__}, its decoders and {which}, {o.workers} workers"
    contender.serve(what, *endless(dataset, o.batch_size, o.workers, packed if o.boxes else None))


if __name__ == "__main__":
    contender.run(main)
