"""Packs a folder of images into shards for one of the loaders that read shards, with the loader's
own writer.

Shards are smaller than usual, because the folder is: so each worker gets several.
"""

import argparse
import os

import mosaic

SHARD = 16 << 20  # bytes


def images(folder):
    """Yields the name, the bytes and the label of each image, with the classes mixed."""
    found = []
    for label, name in enumerate(sorted(os.listdir(folder))):
        found += [(file, label, os.path.join(folder, name, file)) for file in os.listdir(os.path.join(folder, name))]
    for file, label, path in sorted(found):
        with open(path, "rb") as f:
            yield os.path.splitext(file)[0], f.read(), label


def wds(folder, out):
    import webdataset

    os.makedirs(out)
    with webdataset.ShardWriter(f"{out}/%06d.tar", maxsize=SHARD, verbose=0) as shards:
        for name, data, label in images(folder):
            shards.write({"__key__": name, "jpg": data, "cls": label})


def mds(folder, out):
    with mosaic.package().MDSWriter(out=out, columns={"jpg": "bytes", "class": "int"}, size_limit=SHARD) as shards:
        for _, data, label in images(folder):
            shards.write({"jpg": data, "class": label})


def main():
    flags = argparse.ArgumentParser(description=__doc__)
    flags.add_argument("--dataset", required=True)
    flags.add_argument("--as", dest="pack", choices=["wds", "mds"], required=True)
    flags.add_argument("--out", required=True)
    o = flags.parse_args()
    globals()[o.pack](o.dataset, o.out)


if __name__ == "__main__":
    main()
