r"""Trains a small detector that finds the centre and the edges of each object, from a mount with
boxes.

    batchfs gen --out shapes --images 1000 --kind coco
    batchfs mount --daemon --targets boxes --min-visibility 0.3 --batch-size 16 \
        --dtype float32 --layout nchw --normalize imagenet --shuffle --flip 0.5 \
        --resize random-resized-crop --crop-area 0.4,1 --crop-ratio 1.1,1.6 --size 72x96 \
        shapes/train2017 train
    batchfs mount --daemon --targets boxes --batch-size 16 \
        --dtype float32 --layout nchw --normalize imagenet \
        --resize stretch --size 72x96 shapes/val2017 val
    python3 detector.py train val

To compare, this trains the same network with torchvision's CocoDetection:

    python3 detector.py --torchvision shapes

The average precision at IoU 0.5 was 0.970 from the mounts, and 0.973 with torchvision, means of
five seeds.
"""
import argparse

import torch
from torch import nn
from torch.nn import functional as F

import batchfs

CLASSES = 3  # disc, square, triangle: dataset.json names them as box_classes
STRIDE = 4  # pixels of a cell of the network's grid


class Network(nn.Module):
    """For each cell, how much it looks like the centre of an object of each class, and how far away
    the object's edges are."""

    def __init__(self, width=16):
        super().__init__()

        def block(before, after, stride=1):
            return nn.Sequential(
                nn.Conv2d(before, after, 3, stride, 1, bias=False), nn.BatchNorm2d(after), nn.ReLU()
            )

        self.layers = nn.Sequential(
            block(3, width // 2),
            block(width // 2, width, 2),
            block(width, 2 * width, 2),
            *(block(2 * width, 2 * width) for _ in range(3)),
            nn.Conv2d(2 * width, CLASSES + 4, 1),
        )
        nn.init.constant_(self.layers[-1].bias[:CLASSES], -4)  # most cells are not a centre

    def forward(self, images):
        found = self.layers(images)
        return found[:, :CLASSES], F.softplus(found[:, CLASSES:])


def boxes_at(y, x, distances):
    """Boxes whose left, upper, right and lower edges are the given numbers of cells from a cell's
    middle."""
    middle = torch.stack([x, y, x, y], 1) + 0.5
    return (middle + distances * torch.tensor([-1, -1, 1, 1])) * STRIDE


def loss_of(model, images, boxes, labels, slots):
    """slots says which image each box belongs to."""
    heat, distances = model(images)
    height, width = heat.shape[-2:]
    x, y = ((boxes[:, :2] + boxes[:, 2:]) / 2 / STRIDE).long().unbind(1)
    x, y = x.clamp(max=width - 1), y.clamp(max=height - 1)

    def nearness(cell, count):
        return torch.exp(-((torch.arange(count) - cell[:, None]) ** 2) / 2)

    wanted = torch.zeros_like(heat)
    peaks = nearness(y, height)[:, :, None] * nearness(x, width)[:, None]
    for slot, label, peak in zip(slots, labels, peaks):
        wanted[slot, label] = torch.maximum(wanted[slot, label], peak)
    losses = F.binary_cross_entropy_with_logits(heat, wanted, reduction="none")
    surprise = (heat.sigmoid() - wanted) ** 2  # most cells are easy
    error = (boxes_at(y, x, distances[slots, :, y, x]) - boxes) / STRIDE
    return ((losses * surprise).sum() + 0.2 * error.abs().sum()) / max(len(boxes), 1)


def detect(model, images, threshold=0.05):
    """The boxes that are found, with slots, labels and scores."""
    heat, distances = model(images)
    scores = heat.sigmoid()
    is_peak = (F.max_pool2d(scores, 3, 1, 1) == scores) & (scores > threshold)
    slots, labels, y, x = is_peak.nonzero(as_tuple=True)
    return boxes_at(y, x, distances[slots, :, y, x]), slots, labels, scores[is_peak]


def overlaps(one, others):
    """Intersection over union of a box and others."""
    sides = torch.minimum(one[2:], others[:, 2:]) - torch.maximum(one[:2], others[:, :2])
    both = sides.clamp(min=0).prod(1)
    return both / ((one[2:] - one[:2]).prod() + (others[:, 2:] - others[:, :2]).prod(1) - both)


@torch.no_grad()
def average_precision(model, batches):
    """The area under precision by recall, at an overlap of 0.5: the mean over the classes."""
    model.eval()
    hits, totals = [[] for _ in range(CLASSES)], torch.zeros(CLASSES)
    for images, boxes, labels, slots in batches:
        totals += torch.bincount(labels, minlength=CLASSES)
        found = detect(model, images)
        best_first = found[-1].argsort(descending=True)
        is_free = torch.ones(len(boxes), dtype=torch.bool)
        for box, slot, label, score in zip(*(field[best_first] for field in found)):
            overlap = overlaps(box, boxes) * (is_free & (slots == slot) & (labels == label))
            hit = len(boxes) > 0 and overlap.max().item() >= 0.5
            if hit:
                is_free[overlap.argmax()] = False
            hits[label].append((score.item(), hit))
    areas = []
    for of_class, total in zip(hits, totals):
        right = torch.tensor([hit for _, hit in sorted(of_class, reverse=True)])
        precision = right.cumsum(0) / torch.arange(1, len(right) + 1)
        best_from = precision.flip(0).cummax(0).values.flip(0)
        areas.append((best_from * right).sum() / total)
    return torch.stack(areas).mean().item()


def train(model, batches, epochs):
    """batches(epoch) are the images, boxes, labels and slots of an epoch."""
    optimizer = torch.optim.Adam(model.parameters())
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 1e-2, total_steps=epochs)
    for epoch in range(epochs):
        model.train()
        for batch in batches(epoch):
            optimizer.zero_grad()
            loss_of(model, *batch).backward()
            optimizer.step()
        schedule.step()


def of_mount(mount):
    """A function of the epoch that returns its batches."""
    batches = batchfs.Batches(mount, transform=batchfs.to_torch, padding=False)

    def load(epoch):
        batches.set_epoch(epoch)
        for batch in batches:
            slots = torch.arange(len(batch.images)).repeat_interleave(batch.boxes_offsets.diff())
            yield batch.images, batch.boxes, batch.boxes_labels, slots

    return load


def of_torchvision(root, split):
    """The same as of_mount, made of torchvision's classes and functions, with the mount's
    settings."""
    from torchvision import datasets, transforms
    from torchvision.transforms import functional

    height, width = 72, 96

    def together(image, annotations):
        boxes = torch.tensor([a["bbox"] for a in annotations]).reshape(-1, 4)
        labels = torch.tensor([labels_of[a["category_id"]] for a in annotations]).long()
        if split == "train":
            y, x, h, w = transforms.RandomResizedCrop.get_params(image, (0.4, 1), (1.1, 1.6))
            flip = torch.rand(1) < 0.5
        else:
            y, x, h, w, flip = 0, 0, image.height, image.width, False
        image = functional.resized_crop(image, y, x, h, w, (height, width))
        boxes[:, 2:] += boxes[:, :2]
        boxes = (boxes - torch.tensor([x, y, x, y])) * torch.tensor([width / w, height / h] * 2)
        shown = boxes.clamp(min=0).minimum(torch.tensor([width, height] * 2))
        areas, whole = ((b[:, 2:] - b[:, :2]).clamp(min=0).prod(1) for b in (shown, boxes))
        is_visible = (areas > 0) & (areas >= (0.3 * whole if split == "train" else 0))
        boxes, labels = shown[is_visible], labels[is_visible]
        if flip:
            image = functional.hflip(image)
            boxes[:, [0, 2]] = width - boxes[:, [2, 0]]
        image = functional.normalize(
            functional.to_tensor(image), (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
        )
        return image, (boxes, labels)

    def collate(samples):
        images, targets = zip(*samples)
        boxes, labels = zip(*targets)
        counts = torch.tensor([len(b) for b in boxes])
        slots = torch.arange(len(images)).repeat_interleave(counts)
        return torch.stack(images), torch.cat(boxes), torch.cat(labels), slots

    annotations = f"{root}/annotations/instances_{split}2017.json"
    data = datasets.CocoDetection(f"{root}/{split}2017", annotations, transforms=together)
    labels_of = {category: label for label, category in enumerate(sorted(data.coco.cats))}
    loader = torch.utils.data.DataLoader(
        data, 16, shuffle=split == "train", num_workers=2, collate_fn=collate
    )
    return lambda epoch: loader


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("mounts", nargs="*", help="to train, and to evaluate")
    parser.add_argument("--torchvision", metavar="ROOT", help="of a dataset to take instead")
    parser.add_argument("--epochs", type=int, default=16)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()

    torch.set_num_threads(1)
    torch.manual_seed(args.seed)
    if args.torchvision:
        load, evaluation = (of_torchvision(args.torchvision, s) for s in ("train", "val"))
    elif len(args.mounts) == 2:
        load, evaluation = map(of_mount, args.mounts)
    else:
        parser.error("name two mounts, or --torchvision ROOT")
    model = Network()
    train(model, lambda epoch: load(args.seed * args.epochs + epoch), args.epochs)
    print(f"average precision {average_precision(model, evaluation(0)):.3f}")


if __name__ == "__main__":
    main()
