"""Mount a dataset with batchfs, and iterate over its batches. Needs NumPy only.

    with batchfs.mount("photos/train", shuffle=True, resize="random-resized-crop", size="224x224") as train:
        for images, labels, ids, valid in batchfs.Batches(train):   # one epoch, in mapped memory
            ...

The last batch of an epoch may repeat a sample to be full: `valid` is false there. Code that counts samples has to leave these slots out:

    for images, labels, ids, valid in batchfs.Batches(val, padding=False):
        ...

The files of a mount need no package. This one handles the rest: which shard, which epoch, where to resume, and why a batch failed.
"""
from __future__ import annotations

import collections, contextlib, errno, fcntl, functools, gc, json, multiprocessing, operator, os, re, shutil, subprocess, sys, sysconfig, tempfile, threading, typing, warnings, weakref
import numpy as np

__all__ = ["Batch", "Batches", "Unmounted", "mount", "rank", "to_device", "to_torch"]
__version__: str  # that of the command


def __getattr__(name: str) -> str:
    if name != "__version__":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        said = subprocess.run([_program(), "--version"], stdout=subprocess.PIPE, text=True, check=True).stdout
    except (OSError, subprocess.CalledProcessError) as e:  # the error that hasattr, and getattr with a default, catch
        raise AttributeError(f"the version is not known: {e}") from e
    globals()[name] = version = said.split(" version ", 1)[-1].strip()
    return version


class Unmounted(OSError):
    """The mount was closed or unmounted, or its daemon has died."""


class Batch(typing.NamedTuple):
    images: typing.Any  # as the mount's --layout and --dtype say; mapped copy-on-write. bfloat16 is of type V2 in NumPy: see to_torch
    labels: typing.Any  # int64 [N], -1 without a label
    ids: typing.Any     # int64 [N], which samples these are
    valid: typing.Any   # bool [N], false where the last sample is repeated to fill the batch: do not count those


@functools.cache
def _with_targets(fields: tuple[str, ...]) -> typing.Any:
    """The type of the batches of a mount with targets: a Batch with more fields. A field whose name is invalid in Python, or used already, is called _ and its place."""
    kind = collections.namedtuple("Batch", Batch._fields + fields, rename=True, module=__name__)  # type: ignore[misc]
    kind.__reduce__ = lambda self: (_remade, (fields, tuple(self)))  # type: ignore[method-assign]
    return kind


def _remade(fields: tuple[str, ...], values: tuple[typing.Any, ...]) -> typing.Any:
    return _with_targets(fields)(*values)


class mount:
    """A mount that lasts until close(), the end of the `with` block, or until neither this object nor one of its Batches is used any
    more; at the latest until the process that made it ends, however it does. After that, it lives on only for processes that still read from it.
    Flags are those of `batchfs mount`: mount(d, batch_size=64, pad_last_batch=False, size=(224, 224)). Without a path, it is in a
    temporary directory. Mounting again at a path where this process has a mount ends that first.
    The command's messages go to standard error; if it fails, it is the text of a RuntimeError."""

    def __init__(self, dataset: str | os.PathLike[str], path: str | os.PathLike[str] | None = None, **flags: typing.Any) -> None:
        options = [f"--{k.replace('_', '-')}={_value(v, 'x' if k == 'size' else ',')}" for k, v in flags.items() if v is not None]
        self._program, self._dataset = _program(), os.fspath(dataset)
        if _mounts:
            gc.collect()  # so that a mount to which only garbage refers takes no memory from this one
        if path is not None:
            for earlier in [m for m in _mounts if m.path == os.path.abspath(path)]:
                earlier.close()
        self.path: str = tempfile.mkdtemp(prefix="batchfs-") if path is None else os.path.abspath(path)
        theirs, ours = _owner_pipe()
        # From here on the daemon ends with ours, even if this is interrupted.
        self._end = weakref.finalize(self, _end, self._program, self.path, path is None, ours, os.getpid())
        try:
            temporary = ["--temporary-mountpoint"] if path is None else []
            done = subprocess.run([self._program, "mount", "--daemon", f"--owner-fd={theirs}", *temporary, *options, "--", self._dataset, self.path],
                                  stderr=subprocess.PIPE, text=True, pass_fds=[theirs])
            if done.returncode:
                raise RuntimeError(done.stderr.strip())
        except BaseException:
            self._end.detach()
            _let_go(self.path, path is None, ours)
            raise
        finally:
            os.close(theirs)
        sys.stderr.write(done.stderr)
        _mounts.add(self)

    def close(self) -> None:
        """Unmounts. Batches that are still referenced stay valid."""
        self._end()

    @property
    def closed(self) -> bool:
        return not self._end.alive

    def __fspath__(self) -> str:
        return self.path

    def __enter__(self) -> mount:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<batchfs.mount of {self._dataset} at {self.path}{', closed' * self.closed}>"

    def __deepcopy__(self, _: object) -> mount:
        return self

    def __reduce__(self) -> tuple[typing.Any, ...]:
        return os.fspath, (self.path,)  # in another process it is a path: only the process that made a mount ends it


