"""What every contender does, whatever makes its batches.

A contender is a process that gets batches of images and labels and looks at every
byte of them, in the thread that would train. It says in one line of JSON that it is
ready, or why it cannot be. Then each line on standard input, "SKIP COUNT PAUSE", is a
measurement: SKIP batches that do not count, then COUNT that do, with a pause of PAUSE seconds
after each, in which an accelerator would train; the answer is one line of JSON. SKIP is at least what the contender has made ahead while nobody read,
so that as much is in the making when the clock starts as when it stops: a rate in
the midst of training, for which no epoch begins or ends.
"""

import argparse
import json
import sys
import time

import numpy as np


def flags(description):
    """The flags of every contender that makes batches itself; add those of this one."""
    flags = argparse.ArgumentParser(description=description)
    flags.add_argument("--dataset", required=True)
    flags.add_argument("--workers", type=int, required=True)
    flags.add_argument("--batch-size", type=int, required=True)
    flags.add_argument("--size", type=int, required=True)
    return flags


def touch(images):
    """Looks at every byte of an array without holes."""
    return int(np.bitwise_xor.reduce(images.reshape(-1).view(np.uint64)))


def serve(what, ahead, batches):
    """Answers until standard input ends.

    what names the contender and its versions, ahead is how many batches it makes
    before they are asked for, batches yields (images, labels) without end: uint8
    arrays of four dimensions, and arrays with one label an image.
    """
    answer({"what": what, "ahead": ahead})
    sum = 0
    for line in sys.stdin:
        skip, count, pause = line.split()
        skip, count, pause = int(skip), int(count), float(pause)
        for _ in range(skip):
            sum ^= touch(next(batches)[0])
            time.sleep(pause)
        images = 0
        began = time.perf_counter()
        for _ in range(count):
            pixels, labels = next(batches)
            assert len(pixels) == len(labels)
            sum ^= touch(pixels)
            images += len(pixels)
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
