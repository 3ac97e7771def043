"""PyTorch's DataLoader and AWS's connector for it, which uses mountpoint-s3's client: one object
for each image."""

import posixpath

import contender


def main():
    flags = contender.flags(__doc__)
    flags.add_argument("--endpoint", required=True)
    o = flags.parse_args()

    import s3torchconnector
    from dataloader import endless, of_bytes

    crop, how = of_bytes(o.size)

    def sample(object):
        folder = posixpath.dirname(object.key)
        return crop(object.read()), int(folder.rpartition("-")[2])

    dataset = s3torchconnector.S3MapDataset.from_prefix(
        o.dataset, region="us-east-1", endpoint=o.endpoint, transform=sample,
        s3client_config=s3torchconnector.S3ClientConfig(force_path_style=True),
    )
    dataset[0]  # fail here if it cannot work, not in a worker
    what = f"s3torchconnector {s3torchconnector.__version__}, {how}, {o.workers} workers"
    contender.serve(what, *endless(dataset, o.batch_size, o.workers))


if __name__ == "__main__":
    contender.run(main)