_mounts: weakref.WeakSet[mount] = weakref.WeakSet()

# A daemon ends when the other end of its pipe is closed by everyone, so nobody but this process may have it: programs that it starts
# get none (O_CLOEXEC), and forked processes, such as the workers of a DataLoader, close theirs at once. The lock is held over a
# fork, so that no thread has a pipe that is not in the set.
_pipes: set[int] = set()
_pipes_lock = threading.RLock()  # garbage may be collected, and a mount with it, wherever it is held


def _forked() -> None:
    for fd in _pipes:
        os.close(fd)
    _pipes.clear()
    _pipes_lock.release()


os.register_at_fork(before=_pipes_lock.acquire, after_in_parent=_pipes_lock.release, after_in_child=_forked)


def _owner_pipe() -> tuple[int, int]:
    with _pipes_lock:
        theirs, ours = os.pipe()
        _pipes.add(ours)
    return theirs, ours


def _end(program: str, path: str, made: bool, ours: int, owner: int) -> None:
    if os.getpid() != owner:  # a forked worker
        return
    done = subprocess.run([program, "umount", "--lazy", path], stderr=subprocess.PIPE, text=True)
    if not made or done.returncode == 0 or os.path.basename(path) in os.listdir(os.path.dirname(path)):
        sys.stderr.write(done.stderr)  # else it was unmounted already, and the daemon removed the directory
    _let_go(path, made, ours)


def _let_go(path: str, made: bool, ours: int) -> None:
    with _pipes_lock:
        _pipes.discard(ours)
        os.close(ours)
    if made:
        with contextlib.suppress(OSError):  # the daemon removes it, too
            os.rmdir(path)


def _program() -> str:
    program = shutil.which("batchfs", path=os.pathsep.join([sysconfig.get_path("scripts"), os.environ.get("PATH", "")]))
    if not program:
        raise FileNotFoundError("the program batchfs is neither beside this Python nor in PATH")
    return program


def _value(v: typing.Any, separator: str) -> str:
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


# What the loops of one Batches share, here and in the workers of a DataLoader: the epoch and batch that the next loop begins with;
# which loop the workers are in, by the seed that the DataLoader gave them and how many they have been in, where that began, and
# the number that multiprocessing gave to worker 0; and for each worker, 1 more than how many batches it was given, 0 before the first.
_NEXT, _LOOP, _BEGAN, _PROCESS, _GIVEN = slice(0, 2), slice(2, 4), slice(4, 6), 6, 7
_MOST_WORKERS = 1024


