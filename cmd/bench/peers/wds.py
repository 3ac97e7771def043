"""webdataset and PyTorch's DataLoader: tars, each read from an object store as one stream."""

import contender


def main():
    o = contender.flags(__doc__).parse_args()

    import torch
    import webdataset
    from dataloader import of_bytes

    crop, how = of_bytes(o.size)
    dataset = (
        webdataset.WebDataset(o.dataset, resampled=True)  # without end
        .shuffle(1000)
        .to_tuple("jpg", "cls")
        .map_tuple(crop, int)
        .batched(o.batch_size, collation_fn=torch.utils.data.default_collate)
    )
    next(iter(dataset))  # fail here if it cannot work, not in a worker

    prefetch = 2
    loader = torch.utils.data.DataLoader(dataset, batch_size=None, num_workers=o.workers, prefetch_factor=prefetch)
    contender.serve(
        f"webdataset {webdataset.__version__}, {how}, {o.workers} workers",
        prefetch * o.workers,
        ((images.numpy(), labels.numpy()) for images, labels in loader),
    )


if __name__ == "__main__":
    contender.run(main)
