"""NVIDIA DALI on the CPU: its file reader, region decoder and resize."""

import contender


def main():
    flags = contender.flags(__doc__)
    flags.add_argument("--width", type=int, help="of crops that are not square; --size 0: whole images, all of one size")
    o = flags.parse_args()

    import numpy as np
    from nvidia import dali
    from nvidia.dali import fn, types

    prefetch = 2

    @dali.pipeline_def(batch_size=o.batch_size, num_threads=o.workers, device_id=None, prefetch_queue_depth=prefetch, seed=1)
    def pipeline():
        encoded, labels = fn.readers.file(file_root=o.dataset, random_shuffle=True)
        if not o.size:
            return fn.decoders.image(encoded, device="cpu", output_type=types.RGB), labels
        images = fn.decoders.image_random_crop(
            encoded, device="cpu", output_type=types.RGB, random_area=[0.08, 1], random_aspect_ratio=[3 / 4, 4 / 3], num_attempts=10
        )
        mirror = fn.random.coin_flip(probability=0.5)
        size = [o.size, o.width or o.size]  # the whole crop is kept: this resizes and flips in one step
        return fn.resize_crop_mirror(images, size=size, crop=size, mirror=mirror, interp_type=types.INTERP_LINEAR, antialias=True), labels

    p = pipeline()
    p.build()

    def batches():
        while True:
            images, labels = p.run()
            yield np.asarray(images.as_tensor()), np.asarray(labels.as_tensor())

    made = batches()
    next(made)  # fail here if it cannot work
    contender.serve(f"NVIDIA DALI {dali.__version__} on the CPU, {o.workers} threads", prefetch, made)


if __name__ == "__main__":
    contender.run(main)
