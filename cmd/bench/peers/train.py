"""Trains a small PyTorch model on the batches of a mount, and tests it on those of another mount.

Prints how many images a second it trained on from the second epoch on, and the share of the test images
whose class it names. Classes are labels modulo --classes.
"""

import argparse
import json
import time

import mounted
import torch
from torch import nn


def main():
    flags = argparse.ArgumentParser(description=__doc__)
    flags.add_argument("--mount", required=True)
    flags.add_argument("--test", required=True)
    for name in ("classes", "channels", "epochs", "seed"):
        flags.add_argument("--" + name, type=int, required=True)
    o = flags.parse_args()

    torch.manual_seed(o.seed)
    torch.set_num_threads(1)
    n = o.channels
    layers = [nn.Conv2d(3, n, 5, stride=2), nn.ReLU(), nn.Conv2d(n, 2 * n, 3, stride=2), nn.ReLU()]
    layers += [nn.Conv2d(2 * n, 2 * n, 3, stride=2), nn.ReLU(), nn.AdaptiveAvgPool2d(2), nn.Flatten()]
    model = nn.Sequential(*layers, nn.Linear(8 * n, o.classes))
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    loss = nn.CrossEntropyLoss()

    def batches(mount, epoch):
        for images, labels in mounted.batches(mount, epoch):
            small = torch.from_numpy(images[:, ::4, ::4].copy())  # every fourth row and column
            yield small.permute(0, 3, 1, 2).float() / 128 - 1, torch.from_numpy(labels) % o.classes

    trained = 0
    for epoch in range(o.epochs):
        if epoch == 1:
            trained, began = 0, time.perf_counter()
        for images, labels in batches(o.mount, epoch):
            optimizer.zero_grad()
            loss(model(images), labels).backward()
            optimizer.step()
            trained += len(images)
    seconds = time.perf_counter() - began

    correct = tested = 0
    with torch.no_grad():
        for images, labels in batches(o.test, 0):
            correct += int((model(images).argmax(1) == labels).sum())
            tested += len(images)
    print(json.dumps({"rate": trained / seconds, "correct": correct / tested}))


if __name__ == "__main__":
    main()
