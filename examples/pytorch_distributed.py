"""Trains with PyTorch in several processes, each on its own shard, and continues in the middle of
an epoch after it was stopped.

    batchfs mount --daemon --shards 2 --shuffle --batch-size 16 --dtype float32 --layout nchw --normalize imagenet photos/train train
    torchrun --nproc_per_node 2 pytorch_distributed.py train --epochs 5 --checkpoint state.pt
"""
import argparse
import os

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

import batchfs
from pytorch import loss_of, network


def main():
    args = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    args.add_argument("train")
    args.add_argument("--epochs", type=int, default=5)
    args.add_argument("--steps", type=int, default=1 << 62, help="stop after so many, wherever that is in an epoch")
    args.add_argument("--checkpoint", default="state.pt")
    args.add_argument("--log", help="prefix of a file for each rank, with the samples of each step")
    args = args.parse_args()

    dist.init_process_group("gloo")
    torch.manual_seed(0)
    with open(f"{args.train}/classes.txt") as f:
        model = DistributedDataParallel(network(sum(1 for _ in f)))
    optimizer = torch.optim.Adam(model.parameters(), 1e-3)
    batches = batchfs.Batches(args.train, transform=batchfs.to_torch)  # the shard of this rank

    if os.path.exists(args.checkpoint):
        state = torch.load(args.checkpoint)
        model.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
        batches.load_state_dict(state["batches"])

    steps = 0
    while batches.epoch < args.epochs and steps < args.steps:
        epoch = batches.epoch
        for batch in batches:
            optimizer.zero_grad()
            loss_of(model, batch).backward()
            optimizer.step()
            if args.log:
                with open(f"{args.log}.{dist.get_rank()}", "a") as f:
                    print(epoch, *batch.ids[batch.valid].tolist(), file=f)
            steps += 1
            if steps == args.steps:
                break
    if dist.get_rank() == 0:  # all ranks are at the same batch of their shards
        torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict(), "batches": batches.state_dict()}, args.checkpoint + ".new")
        os.rename(args.checkpoint + ".new", args.checkpoint)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
