"""PyTorch's DataLoader over a folder of images, as most people train.

The crop is torchvision's RandomResizedCrop with antialiasing and a horizontal flip.
It is made of Pillow's images (--decoder pillow), or of tensors that torchvision's
own decoder makes (--decoder torchvision).
"""

import contender


def crop_of_tensors(size):
    """RandomResizedCrop and flip of uint8 tensors, by the newest transforms that are installed."""
    import torchvision.transforms as transforms

    try:
        from torchvision.transforms import v2
    except ImportError:  # before torchvision 0.15, RandomResizedCrop could not antialias tensors
        from torchvision.transforms import functional

        def crop(image):
            window = transforms.RandomResizedCrop.get_params(image, scale=(0.08, 1), ratio=(3 / 4, 4 / 3))
            return functional.resize(functional.crop(image, *window), [size, size], antialias=True)

        return transforms.Compose([crop, transforms.RandomHorizontalFlip(0.5)]), "transforms.functional"
    return v2.Compose([v2.RandomResizedCrop(size, antialias=True), v2.RandomHorizontalFlip(0.5)]), "transforms.v2"


def of_bytes(size):
    """A function that makes a crop from the bytes of a JPEG file with torchvision's decoder, and a
    description of it."""
    import torch
    import torchvision
    from torchvision import io

    transform, which = crop_of_tensors(size)

    def crop(data):
        encoded = torch.frombuffer(bytearray(data), dtype=torch.uint8)
        return transform(io.decode_jpeg(encoded, mode=io.ImageReadMode.RGB))

    return crop, f"PyTorch {torch.__version__}, torchvision {torchvision.__version__}, its decode_jpeg and {which}"


def endless(dataset, batch, workers, packed=None):
    """Returns how many batches are made ahead, and an iterator of full batches from one new
    permutation after another.

    packed makes a batch of samples that have boxes: their images, and the offsets, boxes and labels of all.
    """
    import torch

    class Endless(torch.utils.data.Sampler):
        def __init__(self):
            pass

        def __iter__(self):
            rest = []
            while True:
                rest += torch.randperm(len(dataset)).tolist()
                while len(rest) >= batch:
                    yield rest[:batch]
                    rest = rest[batch:]

    prefetch = 2
    loader = torch.utils.data.DataLoader(
        dataset, batch_sampler=Endless(), num_workers=workers, prefetch_factor=prefetch, collate_fn=packed
    )

    def arrays(targets):
        return contender.ragged(*(t.numpy() for t in targets)) if packed else targets.numpy()

    return prefetch * workers, ((images.numpy(), arrays(targets)) for images, targets in loader)


def main():
    flags = contender.flags(__doc__)
    flags.add_argument("--decoder", choices=["pillow", "torchvision"], required=True)
    o = flags.parse_args()

    import PIL
    import torch
    import torchvision
    from torchvision import datasets, io, transforms

    if o.decoder == "pillow":
        how = f"Pillow {PIL.__version__}"
        dataset = datasets.ImageFolder(
            o.dataset,
            transforms.Compose([transforms.RandomResizedCrop(o.size), transforms.RandomHorizontalFlip(0.5), transforms.PILToTensor()]),
        )
    else:
        transform, which = crop_of_tensors(o.size)
        how = f"torchvision's decode_jpeg and {which}"
        dataset = datasets.ImageFolder(
            o.dataset, transform, loader=lambda path: io.decode_jpeg(io.read_file(path), mode=io.ImageReadMode.RGB)
        )
    dataset[0]  # fail here if it cannot work, not in a worker
    what = f"PyTorch {torch.__version__}, torchvision {torchvision.__version__}, {how}, {o.workers} workers"
    contender.serve(what, *endless(dataset, o.batch_size, o.workers))


if __name__ == "__main__":
    contender.run(main)
