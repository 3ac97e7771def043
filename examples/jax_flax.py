"""Trains with JAX and Flax; with --grain, through a Grain pipeline.

    batchfs mount --daemon --shuffle --batch-size 32 --dtype float32 --normalize imagenet photos/train train
    batchfs mount --daemon --dtype float32 --normalize imagenet --classes train/classes.txt photos/val val
    python3 jax_flax.py train val --epochs 5
"""
import argparse

import jax
import jax.numpy as jnp
import optax
from flax import linen as nn

import batchfs


class Network(nn.Module):
    classes: int

    @nn.compact
    def __call__(self, x):
        for n in (16, 32, 64):
            x = nn.max_pool(nn.relu(nn.GroupNorm(8)(nn.Conv(n, (3, 3))(x))), (2, 2), (2, 2))
        x = nn.avg_pool(x, (2, 2), (2, 2))
        return nn.Dense(self.classes)(x.reshape(x.shape[0], -1))


def epochs(batches, n, grain):
    """The batches of n epochs. Grain asks a source for single elements: here, the batches of all epochs in a row."""
    if not grain:
        for _ in range(n):
            yield from batches
        return
    import grain.python as pygrain
    size = len(batches)
    yield from pygrain.MapDataset.range(n * size).map(lambda i: batches[divmod(i, size)]).to_iter_dataset()


def main():
    args = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    args.add_argument("train")
    args.add_argument("val")
    args.add_argument("--epochs", type=int, default=5)
    args.add_argument("--grain", action="store_true")
    args = args.parse_args()

    with open(f"{args.train}/classes.txt") as f:
        model = Network(sum(1 for _ in f))
    train, val = batchfs.Batches(args.train), batchfs.Batches(args.val)
    parameters = model.init(jax.random.key(0), train[0].images[:1])
    optimizer = optax.adam(1e-3)

    @jax.jit
    def step(parameters, state, images, labels, valid):
        def loss(p):  # over the slots that do not repeat a sample
            losses = optax.softmax_cross_entropy_with_integer_labels(model.apply(p, images), labels)
            return (losses * valid).sum() / jnp.maximum(valid.sum(), 1)
        updates, state = optimizer.update(jax.grad(loss)(parameters), state)
        return optax.apply_updates(parameters, updates), state

    @jax.jit
    def right(parameters, images, labels, valid):
        return ((model.apply(parameters, images).argmax(1) == labels) & valid).sum()

    state = optimizer.init(parameters)
    for b in epochs(train, args.epochs, args.grain):
        parameters, state = step(parameters, state, b.images, b.labels, b.valid)
    counts = [(int(right(parameters, b.images, b.labels, b.valid)), int(jnp.sum(b.valid))) for b in val]
    print(f"accuracy {sum(r for r, _ in counts) / sum(n for _, n in counts):.4f}")


if __name__ == "__main__":
    main()
