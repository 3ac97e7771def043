"""Trains with Keras 3, on any of its backends.

    batchfs mount --daemon --shuffle --batch-size 32 --dtype float32 --normalize imagenet photos/train train
    batchfs mount --daemon --last-batch partial --dtype float32 --normalize imagenet --classes train/classes.txt photos/val val
    KERAS_BACKEND=jax python3 keras_fit.py train val --epochs 5
"""
import argparse

import keras

import batchfs


class Data(keras.utils.PyDataset):
    """Batches for fit() and evaluate(). Keras asks for batches by number, and says when an epoch is over."""

    def __init__(self, mount):
        super().__init__()
        self.batches = batchfs.Batches(mount)

    def __len__(self):
        return len(self.batches)

    def __getitem__(self, i):
        b = self.batches[i]
        return b.images, b.labels, b.valid.astype("float32")  # the weight of a slot that repeats a sample is 0

    def on_epoch_end(self):
        self.batches.set_epoch(self.batches.epoch + 1)


def main():
    args = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    args.add_argument("train")
    args.add_argument("val")
    args.add_argument("--epochs", type=int, default=5)
    args = args.parse_args()

    keras.utils.set_random_seed(0)
    with open(f"{args.train}/classes.txt") as f:
        classes = sum(1 for _ in f)
    train = Data(args.train)
    layers = [keras.layers.Input(train[0][0].shape[1:])]
    for n in (16, 32, 64):
        layers += [keras.layers.Conv2D(n, 3, padding="same"), keras.layers.GroupNormalization(8), keras.layers.ReLU(), keras.layers.MaxPool2D()]
    model = keras.Sequential(layers + [keras.layers.AveragePooling2D(2), keras.layers.Flatten(), keras.layers.Dense(classes)])
    model.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True), weighted_metrics=["accuracy"])
    model.fit(train, epochs=args.epochs, shuffle=False, verbose=0)
    print(f"accuracy {model.evaluate(Data(args.val), verbose=0)[1]:.4f}")


if __name__ == "__main__":
    main()
