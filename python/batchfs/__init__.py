"""Mount a dataset with batchfs, and iterate over its batches. Needs NumPy only.

    with batchfs.mount("photos/train", shuffle=True, resize="random-resized-crop", size="224x224") as mnt:
        for images, labels, ids, valid in batchfs.Batches(mnt):   # one epoch, in mapped memory
            ...

The files of a mount need no package. This one saves the lines around them: which shard, which epoch, where to resume, and why a batch failed.
"""
from __future__ import annotations

import atexit, errno, json, multiprocessing, os, shutil, subprocess, sys, sysconfig, tempfile, typing
import numpy as np

__all__ = ["Batch", "Batches", "mount", "rank", "to_device", "to_torch"]


class Batch(typing.NamedTuple):
    images: typing.Any  # as the mount's --layout and --dtype say; mapped copy-on-write. bfloat16 is of type V2 in NumPy: see to_torch
    labels: typing.Any  # int64 [N], -1 without a label
    ids: typing.Any     # int64 [N], which samples these are
    valid: typing.Any   # bool [N], false where the last sample is repeated to fill the batch


class mount:
    """A mount that lasts until close(), the end of the `with` block, or of the program. Flags are those of `batchfs mount`:
    mount(d, batch_size=64, pad_last_batch=False, size=(224, 224)). Without a path, it is in a temporary directory.
    What the command has to say goes to standard error; if it fails, it is the text of a RuntimeError."""

    def __init__(self, dataset: str | os.PathLike, path: str | os.PathLike | None = None, **flags):
        options = [f"--{k.replace('_', '-')}={_value(v, 'x' if k == 'size' else ',')}" for k, v in flags.items() if v is not None]
        program = shutil.which("batchfs", path=os.pathsep.join([sysconfig.get_path("scripts"), os.environ.get("PATH", "")]))
        if not program:
            raise FileNotFoundError("the program batchfs is neither beside this Python nor in PATH")
        self._program, self._made = program, path is None
        self.path = tempfile.mkdtemp(prefix="batchfs-") if path is None else os.path.abspath(path)
        done = subprocess.run([program, "mount", "--daemon", *options, "--", os.fspath(dataset), self.path], stderr=subprocess.PIPE, text=True)
        self._owner = os.getpid() if done.returncode == 0 else None
        if done.returncode:
            self.close()
            raise RuntimeError(done.stderr.strip())
        sys.stderr.write(done.stderr)
        atexit.register(self.close)

    def close(self):
        """Unmounts. Batches that are still referenced stay valid."""
        atexit.unregister(self.close)
        if self._owner == os.getpid():  # not in a forked worker
            subprocess.run([self._program, "umount", "--lazy", self.path])  # says itself what is wrong, such as that it was unmounted already
        if self._made and self._owner in (None, os.getpid()) and os.path.isdir(self.path):
            os.rmdir(self.path)
        self._owner = 0

    __fspath__ = lambda self: self.path
    __enter__ = lambda self: self
    __exit__ = lambda self, *_: self.close()


def _value(v, separator):
    return str(v).lower() if isinstance(v, bool) else separator.join(map(str, v)) if np.iterable(v) and not isinstance(v, str) else str(v)


