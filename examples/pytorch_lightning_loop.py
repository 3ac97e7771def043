"""Trains with PyTorch Lightning. The loader is `Batches` itself: it has a length and a state, and each loop is the next epoch.

    batchfs mount --daemon --shuffle --batch-size 32 --dtype float32 --layout nchw --normalize imagenet photos/train train
    batchfs mount --daemon --last-batch partial --dtype float32 --layout nchw --normalize imagenet --classes train/classes.txt photos/val val
    python3 pytorch_lightning_loop.py train val --epochs 5

In several processes, mount with --shards and pass use_distributed_sampler=False, which is the default for loaders of this kind.
"""
import argparse

import pytorch_lightning as pl
import torch

import batchfs
from pytorch import accuracy, loss_of, network


class Classifier(pl.LightningModule):
    def __init__(self, classes):
        super().__init__()
        self.model = network(classes)

    def training_step(self, batch, _):
        return loss_of(self.model, batch)

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), 1e-3)


def main():
    args = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    args.add_argument("train")
    args.add_argument("val")
    args.add_argument("--epochs", type=int, default=5)
    args = args.parse_args()

    pl.seed_everything(0)
    with open(f"{args.train}/classes.txt") as f:
        model = Classifier(sum(1 for _ in f))
    trainer = pl.Trainer(max_epochs=args.epochs, accelerator="cpu", logger=False, enable_checkpointing=False, enable_progress_bar=False)
    trainer.fit(model, batchfs.Batches(args.train, transform=batchfs.to_torch))
    print(f"accuracy {accuracy(model.model, batchfs.Batches(args.val, transform=batchfs.to_torch)):.4f}")


if __name__ == "__main__":
    main()
