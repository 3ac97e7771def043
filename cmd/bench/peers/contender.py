"""What all contenders have in common, whatever makes their batches.

A contender is a process that gets batches of images and labels and looks at every
byte of them, in the thread that would train. It says in one line of JSON that it is
ready, or why it cannot be. Then each line on standard input, "SKIP COUNT PAUSE", is a
measurement: SKIP batches that do not count, then COUNT that do, with a pause of PAUSE seconds
after each, in which an accelerator would train; the answer is one line of JSON. SKIP is at least what the contender has made ahead while nobody read,
so that as much is in the making when the clock starts as when it stops: a rate in
the midst of training, for which no epoch begins or ends.
"""

import argparse
import glob
import json
import os
import sys
import time

import numpy as np


def flags(description):
    """The flags of every contender that makes batches itself; add the flags of the contender
    itself."""
    flags = argparse.ArgumentParser(description=description)
    flags.add_argument("--dataset", required=True)
    flags.add_argument("--workers", type=int, required=True)
    flags.add_argument("--batch-size", type=int, required=True)
    flags.add_argument("--size", type=int, required=True)
    return flags


def targets(flags):
    """Adds the flags of contenders that serve annotations of the images instead of labels."""
    flags.add_argument("--masks", help="a folder of PNGs, each with the path that its image has in --dataset")
    flags.add_argument("--boxes", help="a file of COCO's that names the images by their paths in --dataset")


def pairs(dataset, masks):
    """The paths of each image and of its mask."""
    names = sorted(os.path.relpath(p, dataset) for p in glob.glob(f"{dataset}/**/*.jpg", recursive=True))
    return [(os.path.join(dataset, name), os.path.join(masks, name[:-4] + ".png")) for name in names]


def ragged(offsets, *packed):
    """The parts that each image has of packed arrays."""
    ends = offsets.tolist()
    return [tuple(p[a:b] for p in packed) for a, b in zip(ends, ends[1:])]


def touch(images):
    """Looks at every byte of an array without holes."""
    return int(np.bitwise_xor.reduce(images.reshape(-1).view(np.uint64)))


def serve(what, ahead, batches):
    """Answers until standard input ends.

    what names the contender and its versions, ahead is how many batches it makes
    before they are asked for, batches yields (images, targets) without end: uint8
    arrays of four dimensions, and for each image a label, a mask, or boxes and their labels.
    """

    def look(batch):
        pixels, targets = batch
        assert len(pixels) == len(targets)
        return touch(pixels) ^ (touch(targets) if getattr(targets, "ndim", 0) == 3 else 0)

    answer({"what": what, "ahead": ahead})
    sum = 0
    for line in sys.stdin:
        skip, count, pause = line.split()
        skip, count, pause = int(skip), int(count), float(pause)
        for _ in range(skip):
            sum ^= look(next(batches))
            time.sleep(pause)
        images = 0
        began = time.perf_counter()
        for _ in range(count):
            batch = next(batches)
            sum ^= look(batch)
            images += len(batch[0])
            time.sleep(pause)
        answer({"images": images, "seconds": time.perf_counter() - began, "sum": sum})


def answer(document):
    print(json.dumps(document), flush=True)


def run(main):
    """Runs main, which calls serve; a failure becomes the one line that says why."""
    try:
        main()
    except Exception as e:
        answer({"error": f"{type(e).__name__}: {e}".splitlines()[0]})
        sys.exit(1)
