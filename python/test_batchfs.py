"""Tests of the package on real mounts: test_batchfs.py DATASET, with batchfs in PATH. The dataset has at least 48 images in
classes. What needs PyTorch is skipped without it."""
import copy
import itertools
import json
import os
import pathlib
import pickle
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest
import warnings
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
        for i in (len(b), -len(b) - 1, (-1, 0)):
            with self.assertRaises(IndexError):
                b[i]
        for i in (0.5, "0", (0, 1.0)):
            with self.assertRaises(TypeError):
                b[i]

    def test_loops_advance_the_epoch(self):
        b = self.open()
        self.assertEqual([ids(b) for _ in range(3)], self.epochs[:3])
        b.set_epoch(1)
        self.assertEqual(ids(b), self.epochs[1])
        b.set_epoch(2)  # as it is already, and as trainers say nevertheless
        with self.assertRaisesRegex(ValueError, "numbered from 0"):
            b.set_epoch(-1)
        self.assertEqual((b.state_dict()["epoch"], b.state_dict()["batch"]), (2, 0))
        b.set_epoch(0)
        self.assertEqual((b.state_dict()["epoch"], ids(b)), (0, self.epochs[0]))

    def test_loops_that_are_given_up_do_not_count(self):
        b = self.open()
        next(iter(b))
        self.assertEqual(b.epoch, 0)
        for batch, taken in zip(b, range(len(b) - 1)):  # zip takes one more, the last one, and drops it
            pass
        self.assertEqual((b.epoch, b.state_dict()["epoch"]), (1, 1))
        for taken, batch in zip(range(len(b)), b):  # takes the last one, and does not ask whether there is another
            pass
        self.assertEqual((b.epoch, ids(b)), (2, self.epochs[2]))
        late = iter(b)
        next(late)
        b.set_epoch(1)
        for _ in late:
            pass
        self.assertEqual(b.epoch, 1)  # a loop from before set_epoch does not count

    def test_ranks_stay_together(self):
        # One rank looks at a batch first, as to find out its shape. Both have all samples once then.
        ranks = [batchfs.Batches(self.mount, shard=s) for s in range(2)]
        next(iter(ranks[1]))
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            for epoch in range(2):
                seen = [i for batch in itertools.chain(*zip(*ranks)) for i in batch.ids[batch.valid].tolist()]
                self.assertEqual(len(seen), len(set(seen)))

    def test_ranks_in_different_epochs(self):
        ahead, behind = batchfs.Batches(self.mount, shard=0), batchfs.Batches(self.mount, shard=1)
        ahead.set_epoch(20)
        behind.set_epoch(19)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            for _ in range(2):
                for _ in zip(ahead, behind):
                    pass
        said = [str(w.message) for w in caught if w.category is RuntimeWarning]
        self.assertEqual(len(said), 2)  # once each
        self.assertRegex(said[0], "shard 0 of .* reads epoch 20, but shard 1 epoch 19: .* set_epoch")
        with open(os.path.join(self.mount.path, ".batchfs", "stats.json")) as f:
            self.assertEqual([(s["shard"], s["epoch"]) for s in json.load(f)["shards"]], [(0, 21), (1, 20)])

    def test_prefetch(self):
        with batchfs.mount(DATASET, batch_size=4, resize="stretch", size="24x32", prefetch_queue_depth=1) as mount:
            b = batchfs.Batches(mount)
            wanted = [(5, 9), (3, 2), (8, 13), (8, 1)]
            # Another process asks, as a random reader's helper would.
            code = "import batchfs, sys; b = batchfs.Batches(sys.argv[1]); print([b.prefetch(*k) for k in eval(sys.argv[2])])"
            out = subprocess.run([sys.executable, "-c", code, mount.path, repr(wanted)], check=True, stdout=subprocess.PIPE, text=True).stdout
            self.assertEqual(out.strip(), str([False] * 4))
            deadline = time.monotonic() + 60
            while not all([b.prefetch(*k) for k in wanted]) and time.monotonic() < deadline:
                time.sleep(0.01)
            self.assertTrue(all(b.prefetch(*k) for k in wanted))
            with open(os.path.join(mount.path, ".batchfs", "stats.json")) as f:
                stats = json.load(f)["batches"]
            self.assertEqual((stats["opened"], stats["ahead"], stats["decoded"]), (0, 4, 4))
            self.assertEqual(b[8, 13].images.shape, (4, 24, 32, 3))
            with self.assertRaises(IndexError):
                b.prefetch(0, len(b))
            name = os.path.join(mount.path, "shard-0", "epoch-0", "batch-00000.npy")
            self.assertNotIn("user.batchfs.ready", os.listxattr(name))

    def test_what_it_says(self):
        b = self.open()
        self.assertEqual(b.classes, sorted(os.listdir(DATASET)))
        self.assertEqual((len(b), b.num_samples), (len(self.epochs[0]), len({i for batch in self.epochs[0] for i in batch})))
        self.assertRegex(repr(b), rf"^<batchfs.Batches of {self.mount.path}: shard 1 of 2, epoch 0, {len(b)} batches, {b.num_samples} samples>$")
        self.assertEqual(repr(self.mount), f"<batchfs.mount of {DATASET} at {self.mount.path}>")
        said = subprocess.run(["batchfs", "--version"], check=True, stdout=subprocess.PIPE, text=True, env={**os.environ, "PATH": os.path.dirname(self.mount._program)}).stdout
        self.assertEqual(said, f"batchfs version {batchfs.__version__}\n")
        self.assertTrue(os.path.exists(os.path.join(os.path.dirname(batchfs.__file__), "py.typed")))
        with self.assertRaisesRegex(AttributeError, "nothing"):
            batchfs.nothing

    def test_padding(self):
        b = self.open(padding=False)
        for epoch in range(2):
            seen = [batch for batch in b]
            self.assertEqual(len(seen), b.count(epoch))
            self.assertEqual(sum(len(batch.ids) for batch in seen), len(set(sum(ids(seen), []))))
            for batch in seen:
                self.assertTrue(batch.valid.all())
                self.assertEqual({len(a) for a in batch}, {len(batch.ids)})
        self.assertLess(len(self.open(padding=False)[0, -1].ids), 8)
        self.assertEqual(len(self.open()[0, -1].ids), 8)

    def test_states_that_are_none(self):
        b = self.open()
        with self.assertRaisesRegex(ValueError, "lacks epoch, batch, fingerprint: .* set_epoch"):
            b.load_state_dict({})
        with self.assertRaisesRegex(ValueError, "lacks batch: "):
            b.load_state_dict({"epoch": 1, "fingerprint": b.fingerprint})

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
            self.assertEqual((twin.epoch, twin.shard, twin.transform, twin.state_dict()), (0, 1, len, b.state_dict()))
            twin.set_epoch(3)
        self.assertEqual(b.epoch, 0)

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
    def test_data_loader_that_is_given_up(self):
        with batchfs.mount(DATASET, batch_size=1, resize="stretch", size="24x32", shuffle=True) as mount:
            # A worker that is spawned imports PyTorch, which takes long.
            for workers, times, options in ((2, 2, {}), (2, 2, {"persistent_workers": True}), (1, 1, {"multiprocessing_context": "spawn"})):
                b = batchfs.Batches(mount)
                loader = DataLoader(b, batch_size=None, num_workers=workers, **options)
                for _ in range(times):
                    torch.manual_seed(0)  # makes loops that look the same to their workers
                    loop = iter(loader)
                    next(loop)
                    del loop
                self.assertEqual(b.epoch, 0, options)
                for epoch in range(times):
                    torch.manual_seed(0)
                    self.assertEqual(ids(loader), ids(b[epoch, i] for i in range(b.count(epoch))), options)
                self.assertEqual(b.epoch, times, options)

    @needs_torch
    def test_to_device(self):
        plain = torch.empty_like
        with mock.patch.object(torch.cuda, "Event", mock.Mock), mock.patch.object(torch, "empty_like", lambda t, pin_memory: plain(t)), \
             mock.patch.object(torch, "device", lambda _: mock.Mock(type="cuda")):
            for transform in (None, batchfs.to_torch):
                for got, want in zip(batchfs.to_device(self.open(transform=transform), "cpu"), self.open(), strict=True):
                    self.assertTrue(all(np.array_equal(g.numpy(), w) for g, w in zip(got, want)))

    @needs_torch
    def test_to_device_without_cuda(self):
        kept = list(batchfs.to_device(self.open(), "cpu"))
        for got, want in zip(kept, self.open(), strict=True):
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


