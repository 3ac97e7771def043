r"""Trains a small U-Net to find the class of each pixel, from a mount with masks.

    batchfs gen --out streets --images 200 --kind cityscape --targets
    batchfs mount --daemon --targets masks --label-map trainids --batch-size 8 \
        --dtype float32 --layout nchw --normalize imagenet --shuffle --flip 0.5 \
        --resize random-resized-crop --crop-area 0.25,1 --crop-ratio 1.5,2.7 --size 64x128 \
        streets/leftImg8bit/train train
    batchfs mount --daemon --targets masks --label-map trainids --batch-size 8 \
        --dtype float32 --layout nchw --normalize imagenet \
        --resize stretch --size 64x128 streets/leftImg8bit/val val
    python3 segmentation.py train val

To compare, this trains the same network with torchvision's Cityscapes:

    python3 segmentation.py --torchvision streets

The mean IoU was 0.787 from the mounts, and 0.793 with torchvision, means of five seeds.
"""
import argparse

import torch
from torch import nn
from torch.nn import functional as F

import batchfs

CLASSES, IGNORED = 19, 255  # of Cityscapes


class Network(nn.Module):
    """A U-Net for images whose sides are multiples of 8."""

    def __init__(self, classes, width=8):
        super().__init__()

        def block(before, after):
            return nn.Sequential(
                nn.Conv2d(before, after, 3, padding=1, bias=False), nn.BatchNorm2d(after), nn.ReLU()
            )

        widths = [width, 2 * width, 4 * width, 8 * width]
        self.down = nn.ModuleList(map(block, [3, *widths], widths))
        self.up = nn.ModuleList(block(a + b, a) for a, b in zip(widths, widths[1:]))
        self.classes = nn.Conv2d(width, classes, 1)

    def forward(self, x):
        finer = []
        for block in self.down:
            x = block(F.max_pool2d(x, 2) if finer else x)
            finer.append(x)
        for block, fine in zip(reversed(self.up), finer[-2::-1]):
            x = block(torch.cat([F.interpolate(x, scale_factor=2), fine], 1))
        return self.classes(x)


@torch.no_grad()
def mean_iou(model, batches):
    """Intersection over union of all pixels of a class: the mean over the classes that occur."""
    model.eval()
    pairs = torch.zeros(CLASSES**2, dtype=torch.long)
    for images, masks in batches:
        found, known = model(images).argmax(1), masks != IGNORED
        pairs += torch.bincount(masks[known] * CLASSES + found[known], minlength=CLASSES**2)
    pairs = pairs.reshape(CLASSES, CLASSES)
    both, true, found = pairs.diagonal(), pairs.sum(1), pairs.sum(0)
    return (both / (true + found - both))[true > 0].mean().item()


def train(model, batches, epochs):
    """batches(epoch) are the images and masks of an epoch."""
    optimizer = torch.optim.Adam(model.parameters())
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 1e-2, total_steps=epochs)
    for epoch in range(epochs):
        model.train()
        for images, masks in batches(epoch):
            optimizer.zero_grad()
            F.cross_entropy(model(images), masks, ignore_index=IGNORED).backward()
            optimizer.step()
        schedule.step()


def of_mount(mount):
    """A function of the epoch that returns its batches."""
    batches = batchfs.Batches(mount, transform=batchfs.to_torch, padding=False)

    def load(epoch):
        batches.set_epoch(epoch)
        return ((batch.images, batch.masks.long()) for batch in batches)

    return load


def of_torchvision(root, split):
    """The same as of_mount, made of torchvision's classes and functions, with the mount's
    settings."""
    import numpy as np
    from torchvision import datasets, transforms
    from torchvision.transforms import functional

    size = (64, 128)
    trained = {c.id: c.train_id for c in datasets.Cityscapes.classes if 0 <= c.train_id < 255}
    train_ids = np.array([trained.get(i, IGNORED) for i in range(256)])

    def together(image, mask):
        if split == "train":
            crop = transforms.RandomResizedCrop.get_params(image, (0.25, 1), (1.5, 2.7))
            flip = torch.rand(1) < 0.5
        else:
            crop, flip = (0, 0, image.height, image.width), False
        image = functional.resized_crop(image, *crop, size)
        mask = functional.resized_crop(mask, *crop, size, functional.InterpolationMode.NEAREST)
        if flip:
            image, mask = functional.hflip(image), functional.hflip(mask)
        image = functional.normalize(
            functional.to_tensor(image), (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
        )
        return image, torch.from_numpy(train_ids[np.array(mask)])

    data = datasets.Cityscapes(root, split, target_type="semantic", transforms=together)
    loader = torch.utils.data.DataLoader(data, 8, shuffle=split == "train", num_workers=2)
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
    model = Network(CLASSES)
    train(model, lambda epoch: load(args.seed * args.epochs + epoch), args.epochs)
    print(f"mean IoU {mean_iou(model, evaluation(0)):.3f}")


if __name__ == "__main__":
    main()
