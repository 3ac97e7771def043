"""Trains with the Trainer of Hugging Face Transformers. get_train_dataloader is overridden, because
Trainer would otherwise shuffle batches and split them between processes once more.

    batchfs mount --daemon --shuffle --batch-size 32 --dtype float32 --layout nchw --normalize imagenet photos/train train
    batchfs mount --daemon --last-batch partial --dtype float32 --layout nchw --normalize imagenet --classes train/classes.txt photos/val val
    python3 hf_trainer.py train val --epochs 5
"""
import argparse
import tempfile

import torch
from transformers import Trainer, TrainingArguments, set_seed

import batchfs
from pytorch import accuracy, loss_of, network


def inputs(batch):
    """A batch as Trainer wants it."""
    return batchfs.to_torch(batch)._asdict()


class Classifier(torch.nn.Module):
    def __init__(self, classes):
        super().__init__()
        self.network = network(classes)

    def forward(self, **batch):
        return {"loss": loss_of(self.network, batchfs.Batch(**batch))}


class BatchTrainer(Trainer):
    def __init__(self, *args, batches, **kwargs):
        super().__init__(*args, train_dataset=batches, **kwargs)

    def get_train_dataloader(self):
        return self.train_dataset


def main():
    args = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    args.add_argument("train")
    args.add_argument("val")
    args.add_argument("--epochs", type=int, default=5)
    args = args.parse_args()

    set_seed(0)
    with open(f"{args.train}/classes.txt") as f:
        model = Classifier(sum(1 for _ in f))
    with tempfile.TemporaryDirectory() as directory:
        options = TrainingArguments(directory, num_train_epochs=args.epochs, learning_rate=1e-3, lr_scheduler_type="constant", weight_decay=0,
                                    use_cpu=True, report_to=[], save_strategy="no", disable_tqdm=True, logging_strategy="no")
        BatchTrainer(model, options, batches=batchfs.Batches(args.train, transform=inputs)).train()
    print(f"accuracy {accuracy(model.network, batchfs.Batches(args.val, transform=batchfs.to_torch)):.4f}")


if __name__ == "__main__":
    main()