class Batches:
    """The batches of one shard of a mount: by default the shard of this process's rank.

    Each `for` loop reads an epoch, and the next loop the next one, also in the workers of a DataLoader: DataLoader(batches, batch_size=None, num_workers=2).
    A loop that is given up does not count: the next one reads the same epoch from its start. If loops end early on purpose, call set_epoch before each.
    (The workers of a DataLoader read ahead: with them a loop counts when its last batch was read, though it may not have been used.)
    Slots that repeat a sample to fill a batch are false in its `valid`. padding=False leaves them out, so that a batch may be smaller, or empty.
    batches[i] is batch i of the epoch that the next loop will read, and batches[epoch, i] any batch at all.
    A mount with --targets has more fields, named like its files: masks [N,H,W], boxes [M,4], boxes_labels, boxes_ids, boxes_flags [M], boxes_offsets [N+1]
    (the boxes of slot i are boxes[boxes_offsets[i]:boxes_offsets[i + 1]]), keypoints [M,P,3], text (a list of N dicts); with --max-boxes K [N,K,...] and boxes_count [N].
    An array is a field of the name of its column [N,...], or where samples have different numbers of rows [M,...], with NAME_offsets [N+1].
    transform(batch) makes what both return, for example batchfs.to_torch.
    With style="map", a DataLoader takes it as a map: DataLoader(batches, batch_size=None, sampler=batches.keys, num_workers=2)."""

    @property  # type: ignore[misc]
    def __class__(self) -> typing.Any:  # tells a DataLoader to iterate; else it would count to len() in epoch 0 for ever
        data = sys.modules.get("torch.utils.data")
        return data.IterableDataset if data and self.style == "iterable" else type(self)

    def __init__(self, mount: str | os.PathLike[str], shard: int | None = None, transform: typing.Callable[[Batch], typing.Any] | None = None, *,
                 style: str = "iterable", padding: bool = True) -> None:
        self.path, self.transform, self.style, self.padding = os.path.abspath(mount), transform, style, padding
        self._mount = mount  # so that it lasts as long as it is used
        try:
            with open(os.path.join(self.path, "dataset.json")) as f:
                dataset = json.load(f)
        except FileNotFoundError as e:
            if getattr(mount, "closed", False):
                raise self._unmounted() from None
            raise FileNotFoundError(e.errno, "no batchfs is mounted there", self.path) from None
        except OSError as e:
            raise self._unmounted(e) from None
        settings = dataset["settings"]
        self.fingerprint, self._shards = dataset["fingerprint"], settings["shards"]
        self._targets = {form: re.sub(r"\W", "_", form.rsplit(".", 1)[0]) for form in dataset.get("targets", []) if not form.endswith(".png")}
        self.shard, world = rank() if shard is None else (shard, self._shards)
        if world != self._shards:
            raise ValueError(f"a mount of {self._shards} shards is read by {world} process{'es' * (world > 1)}: mount with --{'world-size' if 'partition' in settings else 'shards'} {world}, or say which shard this process reads")
        if not 0 <= self.shard < self._shards:
            raise ValueError(f"shard {self.shard} of a mount of {self._shards} shards")
        if not os.path.isdir(os.path.join(self.path, f"shard-{self.shard}")):
            shown = " ".join(sorted(name for name in os.listdir(self.path) if name.startswith("shard-")))
            raise ValueError(f"the mount has no shard-{self.shard}, but {shown}, as its --rank says: make one for this process")
        if style not in ("iterable", "map"):
            raise ValueError(f"style must be iterable or map, but is {style!r}")
        self._shared: typing.Any = multiprocessing.RawArray("q", _GIVEN + _MOST_WORKERS)
        self._at: tuple[int, int] | None = None  # after the last batch that a loop of this process was given
        self._loops, self._warned = 0, False
        self._seen: list[dict[str, int]] | None = None  # the shards in the last stats.json

    @property
    def keys(self) -> _Keys:
        return _Keys(self)

    def __reduce__(self) -> tuple[typing.Any, ...]:  # a copy starts where this one is; only the workers of a DataLoader share the place
        spawning = multiprocessing.context.get_spawning_popen() is not None
        return object.__new__, (type(self),), {**self.__dict__, "_shared": self._shared if spawning else list(self._shared)}

    def __setstate__(self, state: dict[str, typing.Any]) -> None:
        self.__dict__.update(state)
        if isinstance(self._shared, list):
            self._shared = multiprocessing.RawArray("q", self._shared)

    def __repr__(self) -> str:
        try:
            what = f"epoch {self.epoch}, {len(self)} batches, {self.num_samples} samples"
        except OSError:
            what = "unmounted"
        return f"<batchfs.Batches of {self.path}: shard {self.shard} of {self._shards}, {what}>"

    @property
    def classes(self) -> list[str]:
        """The names of the classes, in the order of their labels; empty if the dataset has none."""
        try:
            with open(os.path.join(self.path, "classes.txt"), encoding="utf-8", errors="surrogateescape", newline="\n") as f:
                names = f.read().split("\n")[:-1]
        except OSError as e:
            self._check(e)
            if e.errno != errno.ENOENT:
                raise
            return []
        return [json.loads(f'"{name}"') if "\\" in name else name for name in names]

    @property
    def num_samples(self) -> int:
        """How many samples this shard has in the epoch that the next loop reads, without padding."""
        return int(self._epoch_document(self.epoch)["valid"])

    def count(self, epoch: int) -> int:
        """How many batches an epoch has."""
        return int(self._epoch_document(epoch)["batches"])

    def _epoch_document(self, epoch: int) -> dict[str, typing.Any]:
        try:
            with open(os.path.join(self.path, f"shard-{self.shard}", f"epoch-{epoch}", "epoch.json")) as f:
                return dict(json.load(f))
        except OSError as e:
            self._check(e)
            raise

    def __len__(self) -> int:
        return self.count(self.epoch)

    def __getitem__(self, key: int | tuple[int, int]) -> typing.Any:
        if not isinstance(key, tuple) and self.style == "map":
            raise TypeError("every epoch would be the same: pass sampler=batches.keys to the DataLoader")
        epoch, i = self._place(*(key if isinstance(key, tuple) else (self.epoch, key)))
        files = {form: self._load(epoch, i, form) for form in ("npy", "labels.npy", "ids.npy", "valid.npy", *self._targets)}
        if not self.padding:
            valid = int(np.count_nonzero(files["valid.npy"]))  # these come first
            files = {form: a[:_used(files, form, valid)] for form, a in files.items()}
        batch = (_with_targets(tuple(self._targets.values())) if self._targets else Batch)(*files.values())
        return self.transform(batch) if self.transform else batch

    def prefetch(self, epoch: int, i: int) -> bool:
        """Begins to make a batch, if there is room, and returns at once whether it is already made. Loops need not call it: the next
        batches in order are made ahead anyway. It is for batches that are read in random order: several are then made at the same time."""
        name = self._name(*self._place(epoch, i)) + "npy"
        try:
            return os.getxattr(name, "user.batchfs.ready") == b"1"
        except OSError as e:
            self._check(e)
            raise

    def _place(self, epoch: int, i: int) -> tuple[int, int]:
        epoch, i = operator.index(epoch), operator.index(i)  # a TypeError if it is not a number
        if epoch < 0:
            raise IndexError(f"epochs are numbered from 0: there is no epoch {epoch}")
        n = self.count(epoch)
        if not -n <= i < n:
            raise IndexError(f"batch {i} of an epoch of {n} batches")
        return epoch, i % n

    def _name(self, epoch: int, i: int) -> str:
        return os.path.join(self.path, f"shard-{self.shard}", f"epoch-{epoch}", f"batch-{i:05}.")

    def _load(self, epoch: int, i: int, form: str) -> typing.Any:
        name = self._name(epoch, i)
        try:
            with open(name + form, "rb", buffering=0) as f:  # np.load parses Python, which threads may not do at once before Python 3.11.5
                if form == "text.jsonl":
                    return [json.loads(line) for line in f.readall().splitlines()]
                if form in self._targets:
                    head = os.pread(f.fileno(), 4096, 0)
                    start, dtype, shape = _header(head)
                    return np.memmap(f, dtype, "c", start, shape) if start == 4096 and np.prod(shape) else np.frombuffer(bytearray(f.readall()), dtype, offset=start).reshape(shape)
                if form != "npy":
                    a = f.readall()
                    return np.frombuffer(bytearray(a), "?" if form == "valid.npy" else "<i8", offset=10 + int.from_bytes(a[8:10], "little"))
                shape = tuple(map(int, os.getxattr(f.fileno(), "user.batchfs.shape").split(b",")))
                dtype = os.getxattr(f.fileno(), "user.batchfs.dtype").decode()
                dtype = "V2" if dtype == "bfloat16" else dtype
                return np.memmap(f, dtype, "c", 4096, shape) if np.prod(shape) else np.empty(shape, dtype)  # an empty array cannot be mapped
        except OSError as e:
            self._check(e)
            try:
                why = json.loads(os.getxattr(name + form, "user.batchfs.error"))
            except OSError:
                raise e from None
            if why["error"] != errno.errorcode.get(e.errno or 0):
                raise
            raise OSError(e.errno, "; ".join(why[k] for k in ("reason", "hint") if k in why), name + form) from None

    def _check(self, e: OSError) -> None:
        """Raises Unmounted if that is the cause of an error."""
        if e.errno == errno.ENOENT:
            try:
                with open(os.path.join(self.path, "dataset.json")):
                    return
            except OSError as of_mount:
                e = of_mount
        if e.errno in (errno.ENOENT, errno.ENOTCONN, errno.ECONNABORTED):
            raise self._unmounted(e) from None

    def _unmounted(self, e: OSError | None = None) -> OSError:
        if getattr(self._mount, "closed", False):
            why = "the mount was closed"
        elif e and e.errno == errno.ENOENT:
            why = "nothing is mounted there any more"
        elif e and e.errno not in (errno.ENOTCONN, errno.ECONNABORTED):
            return e
        else:
            why = f"the daemon of the mount has ended: clear it with `batchfs umount {self.path}`, and mount again"
        return Unmounted(errno.ENOTCONN, why, self.path)

    def __iter__(self) -> typing.Iterator[typing.Any]:
        data = sys.modules.get("torch.utils.data")
        return map(self.__getitem__, self._loop(data.get_worker_info() if data else None))

    def _loop(self, worker: typing.Any = None) -> typing.Iterator[tuple[int, int]]:
        """The keys of a loop, or of one worker's part. The loop is complete with its last batch, as not every reader asks for one more."""
        epoch, first = began = self._begin(worker) if worker else tuple(self._shared[_NEXT])
        n, step = self.count(epoch), worker.num_workers if worker else 1
        loop = list(self._shared[_LOOP])
        if first >= n:
            self._complete(began)
        for i in range(first + (worker.id if worker else 0), n, step):
            if (not worker or worker.id == 0) and (i < first + step or i - step < n // 2 <= i):
                self._compare(epoch, i, n, 2 + 2 * (step if worker else 0))
            if not worker:
                self._at, complete = (epoch, i + 1), i + 1 == n
            elif complete := loop == self._shared[_LOOP]:
                self._shared[_GIVEN + worker.id] += 1
                complete = sum(given - 1 for given in self._shared[_GIVEN : _GIVEN + step] if given) == n - first
            if complete:
                self._complete(began)
            yield epoch, i

    def _complete(self, began: tuple[int, ...]) -> None:
        if tuple(self._shared[_NEXT]) == began:  # else another loop has completed it, or set_epoch was called
            self._shared[_NEXT] = began[0] + 1, 0

    def _begin(self, worker: typing.Any) -> tuple[int, ...]:
        """Where a loop of a DataLoader's workers begins. The first worker that arrives decides for all."""
        self._loops += 1
        loop, process = [worker.seed - worker.id, self._loops], (multiprocessing.current_process()._identity or (0,))[-1] - worker.id
        try:
            with open(os.path.join(self.path, "dataset.json")) as f:
                fcntl.flock(f, fcntl.LOCK_EX)  # unlike a lock in shared memory, it is released when the process ends
                # After torch.manual_seed the seed may be that of a loop which was given up before all of its workers came. Processes
                # are numbered one after the other. Other threads may start some meanwhile, but a new loop makes a larger difference.
                other = loop != self._shared[_LOOP] or abs(process - self._shared[_PROCESS]) >= worker.num_workers
                if other or self._shared[_GIVEN + worker.id]:
                    self._shared[:] = [*self._shared[_NEXT], *loop, *self._shared[_NEXT], process, *[0] * _MOST_WORKERS]
                self._shared[_GIVEN + worker.id] = 1
                return tuple(self._shared[_BEGAN])
        except OSError as e:
            self._check(e)
            raise

    def _compare(self, epoch: int, i: int, n: int, ahead: int) -> None:
        """Warns if another shard that has been read since the last time is in another epoch, and not just because processes are
        not equally far at the end of one, or their workers read ahead."""
        if self._warned or self._shards == 1:
            return
        try:
            with open(os.path.join(self.path, ".batchfs", "stats.json")) as f:
                shards = json.load(f)["shards"]
        except (OSError, KeyError):
            return
        before, self._seen = self._seen, shards
        for s in [s for s in shards if before is not None and s not in before]:
            if s["shard"] != self.shard and s["epoch"] != epoch and abs((s["epoch"] - epoch) * n + s["batch"] - i) > max(n / 2, ahead):
                self._warned = True
                warnings.warn(f"shard {self.shard} of {self.path} reads epoch {epoch}, but shard {s['shard']} epoch {s['epoch']}: if they are of one job, "
                              "samples are used twice, or not at all; call set_epoch(epoch) before each loop, in each process", RuntimeWarning, stacklevel=3)
                return

    @property
    def epoch(self) -> int:
        """The epoch that the next loop reads. Loops that are completed advance it by themselves."""
        return int(self._shared[0])

    def set_epoch(self, epoch: int) -> None:
        """Makes the next loop read this epoch. This changes nothing if it would read that epoch anyway, such as after load_state_dict."""
        if epoch < 0:
            raise ValueError(f"epochs are numbered from 0: there is no epoch {epoch}")
        if epoch != self.epoch:
            self._go((epoch, 0))

    def _go(self, at: tuple[int, int]) -> None:
        self._at = None
        self._shared[:] = [*at, *[0] * (len(self._shared) - 2)]

    def state_dict(self, epoch: int | None = None, batch: int | None = None) -> dict[str, typing.Any]:
        """Where to continue: after the last batch that a loop was given, or at the given one. A DataLoader reads ahead of the loop, so
        with its workers, or with `keys`, say how many batches of which epoch were used. It is the same in all processes of a job."""
        if epoch is None and (self.style == "map" or any(self._shared[_LOOP])):
            raise RuntimeError("the workers of a DataLoader read ahead: say which batch is next, as state_dict(epoch, batch)")
        at = (epoch, batch or 0) if epoch is not None else self._at or tuple(self._shared[_NEXT])
        at = at if at[1] < self.count(at[0]) else (at[0] + 1, 0)
        return {"epoch": at[0], "batch": at[1], "fingerprint": self.fingerprint}

    def load_state_dict(self, state: typing.Mapping[str, typing.Any]) -> None:
        """Makes the next loop continue there. A mount with another dataset or other settings is refused; with --partition elastic, the world
        size may differ."""
        missing = [key for key in ("epoch", "batch", "fingerprint") if key not in state]
        if missing:
            raise ValueError(f"the state lacks {', '.join(missing)}: pass what state_dict() returned, or call set_epoch(0) to begin anew")
        if state["fingerprint"] != self.fingerprint:
            raise ValueError("the state is of a mount with another fingerprint: the batches would not be the same")
        self._go((state["epoch"], state["batch"]))


def _header(head: bytes) -> tuple[int, str, tuple[int, ...]]:
    """Where the data of a .npy file of batchfs starts, its dtype, and its shape."""
    start = 10 + int.from_bytes(head[8:10], "little")
    found = re.search(rb"'descr': '([^']+)'.*'shape': \(([^)]*)\)", head[10:start])
    assert found
    return start, found[1].decode(), tuple(int(n) for n in found[2].split(b",") if n.strip())


def _used(files: dict[str, typing.Any], form: str, valid: int) -> int:
    """How many elements of a form belong to the first slots of a batch."""
    if form.endswith(".offsets.npy"):
        return valid + 1
    offsets = files.get(("boxes" if form == "keypoints.npy" else form.split(".")[0]) + ".offsets.npy")
    return valid if offsets is None else int(offsets[valid])


class _Keys:
    """The (epoch, batch) of the next epoch, anew in each loop."""

    def __init__(self, batches: Batches) -> None:
        self.batches = batches

    def __len__(self) -> int:
        return len(self.batches)

    def __iter__(self) -> typing.Iterator[tuple[int, int]]:
        return self.batches._loop()


def to_torch(batch: Batch) -> Batch:
    """The batch as PyTorch tensors in the same memory; bfloat16 arrays become bfloat16 tensors."""
    import torch

    def tensor(a: typing.Any) -> typing.Any:
        if torch.is_tensor(a) or isinstance(a, list):
            return a
        if a.dtype.kind == "V":
            return torch.from_numpy(a.view(np.int16)).view(torch.bfloat16)
        return torch.from_numpy(a) if hasattr(torch, a.dtype.name) else a  # not all versions have unsigned integers

    return type(batch)(*map(tensor, batch))


def to_device(batches: typing.Iterable[Batch], device: typing.Any) -> typing.Iterator[Batch]:
    """Yields batches as PyTorch tensors on a device. To a CUDA device they go by way of two page-locked buffers in turn, so that copying
    overlaps training. The ids stay in host memory."""
    import torch
    cuda = torch.device(device).type == "cuda"
    buffers: list[typing.Any] = [None, None]
    copied = [torch.cuda.Event(), torch.cuda.Event()] if cuda else []
    for n, batch in enumerate(batches):
        batch, k = to_torch(batch), n % 2
        if not cuda:
            images = batch.images.to(device)
        else:
            copied[k].synchronize()  # returns at once if nothing was recorded
            if buffers[k] is None or buffers[k].shape != batch.images.shape:
                buffers[k] = torch.empty_like(batch.images, pin_memory=True)
            buffers[k].copy_(batch.images)
            images = buffers[k].to(device, non_blocking=True)
            copied[k].record()
        others = {field: a.to(device) for field, a in zip(batch._fields, batch) if field not in ("images", "ids") and torch.is_tensor(a)}
        yield batch._replace(images=images, **others)
