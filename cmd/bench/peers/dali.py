"""NVIDIA DALI on the CPU: its readers, decoders of regions and resize.

An image and its mask are read by two readers with one seed, and cropped by one window. Boxes are
cropped by random_bbox_crop, which chooses the sides of a window rather than its area: between 0.45
and 1 of the image's, so that the mean area is about as large as that of the other crops.
"""

import contender


def main():
    flags = contender.flags(__doc__)
    flags.add_argument("--width", type=int, help="of crops that are not square; --size 0: whole images, all of one size")
    contender.targets(flags)
    o = flags.parse_args()

    import numpy as np
    from nvidia import dali
    from nvidia.dali import fn, types

    prefetch, ratios = 2, [3 / 4, 4 / 3]
    size = [o.size, o.width or o.size]

    def resized(crop, mirror, **how):
        return fn.resize_crop_mirror(crop, size=size, crop=size, mirror=mirror, **how)  # the whole crop is kept: one step

    linear = dict(interp_type=types.INTERP_LINEAR, antialias=True)
    pipeline_def = dali.pipeline_def(batch_size=o.batch_size, num_threads=o.workers, device_id=None, prefetch_queue_depth=prefetch, seed=1)

    @pipeline_def
    def labelled():
        encoded, labels = fn.readers.file(file_root=o.dataset, random_shuffle=True)
        if not o.size:
            return fn.decoders.image(encoded, device="cpu", output_type=types.RGB), labels
        images = fn.decoders.image_random_crop(
            encoded, device="cpu", output_type=types.RGB, random_area=[0.08, 1], random_aspect_ratio=ratios, num_attempts=10
        )
        return resized(images, fn.random.coin_flip(probability=0.5), **linear), labels

    @pipeline_def
    def masked():
        pairs = contender.pairs(o.dataset, o.masks)
        image, mask = (
            fn.readers.file(files=files, labels=list(range(len(files))), random_shuffle=True, seed=1) for files in zip(*pairs)
        )
        window = fn.random_crop_generator(
            fn.peek_image_shape(image[0]), random_area=[0.08, 1], random_aspect_ratio=ratios, num_attempts=10
        )
        images = fn.decoders.image_slice(image[0], *window, axes=[0, 1], output_type=types.RGB)
        masks = fn.decoders.image_slice(mask[0], *window, axes=[0, 1], output_type=types.GRAY)
        mirror = fn.random.coin_flip(probability=0.5)
        return resized(images, mirror, **linear), resized(masks, mirror, interp_type=types.INTERP_NN), image[1], mask[1]

    @pipeline_def
    def boxed():
        encoded, boxes, labels = fn.readers.coco(
            file_root=o.dataset, annotations_file=o.boxes, ratio=True, ltrb=True, random_shuffle=True, skip_empty=False
        )
        at, shape, boxes, labels = fn.random_bbox_crop(
            boxes, labels, thresholds=[0], scaling=[0.45, 1], aspect_ratio=ratios, allow_no_crop=False,
            bbox_layout="xyXY", bbox_prune_threshold=0, num_attempts=10,
        )
        mirror = fn.random.coin_flip(probability=0.5)
        images = fn.decoders.image_slice(encoded, at, shape, output_type=types.RGB)
        pixels = np.float32([size[1], size[0]] * 2)
        return resized(images, mirror, **linear), fn.bb_flip(boxes, ltrb=True, horizontal=mirror) * pixels, labels

    p = masked() if o.masks else boxed() if o.boxes else labelled()
    p.build()

    def batches():
        while True:
            images, *targets = p.run()
            images = np.asarray(images.as_tensor())
            if o.boxes:
                boxes, labels = targets
                yield images, [(boxes.at(i), labels.at(i)) for i in range(len(images))]
                continue
            targets = [np.asarray(t.as_tensor()) for t in targets]
            if o.masks and not np.array_equal(*targets[1:]):
                raise ValueError("an image has another one's mask")
            yield images, targets[0][..., 0] if o.masks else targets[0]

    made = batches()
    next(made)  # fail here if it cannot work
    contender.serve(f"NVIDIA DALI {dali.__version__} on the CPU, {o.workers} threads", prefetch, made)


if __name__ == "__main__":
    contender.run(main)
