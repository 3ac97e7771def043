"""Trains a classifier from a mount with PyTorch, and evaluates it on another one.

    batchfs mount --daemon --shuffle --batch-size 32 --dtype float32 --layout nchw --normalize imagenet photos/train train
    batchfs mount --daemon --last-batch partial --dtype float32 --layout nchw --normalize imagenet --classes train/classes.txt photos/val val
    python3 pytorch.py train val --epochs 5
"""
import argparse

import torch
from torch import nn
from torch.nn import functional as F

import batchfs


def network(classes, channels=3):
    """A small network for images of any size."""
    layers, width = [], channels
    for n in (16, 32, 64):
        layers += [nn.Conv2d(width, n, 3, padding=1), nn.BatchNorm2d(n), nn.ReLU(), nn.MaxPool2d(2)]
        width = n
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(2), nn.Flatten(), nn.Linear(4 * width, classes))


def loss_of(model, batch):
    """The mean loss over the samples of a batch. In the last batch of an epoch, slots may repeat a
    sample to fill it; they do not count. With several shards, all slots of a batch may be
    repetitions."""
    losses = F.cross_entropy(model(batch.images), batch.labels, reduction="none")
    return (losses * batch.valid).sum() / batch.valid.sum().clamp(min=1)


@torch.no_grad()
def accuracy(model, batches):
    model.eval()
    right = total = 0
    for batch in batches:
        right += ((model(batch.images).argmax(1) == batch.labels) & batch.valid).sum().item()
        total += batch.valid.sum().item()
    return right / total


def main():
    args = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    args.add_argument("train")
    args.add_argument("val")
    args.add_argument("--epochs", type=int, default=5)
    args = args.parse_args()

    torch.manual_seed(0)
    with open(f"{args.train}/classes.txt") as f:
        classes = sum(1 for _ in f)
    model = network(classes)
    optimizer = torch.optim.Adam(model.parameters(), 1e-3)
    train = batchfs.Batches(args.train, transform=batchfs.to_torch)
    for epoch in range(args.epochs):
        model.train()
        for batch in train:
            optimizer.zero_grad()
            loss = loss_of(model, batch)
            loss.backward()
            optimizer.step()
        print(f"epoch {epoch}: loss {loss.item():.3f}")
    print(f"accuracy {accuracy(model, batchfs.Batches(args.val, transform=batchfs.to_torch)):.4f}")


if __name__ == "__main__":
    main()
