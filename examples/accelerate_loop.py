"""Trains with Hugging Face Accelerate. Do not pass batches to prepare(): each process reads its own shard already, and Accelerate
would split them once more.

    batchfs mount --daemon --shuffle --batch-size 32 --dtype float32 --layout nchw --normalize imagenet photos/train train
    batchfs mount --daemon --last-batch partial --dtype float32 --layout nchw --normalize imagenet --classes train/classes.txt photos/val val
    accelerate launch accelerate_loop.py train val --epochs 5
"""
import argparse

import torch
from accelerate import Accelerator
from accelerate.utils import set_seed

import batchfs
from pytorch import accuracy, loss_of, network


def main():
    args = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    args.add_argument("train")
    args.add_argument("val")
    args.add_argument("--epochs", type=int, default=5)
    args = args.parse_args()

    accelerator = Accelerator()
    set_seed(0)
    with open(f"{args.train}/classes.txt") as f:
        model = network(sum(1 for _ in f))
    model, optimizer = accelerator.prepare(model, torch.optim.Adam(model.parameters(), 1e-3))
    train = batchfs.Batches(args.train, transform=batchfs.to_torch)
    for _ in range(args.epochs):
        model.train()
        for batch in train:
            optimizer.zero_grad()
            accelerator.backward(loss_of(model, batch._replace(images=batch.images.to(accelerator.device), labels=batch.labels.to(accelerator.device))))
            optimizer.step()
    accelerator.print(f"accuracy {accuracy(model, batchfs.Batches(args.val, transform=batchfs.to_torch)):.4f}")


if __name__ == "__main__":
    main()