# A program that mounts, says where and with which daemon, waits for a line, and does what it is told.
PROGRAM = """
import batchfs, json, os, signal, sys
m = batchfs.mount(sys.argv[1], batch_size=4, resize="stretch", size="8x8")
if sys.argv[2] == "fork":
    if os.fork() == 0:
        sys.stdin.read()
        os._exit(0)
with open(os.path.join(m.path, ".batchfs", "config.json")) as f:
    print(json.dumps([m.path, json.load(f)["pid"]]), flush=True)
sys.stdin.readline()
if sys.argv[2] == "_exit":
    os._exit(0)
os.kill(os.getpid(), signal.SIGTERM if sys.argv[2] == "SIGTERM" else signal.SIGKILL)
signal.pause()
"""


class Daemon:
    """The daemon of a mount, known by a descriptor that becomes readable when it ends."""

    def __init__(self, pid):
        self.fd = os.pidfd_open(pid)

    @classmethod
    def of(cls, mount):
        with open(os.path.join(mount, ".batchfs", "config.json")) as f:
            return cls(json.load(f)["pid"])

    def ended(self, within=60):
        return bool(select.select([self.fd], [], [], within)[0])


@unittest.skipUnless(hasattr(os, "pidfd_open"), "SKIPPED: no pidfd_open here")
class TheEndOfAMount(unittest.TestCase):
    def start(self, how):
        p = subprocess.Popen([sys.executable, "-c", PROGRAM, DATASET, how], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.addCleanup(p.stdout.close)
        self.addCleanup(p.wait)
        self.addCleanup(p.stdin.close)
        path, pid = json.loads(p.stdout.readline())
        daemon = Daemon(pid)
        self.addCleanup(os.close, daemon.fd)
        return p, path, daemon

    def test_with_its_program(self):
        for how in ("SIGTERM", "SIGKILL", "_exit", "fork"):  # the forked process lives on
            with self.subTest(how):
                p, path, daemon = self.start(how)
                if how == "fork":
                    p.kill()
                else:
                    p.stdin.write("\n")
                    p.stdin.flush()
                p.wait()
                self.assertTrue(daemon.ended())
                self.assertFalse(os.path.exists(path))

    def test_in_use_when_its_program_ends(self):
        p, path, daemon = self.start("SIGKILL")
        held = open(os.path.join(path, "shard-0", "epoch-0", "batch-00000.npy"), "rb")
        p.kill()
        p.wait()
        self.assertFalse(daemon.ended(within=0))
        self.assertEqual(len(batchfs.Batches(path)[1].ids), 4)  # new opens, too
        held.close()
        self.assertTrue(daemon.ended())
        self.assertFalse(os.path.exists(path))

    def test_program_that_ends_before_it_is_mounted(self):
        with tempfile.TemporaryDirectory() as d:
            path = os.path.join(d, "mnt")
            os.mkdir(path)
            # The pipe has ended already: nobody has its other end.
            subprocess.run(["batchfs", "mount", "--daemon", "--owner-fd=0", "--temporary-mountpoint", DATASET, path], stdin=subprocess.DEVNULL,
                           stderr=subprocess.DEVNULL, env={**os.environ, "PATH": os.path.dirname(batchfs._program())}, timeout=60)
            deadline = time.monotonic() + 60
            while os.path.exists(path) and time.monotonic() < deadline:
                time.sleep(0.01)
            self.assertFalse(os.path.exists(path))

    def test_with_its_object(self):
        m = batchfs.mount(DATASET)
        first, daemon = m.path, Daemon.of(m)
        m = batchfs.mount(DATASET)
        self.assertTrue(daemon.ended())
        self.assertFalse(os.path.exists(first))
        b, daemon = batchfs.Batches(m), Daemon.of(m)
        kept = b[0].images
        del m
        self.assertFalse(daemon.ended(within=0))
        self.assertEqual(ids([b[0]]), ids([copy.deepcopy(b)[0]]))  # what is used is there
        del b
        del kept
        self.assertTrue(daemon.ended())

    def test_at_the_same_path_again(self):
        with tempfile.TemporaryDirectory() as d:
            for _ in range(2):
                m = batchfs.mount(DATASET, d)
                daemon = Daemon.of(d)
            again = batchfs.mount(DATASET, d, batch_size=3)
            self.assertTrue(m.closed and daemon.ended() and not again.closed)
            m.close()  # changes nothing any more
            self.assertEqual(len(batchfs.Batches(d)[0].ids), 3)
            again.close()
            self.assertEqual(os.listdir(d), [])

    @needs_torch
    def test_not_with_a_worker(self):
        with batchfs.mount(DATASET, batch_size=8, resize="stretch", size="8x8") as mount:
            b = batchfs.Batches(mount)
            for _ in range(2):
                list(DataLoader(b, batch_size=None, num_workers=2))
            pid = os.fork()
            if pid == 0:
                mount.close()
                del mount, b
                os._exit(0)
            os.waitpid(pid, 0)
            self.assertEqual(len(b[0].ids), 8)
            self.assertFalse(Daemon.of(mount).ended(within=0))

    def test_what_is_said_then(self):
        m = batchfs.mount(DATASET)
        b = batchfs.Batches(m)
        m.close()
        m.close()
        for use in (lambda: b[0], lambda: len(b), lambda: next(iter(b)), lambda: b.prefetch(0, 0), lambda: b.classes, lambda: batchfs.Batches(m)):
            with self.assertRaisesRegex(batchfs.Unmounted, "the mount was closed"):
                use()
        self.assertRegex(repr(b), "unmounted>$")
        self.assertRegex(repr(m), ", closed>$")
        m = batchfs.mount(DATASET)
        b, daemon = batchfs.Batches(m), Daemon.of(m)
        len(b)
        signal.pidfd_send_signal(daemon.fd, signal.SIGKILL)
        self.assertTrue(daemon.ended())
        for use in (lambda: b[0], lambda: len(b), lambda: list(b), lambda: b.prefetch(0, 0), lambda: batchfs.Batches(m.path)):
            with self.assertRaisesRegex(batchfs.Unmounted, "daemon of the mount has ended: clear it with `batchfs umount " + m.path):
                use()
        m.close()
        self.assertFalse(os.path.exists(m.path))


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

    def test_the_shard_of_another_rank(self):
        with batchfs.mount(DATASET, resize="stretch", size="8x8", partition="elastic", global_batch=12, world_size=2, rank=1) as mount:
            self.assertGreater(len(batchfs.Batches(mount, shard=1)), 0)
            with self.assertRaisesRegex(ValueError, "no shard-0, but shard-1, as its --rank"):
                batchfs.Batches(mount, shard=0)

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
