"""Mount a dataset with batchfs, and iterate over its batches. Needs NumPy only.

    with batchfs.mount("photos/train", shuffle=True, resize="random-resized-crop", size="224x224") as mnt:
        for images, labels, ids, valid in batchfs.Batches(mnt):   # one epoch, in mapped memory
            ...

The files of a mount need no package. This one saves the lines around them: which shard, which epoch, where to resume, and why a batch failed.
"""
import atexit, errno, json, multiprocessing, os, shutil, subprocess, sys, sysconfig, tempfile, typing
import numpy as np


class Batch(typing.NamedTuple):
    images: typing.Any  # as the mount's --layout and --dtype say; mapped copy-on-write. bfloat16 is of type V2 in NumPy: see to_torch
    labels: typing.Any  # int64 [N], -1 without a label
    ids: typing.Any     # int64 [N], which samples these are
    valid: typing.Any   # bool [N], false where the last sample is repeated to fill the batch


class mount:
    """A mount that lasts until close(), the end of the `with` block, or of the program. Flags are those of `batchfs mount`:
    mount(d, batch_size=64, pad_last_batch=False, mean=[124, 117, 104]). Without a path, it is in a temporary directory."""

    def __init__(self, dataset, path=None, **flags):
        self.path, self._made = path, path is None
        options = [f"--{k.replace('_', '-')}={_value(v)}" for k, v in flags.items() if v is not None]
        program = shutil.which("batchfs", path=os.pathsep.join([sysconfig.get_path("scripts"), os.environ.get("PATH", "")]))
        if not program:
            raise FileNotFoundError("the program batchfs is neither beside this Python nor in PATH")
        self._program, self.path = program, path or tempfile.mkdtemp(prefix="batchfs-")
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
            subprocess.run([self._program, "umount", "--lazy", self.path], check=True)
        if self._made and self._owner in (None, os.getpid()) and os.path.isdir(self.path):
            os.rmdir(self.path)
        self._owner = 0

    __fspath__ = lambda self: self.path
    __enter__ = lambda self: self
    __exit__ = lambda self, *_: self.close()


def _value(v):
    return str(v).lower() if isinstance(v, bool) else v if isinstance(v, str) else ",".join(map(str, v)) if np.iterable(v) else str(v)


