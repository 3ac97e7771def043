"""Indexes a dataset on the nodes of a Ray cluster: array_ray.py DATASET DIRECTORY [PARTS]

The index is written to DIRECTORY. All nodes must see it, and have batchfs in their PATH. If a node
is lost, Ray makes its parts again on another one.
"""

import subprocess
import sys

import ray


def batchfs(dataset, directory, *flags):
    subprocess.run(["batchfs", "index", dataset, "--index-at", directory, *flags], check=True)


@ray.remote(num_cpus=1, max_retries=3, scheduling_strategy="SPREAD")
def make_part(dataset, directory, k, parts):
    batchfs(dataset, directory, "--part", f"{k}/{parts}")


def index(dataset, directory, parts=16):
    ray.get([make_part.remote(dataset, directory, k, parts) for k in range(parts)])
    batchfs(dataset, directory, "--merge")


if __name__ == "__main__":
    ray.init()
    index(sys.argv[1], sys.argv[2], *map(int, sys.argv[3:]))
