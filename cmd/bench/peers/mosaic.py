"""mosaicml-streaming and PyTorch's DataLoader: shards of MDS in an object store.

It keeps every shard on the local disk, where it finds it in the second epoch. To measure the
first, an epoch consists of many streams that read the same shards, each into a directory of its own.
"""

import importlib.util
import itertools
import os
import sys
import tempfile
import types

import contender

COPIES = 16


def package():
    """Imports streaming. It imports transformers, which is large and not used here; if that is
    missing, empty modules take its place."""
    if not importlib.util.find_spec("transformers"):
        for name, classes in {
            "transformers": [],
            "transformers.feature_extraction_utils": ["BatchFeature"],
            "transformers.tokenization_utils_base": ["BatchEncoding"],
            "transformers.models": [],
            "transformers.models.auto": [],
            "transformers.models.auto.tokenization_auto": ["AutoTokenizer"],
        }.items():
            sys.modules[name] = module = types.ModuleType(name)
            for each in classes:
                setattr(module, each, type(each, (), {}))
    import streaming

    return streaming


def main():
    flags = contender.flags(__doc__)
    flags.add_argument("--endpoint", required=True)
    flags.add_argument("--local", required=True)
    o = flags.parse_args()

    os.environ["S3_ENDPOINT_URL"] = o.endpoint
    streaming = package()

    import torch
    from dataloader import of_bytes

    crop, how = of_bytes(o.size)

    class Images(streaming.StreamingDataset):
        def __getitem__(self, i):
            sample = super().__getitem__(i)
            return crop(sample["jpg"]), sample["class"]

    prefetch = 2

    def batches():
        while True:
            with tempfile.TemporaryDirectory(dir=o.local, ignore_cleanup_errors=True) as local:
                streams = [streaming.Stream(remote=o.dataset, local=f"{local}/{i}") for i in range(COPIES)]
                # Shuffled within as many samples as the whole bucket has, so that shards are fetched all through the epoch, not
                # most of them at its beginning.
                dataset = Images(streams=streams, batch_size=o.batch_size, shuffle=True, shuffle_block_size=2048, cache_limit="1gb")
                loader = torch.utils.data.DataLoader(
                    dataset, batch_size=o.batch_size, num_workers=o.workers, prefetch_factor=prefetch, drop_last=True
                )
                for images, labels in loader:
                    yield images.numpy(), labels.numpy()

    made = batches()
    first = next(made)  # fail here if it cannot work
    contender.serve(
        f"mosaicml-streaming {streaming.__version__}, {how}, {o.workers} workers", prefetch * o.workers, itertools.chain([first], made)
    )


if __name__ == "__main__":
    contender.run(main)