def rank():
    """(rank, number of processes) of this job, as torch.distributed, JAX, torchrun, Slurm, Open MPI or MPICH say; (0, 1) without them."""
    torch, jax = sys.modules.get("torch.distributed"), sys.modules.get("jax")
    if torch and torch.is_available() and torch.is_initialized():
        return torch.get_rank(), torch.get_world_size()
    if jax and jax.process_count() > 1:
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
    With style="map", a DataLoader takes it as a map: DataLoader(batches, batch_size=None, sampler=batches.keys, num_workers=2)."""

    def __new__(cls, *args, style="iterable", **kwargs):
        data = sys.modules.get("torch.utils.data")  # a DataLoader knows by the class that it is to iterate, rather than to count to len()
        if style == "iterable" and data and not issubclass(cls, data.IterableDataset):
            cls = type(cls.__name__, (cls, data.IterableDataset), {})
        return object.__new__(cls)

    def __init__(self, mount, shard=None, transform=None, *, style="iterable"):
        self.path, self.transform, self.style = os.path.abspath(mount), transform, style
        with open(os.path.join(self.path, "dataset.json")) as f:
            dataset = json.load(f)
        self.fingerprint, shards = dataset["fingerprint"], dataset["settings"]["shards"]
        self.shard, world = rank() if shard is None else (shard, shards)
        if world != shards:
            raise ValueError(f"{world} processes read a mount of {shards} shards: mount with --shards {world}, or say which shard this process reads")
        if not 0 <= self.shard < shards:
            raise ValueError(f"shard {self.shard} of a mount of {shards} shards")
        # What the next loop begins with, as epoch and batch: here, and in each worker of a DataLoader. It is shared with them.
        self._next, self._at, self._set = multiprocessing.RawArray("q", 2 * 1025), None, (0, 0)
        self.keys = _Keys(self)

    def __reduce__(self):  # of a copy, which starts where this one is
        return _copy, (self.path, self.shard, self.transform, self.style, list(self._next) if multiprocessing.context.get_spawning_popen() is None else self._next)

    def count(self, epoch):
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
            if e.errno != errno.EIO:
                raise
            ids = set(self._load(epoch, i, "ids.npy").tolist())
            with open(os.path.join(self.path, ".batchfs", "errors.jsonl")) as f:
                why = {b["path"]: b["reason"] for b in map(json.loads, f) if b.get("id") in ids}
            raise OSError(e.errno, "; ".join(f"{p}: {r}" for p, r in why.items()) or e.strerror, name + form) from None

    def __iter__(self):
        data = sys.modules.get("torch.utils.data")
        worker = data.get_worker_info() if data else None
        keys = self._epoch(worker.id, worker.num_workers, 1 + worker.id) if worker else iter(self.keys)
        return map(self.__getitem__, keys)

    def _epoch(self, first, step, slot):
        epoch, i = self._next[2 * slot], self._next[2 * slot + 1]
        self._next[2 * slot : 2 * slot + 2] = [epoch + 1, 0]
        for i in range(i + first, self.count(epoch), step):
            if not slot:
                self._at = epoch, i + 1
            yield epoch, i

    @property
    def epoch(self):
        """The epoch that the next loop reads. Loops advance it by themselves."""
        return self._next[0]

    def set_epoch(self, epoch):
        """Makes the next loop read this epoch. It changes nothing where that is the case already, such as after load_state_dict."""
        for slot in range(0, len(self._next), 2):
            if self._next[slot] != epoch:
                self._next[slot : slot + 2] = [epoch, 0]

    def state_dict(self, epoch=None, batch=None):
        """Where to go on: after the last batch that a loop was given, or at the given one. A DataLoader reads ahead of the loop, so
        with its workers, or with `keys`, say how many batches of which epoch were used."""
        if epoch is None and any(self._next[2:][2 * w : 2 * w + 2] != list(self._set) for w in range(1024)):
            raise RuntimeError("the workers of a DataLoader read ahead: say which batch is next, as state_dict(epoch, batch)")
        at = (epoch, batch or 0) if epoch is not None else self._at or self._set
        at = at if at[1] < self.count(at[0]) else (at[0] + 1, 0)
        return {"epoch": at[0], "batch": at[1], "shard": self.shard, "fingerprint": self.fingerprint}

    def load_state_dict(self, state):
        """Makes the next loop go on there. A mount with another dataset or other settings is refused."""
        mine = {"fingerprint": self.fingerprint, "shard": self.shard}
        if wrong := [k for k in mine if state[k] != mine[k]]:
            raise ValueError(f"the state is of another {' and '.join(wrong)}: the batches would not be the same")
        self._at, self._set = None, (state["epoch"], state["batch"])
        self._next[:] = list(self._set) * (len(self._next) // 2)


class _Keys:
    """The (epoch, batch) of the next epoch, anew in each loop."""

    def __init__(self, batches):
        self.batches = batches

    def __len__(self):
        return len(self.batches)

    def __iter__(self):
        return self.batches._epoch(0, 1, 0)


def _copy(path, shard, transform, style, positions):
    b = Batches(path, shard, transform, style=style)
    if isinstance(positions, list):
        b._next[:] = positions
    else:
        b._next = positions  # shared
    return b


def to_torch(batch):
    """The batch as PyTorch tensors in the same memory; bfloat16 as such."""
    import torch
    return Batch(*(torch.from_numpy(a.view(np.int16)).view(torch.bfloat16) if a.dtype.kind == "V" else torch.from_numpy(a) for a in batch))


def to_device(batches, device):
    """Yields batches as PyTorch tensors on a CUDA device, by way of two page-locked buffers in turn, so that copying overlaps training."""
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