def rank() -> tuple[int, int]:
    """(rank, number of processes) of this job, as torch.distributed, JAX, torchrun, Slurm, Open MPI or MPICH say; (0, 1) without them."""
    torch, jax = sys.modules.get("torch.distributed"), sys.modules.get("jax")
    if torch and torch.is_available() and torch.is_initialized():
        return torch.get_rank(), torch.get_world_size()
    if jax and getattr(jax.distributed, "is_initialized", bool)():  # asking for more would start JAX, and take a GPU's memory
        return jax.process_index(), jax.process_count()
    for r, n in (("RANK", "WORLD_SIZE"), ("SLURM_PROCID", "SLURM_STEP_NUM_TASKS"), ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"), ("PMI_RANK", "PMI_SIZE")):
        if r in os.environ and n in os.environ:
            return int(os.environ[r]), int(os.environ[n])
    return 0, 1


class Batches:
    """The batches of one shard of a mount: by default the shard of this process's rank.

    Each `for` loop reads an epoch, and the next loop the next one, also in the workers of a DataLoader: DataLoader(batches, batch_size=None, num_workers=2).
    batches[i] is batch i of the epoch that the next loop will read, and batches[epoch, i] any batch at all.
    transform(batch) makes what both return, for example batchfs.to_torch.
    With style="map", a DataLoader takes it as a map: DataLoader(batches, batch_size=None, sampler=batches.keys, num_workers=2).
    Where the number of workers changes from one loop to the next, call set_epoch in between."""

    @property
    def __class__(self):  # by its class a DataLoader knows that it is to iterate, rather than to count to len() in epoch 0 for ever
        data = sys.modules.get("torch.utils.data")
        return data.IterableDataset if data and self.style == "iterable" else type(self)

    def __init__(self, mount: str | os.PathLike, shard: int | None = None, transform: typing.Callable | None = None, *, style: str = "iterable"):
        self.path, self.transform, self.style = os.path.abspath(mount), transform, style
        try:
            with open(os.path.join(self.path, "dataset.json")) as f:
                dataset = json.load(f)
        except FileNotFoundError as e:
            raise FileNotFoundError(e.errno, "no batchfs is mounted there", self.path) from None
        settings = dataset["settings"]
        self.fingerprint, shards = dataset["fingerprint"], settings["shards"]
        self.shard, world = rank() if shard is None else (shard, shards)
        if world != shards:
            raise ValueError(f"a mount of {shards} shards is read by {world} process{'es' * (world > 1)}: mount with --{'world-size' if 'partition' in settings else 'shards'} {world}, or say which shard this process reads")
        if not 0 <= self.shard < shards:
            raise ValueError(f"shard {self.shard} of a mount of {shards} shards")
        if style not in ("iterable", "map"):
            raise ValueError(f"style must be iterable or map, but is {style!r}")
        # What the next loop begins with, as epoch and batch: here, and in each worker of a DataLoader. It is shared with them.
        self._next, self._at, self._set = multiprocessing.RawArray("q", 2 * 1025), None, (0, 0)
        self.keys = _Keys(self)

    def __reduce__(self):  # a copy starts where this one is; only the workers of a DataLoader share the place
        spawning = multiprocessing.context.get_spawning_popen() is not None
        return object.__new__, (type(self),), {**self.__dict__, "_next": self._next if spawning else list(self._next)}

    def __setstate__(self, state):
        self.__dict__.update(state)
        if isinstance(self._next, list):
            self._next = multiprocessing.RawArray("q", self._next)

    def count(self, epoch: int) -> int:
        """How many batches an epoch has."""
        with open(os.path.join(self.path, f"shard-{self.shard}", f"epoch-{epoch}", "epoch.json")) as f:
            return json.load(f)["batches"]

    def __len__(self):
        return self.count(self.epoch)

    def __getitem__(self, key):
        if not isinstance(key, tuple) and self.style == "map":
            raise TypeError("every epoch would be the same: pass sampler=batches.keys to the DataLoader")
        epoch, i = key if isinstance(key, tuple) else (self.epoch, key)
        n = self.count(epoch)
        if not -n <= i < n:
            raise IndexError(f"batch {i} of an epoch of {n} batches")
        batch = Batch(*(self._load(epoch, i % n, form) for form in ("npy", "labels.npy", "ids.npy", "valid.npy")))
        return self.transform(batch) if self.transform else batch

    def _load(self, epoch, i, form):
        name = os.path.join(self.path, f"shard-{self.shard}", f"epoch-{epoch}", f"batch-{i:05}.")
        try:
            with open(name + form, "rb", buffering=0) as f:  # np.load parses Python, which threads may not do at once before Python 3.11.5
                if form != "npy":
                    a = f.readall()
                    return np.frombuffer(bytearray(a), "?" if form == "valid.npy" else "<i8", offset=10 + int.from_bytes(a[8:10], "little"))
                shape = tuple(map(int, os.getxattr(f.fileno(), "user.batchfs.shape").split(b",")))
                dtype = os.getxattr(f.fileno(), "user.batchfs.dtype").decode()
                dtype = "V2" if dtype == "bfloat16" else dtype
                return np.memmap(f, dtype, "c", 4096, shape) if np.prod(shape) else np.empty(shape, dtype)  # nothing cannot be mapped
        except OSError as e:
            try:
                why = json.loads(os.getxattr(name + form, "user.batchfs.error"))
            except OSError:
                raise e from None
            if why["error"] != errno.errorcode.get(e.errno):
                raise
            raise OSError(e.errno, "; ".join(why[k] for k in ("reason", "hint") if k in why), name + form) from None

    def __iter__(self):
        data = sys.modules.get("torch.utils.data")
        worker = data.get_worker_info() if data else None
        keys = self._epoch(self._take(1 + worker.id), worker) if worker else iter(self.keys)
        return map(self.__getitem__, keys)

    def _take(self, slot):
        start = self._next[2 * slot : 2 * slot + 2]
        self._next[2 * slot : 2 * slot + 2] = [start[0] + 1, 0]
        return start

    def _epoch(self, start, worker=None):
        epoch, i = start
        for i in range(i + (worker.id if worker else 0), self.count(epoch), worker.num_workers if worker else 1):
            if not worker:
                self._at = epoch, i + 1
            yield epoch, i

    @property
    def epoch(self) -> int:
        """The epoch that the next loop reads. Loops advance it by themselves."""
        return max(self._next[::2])

    def set_epoch(self, epoch: int) -> None:
        """Makes the next loop read this epoch. It changes nothing where that is the case already, such as after load_state_dict."""
        if any(e != epoch for e in self._next[::2]):
            self._go((epoch, 0))

    def _go(self, at):
        self._at, self._set = None, at
        self._next[:] = list(at) * (len(self._next) // 2)

    def state_dict(self, epoch: int | None = None, batch: int | None = None) -> dict:
        """Where to go on: after the last batch that a loop was given, or at the given one. A DataLoader reads ahead of the loop, so
        with its workers, or with `keys`, say how many batches of which epoch were used. It is the same in all processes of a job."""
        if epoch is None and (self.style == "map" or self._next[2:] != list(self._set) * (len(self._next) // 2 - 1)):
            raise RuntimeError("the workers of a DataLoader read ahead: say which batch is next, as state_dict(epoch, batch)")
        at = (epoch, batch or 0) if epoch is not None else self._at or self._set
        at = at if at[1] < self.count(at[0]) else (at[0] + 1, 0)
        return {"epoch": at[0], "batch": at[1], "fingerprint": self.fingerprint}

    def load_state_dict(self, state: dict) -> None:
        """Makes the next loop go on there. A mount with another dataset or other settings is refused; with --partition elastic, the world
        size may be another."""
        if state["fingerprint"] != self.fingerprint:
            raise ValueError("the state is of a mount with another fingerprint: the batches would not be the same")
        self._go((state["epoch"], state["batch"]))


class _Keys:
    """The (epoch, batch) of the next epoch, anew in each loop."""

    def __init__(self, batches):
        self.batches = batches

    def __len__(self):
        return len(self.batches)

    def __iter__(self):
        yield from self.batches._epoch(self.batches._take(0))


def to_torch(batch: Batch) -> Batch:
    """The batch as PyTorch tensors in the same memory; bfloat16 as such."""
    import torch

    def tensor(a):
        return a if torch.is_tensor(a) else torch.from_numpy(a.view(np.int16)).view(torch.bfloat16) if a.dtype.kind == "V" else torch.from_numpy(a)

    return Batch(*map(tensor, batch))


def to_device(batches, device):
    """Yields batches as PyTorch tensors on a CUDA device, by way of two page-locked buffers in turn, so that copying overlaps training.
    The ids stay in host memory. It has not run on a GPU yet; tests let the processor play its part."""
    import torch
    buffers, copied = [None, None], [torch.cuda.Event(), torch.cuda.Event()]
    for n, batch in enumerate(batches):
        batch, k = to_torch(batch), n % 2
        copied[k].synchronize()  # returns at once if nothing was recorded
        if buffers[k] is None or buffers[k].shape != batch.images.shape:
            buffers[k] = torch.empty_like(batch.images, pin_memory=True)
        buffers[k].copy_(batch.images)
        images = buffers[k].to(device, non_blocking=True)
        copied[k].record()
        yield batch._replace(images=images, labels=batch.labels.to(device), valid=batch.valid.to(device))
