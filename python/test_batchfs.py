"""Tests of the package on real mounts: test_batchfs.py DATASET, with batchfs in PATH. The dataset has at least 48 images in
classes. What needs PyTorch is skipped without it."""
import copy
import json
import os
import pathlib
import pickle
import shutil
import subprocess
import sys
import tempfile
import unittest
from unittest import mock

import numpy as np

import batchfs

try:
    import torch
    from torch.utils.data import DataLoader
except ImportError:
    torch = None

needs_torch = unittest.skipUnless(torch, "SKIPPED: no PyTorch here")


def ids(batches):
    return [np.asarray(b.ids).tolist() for b in batches]


class OnAMount(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.mount = batchfs.mount(DATASET, shards=2, batch_size=8, shuffle=True, resize="stretch", size="24x32")
        cls.addClassCleanup(cls.mount.close)
        b = cls.open()
        cls.epochs = [ids(b[epoch, i] for i in range(b.count(epoch))) for epoch in range(4)]

    @classmethod
    def open(cls, **options):
        return batchfs.Batches(cls.mount, shard=1, **options)

    def test_a_batch_is_its_files(self):
        b = self.open()
        path = os.path.join(self.mount.path, "shard-1", "epoch-2", "batch-00001.")
        for array, form in zip(b[2, 1], ("npy", "labels.npy", "ids.npy", "valid.npy")):
            self.assertTrue(np.array_equal(array, np.load(path + form)), form)
        self.assertEqual(b[2, 1].images.shape, (8, 24, 32, 3))
        self.assertEqual(ids([b[-1], b[0]]), [self.epochs[0][-1], self.epochs[0][0]])
        for i in (len(b), -len(b) - 1):
            with self.assertRaises(IndexError):
                b[i]

    def test_loops_advance_the_epoch(self):
        b = self.open()
        self.assertEqual([ids(b) for _ in range(3)], self.epochs[:3])
        b.set_epoch(1)
        self.assertEqual(ids(b), self.epochs[1])
        b.set_epoch(2)  # as it is already, and as trainers say nevertheless
        self.assertEqual((b.state_dict()["epoch"], b.state_dict()["batch"]), (2, 0))
        b.set_epoch(0)
        self.assertEqual((b.state_dict()["epoch"], ids(b)), (0, self.epochs[0]))

    def test_resuming(self):
        for taken in range(len(self.epochs[0]) + 1):
            b = self.open()
            loop = iter(b)
            for _ in range(taken):
                next(loop)
            state = json.loads(json.dumps(b.state_dict()))
            again = self.open()
            again.load_state_dict(state)
            self.assertEqual(again.state_dict(), state)
            again.set_epoch(state["epoch"])  # as trainers do when an epoch begins
            rest = ids(again) + ids(again)
            self.assertEqual(rest, (self.epochs[0] + self.epochs[1] + self.epochs[2])[taken:][: len(rest)], taken)
        with self.assertRaisesRegex(ValueError, "fingerprint"):
            again.load_state_dict({**state, "fingerprint": "0"})
        other = batchfs.Batches(self.mount, shard=0)  # many trainers save the state of one process for all
        other.load_state_dict(state)
        self.assertEqual(other.state_dict(), state)

    def test_ranks(self):
        with mock.patch.dict(os.environ, {"RANK": "1", "WORLD_SIZE": "2"}):
            self.assertEqual(ids(batchfs.Batches(self.mount)), self.epochs[0])
        with mock.patch.dict(os.environ, {"SLURM_PROCID": "2", "SLURM_STEP_NUM_TASKS": "3"}):
            self.assertEqual(batchfs.rank(), (2, 3))
            with self.assertRaisesRegex(ValueError, "--shards 3"):
                batchfs.Batches(self.mount)
        with self.assertRaisesRegex(ValueError, "shard 2"):
            batchfs.Batches(self.mount, shard=2)
        with self.assertRaisesRegex(FileNotFoundError, "no batchfs is mounted there"):
            batchfs.Batches(DATASET)
        with self.assertRaisesRegex(ValueError, "style"):
            self.open(style="mapp")

    def test_copies_go_on_where_the_original_is(self):
        b = self.open(transform=len)
        iter(b).__next__()
        for twin in (copy.deepcopy(b), pickle.loads(pickle.dumps(b))):
            self.assertEqual((twin.epoch, twin.shard, twin.transform, twin.state_dict()), (1, 1, len, b.state_dict()))
            twin.set_epoch(3)
        self.assertEqual(b.epoch, 1)

    @needs_torch
    def test_data_loader(self):
        for style in ("iterable", "map"):
            for workers, options in ((0, {}), (2, {}), (3, {"persistent_workers": True})):
                b = self.open(style=style)
                loader = DataLoader(b, batch_size=None, num_workers=workers, sampler=b.keys if style == "map" else None, **options)
                self.assertEqual(len(loader), len(self.epochs[0]))
                self.assertEqual([ids(loader), ids(loader)], self.epochs[:2], (style, workers, options))
                self.assertEqual(b.epoch, 2)
                b.load_state_dict(b.state_dict(1, 2))
                self.assertEqual([ids(loader), ids(loader)], [self.epochs[1][2:], self.epochs[2]], (style, workers, options))

    @needs_torch
    def test_another_number_of_workers(self):
        b = self.open()
        for epoch, workers in enumerate((2, 0, 3)):
            b.set_epoch(epoch)
            self.assertEqual(ids(DataLoader(b, batch_size=None, num_workers=workers)), self.epochs[epoch])

    @needs_torch
    def test_to_device(self):
        plain = torch.empty_like
        with mock.patch.object(torch.cuda, "Event", mock.Mock), mock.patch.object(torch, "empty_like", lambda t, pin_memory: plain(t)):
            for transform in (None, batchfs.to_torch):
                for got, want in zip(batchfs.to_device(self.open(transform=transform), "cpu"), self.open(), strict=True):
                    self.assertTrue(all(np.array_equal(g.numpy(), w) for g, w in zip(got, want)))

    @needs_torch
    def test_spawned_workers(self):
        loader = DataLoader(self.open(), batch_size=None, num_workers=1, multiprocessing_context="spawn", persistent_workers=True)
        self.assertEqual([ids(loader), ids(loader)], self.epochs[:2])

    @needs_torch
    def test_made_before_torch_is_imported(self):
        code = ("import batchfs, sys; b = batchfs.Batches(sys.argv[1], shard=1); from torch.utils.data import DataLoader\n"
                "loader = DataLoader(b, batch_size=None)\nfor _ in range(2): print([x.ids.tolist() for x in loader])")
        out = subprocess.run([sys.executable, "-c", code, self.mount.path], check=True, stdout=subprocess.PIPE, text=True).stdout
        self.assertEqual([json.loads(line) for line in out.splitlines()], self.epochs[:2])

    @needs_torch
    def test_data_loader_says_what_it_cannot_know(self):
        b = self.open()
        next(iter(DataLoader(b, batch_size=None, num_workers=1)))
        for reads_ahead in (b, self.open(style="map")):
            with self.assertRaisesRegex(RuntimeError, "read ahead"):
                reads_ahead.state_dict()
        with self.assertRaisesRegex(TypeError, "sampler=batches.keys"):
            next(iter(DataLoader(self.open(style="map"), batch_size=None)))


class OnMountsOfItsOwn(unittest.TestCase):
    def test_flags_and_the_end(self):
        with batchfs.mount(DATASET, batch_size=5, mean=[1, 2, 3], pad_last_batch=False, last_batch="partial", dtype="float32") as mount:
            kept = batchfs.Batches(mount)[0].images
            with open(os.path.join(mount.path, "dataset.json")) as f:
                settings = json.load(f)["settings"]
            self.assertEqual((settings["batch_size"], settings["mean"], settings["pad_last_batch"]), (5, [1, 2, 3], False))
            total = kept.sum()
        self.assertFalse(os.path.exists(mount.path))
        self.assertEqual(kept.sum(), total)  # what is referenced outlives the mount
        with self.assertRaisesRegex(RuntimeError, "batch-size"):
            batchfs.mount(DATASET, batch_size=0)

    def test_another_world_size(self):
        def batches(world, rank=None):
            options = dict(shuffle=True, seed=3, resize="stretch", size="8x8", partition="elastic", global_batch=12, world_size=world, rank=rank)
            mount = batchfs.mount(DATASET, **options)
            self.addCleanup(mount.close)
            with mock.patch.dict(os.environ, {"RANK": str(rank or 0), "WORLD_SIZE": str(world)}):
                return batchfs.Batches(mount)

        def step(loops):
            return [i for batch in map(next, loops) for i in batch.ids[batch.valid].tolist()]

        alone = [ids([b])[0] for b in batches(1)]
        ranks = [batches(2, rank) for rank in range(2)]
        loops = list(map(iter, ranks))
        self.assertEqual([step(loops) for _ in range(2)], alone[:2])
        others = [batches(3, rank) for rank in range(3)]
        for b in others:
            b.load_state_dict(ranks[1].state_dict())
        loops = list(map(iter, others))
        self.assertEqual([step(loops) for _ in alone[2:]], alone[2:])
        with mock.patch.dict(os.environ, {"RANK": "0", "WORLD_SIZE": "4"}), self.assertRaisesRegex(ValueError, "--world-size 4"):
            batchfs.Batches(ranks[0].path)

    def test_the_reason_of_no_memory(self):
        with batchfs.mount(DATASET, batch_size=16, resize="stretch", size=(224, 224), dtype="float32", memory_limit="60MiB", memory_wait="100ms") as mount:
            b = batchfs.Batches(mount)
            with self.assertRaisesRegex(OSError, "raise --memory-limit"):
                [b[i, 0].images for i in range(20)]

    def test_paths(self):
        dataset, before = os.path.abspath(DATASET), os.getcwd()
        with tempfile.TemporaryDirectory() as d:
            self.addCleanup(os.chdir, before)
            os.chdir(d)
            os.mkdir("mnt")
            mount = batchfs.mount(pathlib.Path(dataset), pathlib.Path("mnt"), resize="stretch", size=(8, 16))
            os.chdir(before)
            self.assertEqual(batchfs.Batches(mount)[0].images.shape, (32, 8, 16, 3))
            mount.close()
            self.assertEqual(os.listdir(os.path.join(d, "mnt")), [])

    def test_unmounted_by_others(self):
        with batchfs.mount(DATASET) as mount:
            subprocess.run(["batchfs", "umount", mount.path], check=True, env={**os.environ, "PATH": os.path.dirname(mount._program)})
        self.assertFalse(os.path.exists(mount.path))

    def test_the_reason_of_a_failure(self):
        with tempfile.TemporaryDirectory() as d:
            for name in sorted(os.listdir(DATASET))[:1]:
                shutil.copytree(os.path.join(DATASET, name), os.path.join(d, name))
                bad = sorted(os.listdir(os.path.join(d, name)))[0]
            with open(os.path.join(d, name, bad), "r+b") as f:
                f.truncate(1000)
            with batchfs.mount(d) as mount:
                with self.assertRaisesRegex(OSError, f"{name}/{bad}: "):
                    batchfs.Batches(mount)[0]

    @needs_torch
    def test_tensors(self):
        for dtype in ("uint8", "float16", "bfloat16", "float32"):
            with batchfs.mount(DATASET, batch_size=4, resize="stretch", size="8x8", dtype=dtype) as mount:
                batch = batchfs.Batches(mount, transform=batchfs.to_torch)[0]
                self.assertEqual(str(batch.images.dtype), f"torch.{dtype}")
                raw = np.fromfile(os.path.join(mount.path, "shard-0", "epoch-0", "batch-00000.nhwc"), np.uint8)
                self.assertTrue(np.array_equal(batch.images.reshape(-1).view(torch.uint8).numpy(), raw))
                del batch

    def test_the_end_of_the_program_unmounts(self):
        out = subprocess.run([sys.executable, "-c", "import batchfs, sys; print(batchfs.mount(sys.argv[1]).path)", DATASET], check=True, stdout=subprocess.PIPE, text=True)
        self.assertFalse(os.path.exists(out.stdout.strip()))


if __name__ == "__main__":
    DATASET = sys.argv.pop(1)
    unittest.main()
