"""Writes scikit-learn's digits as a dataset: digits.py DIRECTORY makes DIRECTORY/train and DIRECTORY/val, with 1437 and 360 JPEGs in ten classes."""
import os
import sys

import numpy as np
from PIL import Image
from sklearn.datasets import load_digits

images, labels = load_digits(return_X_y=True)
order = np.random.default_rng(0).permutation(len(images))
for i, k in enumerate(order):
    directory = os.path.join(sys.argv[1], "val" if i % 5 == 0 else "train", str(labels[k]))
    os.makedirs(directory, exist_ok=True)
    pixels = (images[k].reshape(8, 8) * 255 / 16).astype(np.uint8)
    Image.fromarray(pixels).resize((32, 32), Image.BICUBIC).convert("RGB").save(os.path.join(directory, f"{k:04}.jpg"), quality=95)
