"""A mount of batchfs, whose batches NumPy maps, as README.md describes."""

import argparse
import itertools
import json

import numpy as np

import contender


def batches(mount, epoch, targets=None):
    """The images of an epoch, and their labels, masks or boxes."""
    dir = f"{mount}/shard-0/epoch-{epoch}"
    with open(f"{dir}/epoch.json") as f:
        n = json.load(f)["batches"]
    for i in range(n):
        b = f"{dir}/batch-{i:05}"
        images = np.load(f"{b}.npy", mmap_mode="r")
        if targets == "masks":
            yield images, np.load(f"{b}.masks.npy", mmap_mode="r")
        elif targets == "boxes":
            offsets, boxes, labels = (
                np.load(f"{b}.boxes.{form}npy") for form in ["offsets.", "", "labels."]
            )
            yield images, contender.ragged(offsets, boxes, labels)
        else:
            yield images, np.load(f"{b}.labels.npy")


def main():
    flags = argparse.ArgumentParser(description=__doc__)
    flags.add_argument("--mount", required=True)
    flags.add_argument("--ahead", type=int, required=True)
    flags.add_argument("--targets", choices=["masks", "boxes"], help="instead of labels")
    o = flags.parse_args()

    every = (batch for epoch in itertools.count() for batch in batches(o.mount, epoch, o.targets))
    contender.serve("batchfs", o.ahead, every)


if __name__ == "__main__":
    contender.run(main)
