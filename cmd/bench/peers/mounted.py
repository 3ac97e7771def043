"""A mount of batchfs, its batches mapped by NumPy as its README says."""

import argparse
import json

import contender


def main():
    flags = argparse.ArgumentParser(description=__doc__)
    flags.add_argument("--mount", required=True)
    flags.add_argument("--ahead", type=int, required=True)
    o = flags.parse_args()

    import numpy as np

    def batches():
        epoch = 0
        while True:
            dir = f"{o.mount}/shard-0/epoch-{epoch}"
            with open(f"{dir}/epoch.json") as f:
                n = json.load(f)["batches"]
            for i in range(n):
                b = f"{dir}/batch-{i:05}"
                yield np.load(f"{b}.npy", mmap_mode="r"), np.load(f"{b}.labels.npy")
            epoch += 1

    contender.serve("batchfs", o.ahead, batches())


if __name__ == "__main__":
    contender.run(main)
