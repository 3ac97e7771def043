"""A mount of batchfs, its batches mapped by NumPy as its README says."""

import argparse
import itertools
import json

import numpy as np

import contender


def batches(mount, epoch):
    """The images and labels of an epoch."""
    dir = f"{mount}/shard-0/epoch-{epoch}"
    with open(f"{dir}/epoch.json") as f:
        n = json.load(f)["batches"]
    for i in range(n):
        b = f"{dir}/batch-{i:05}"
        yield np.load(f"{b}.npy", mmap_mode="r"), np.load(f"{b}.labels.npy")


def main():
    flags = argparse.ArgumentParser(description=__doc__)
    flags.add_argument("--mount", required=True)
    flags.add_argument("--ahead", type=int, required=True)
    o = flags.parse_args()

    every = (batch for epoch in itertools.count() for batch in batches(o.mount, epoch))
    contender.serve("batchfs", o.ahead, every)


if __name__ == "__main__":
    contender.run(main)
