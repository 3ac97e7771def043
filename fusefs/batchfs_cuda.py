"""Hands batches that batchfs keeps on a GPU to PyTorch, CuPy, JAX and others, without a copy.

    sys.path.insert(0, "MOUNTPOINT/.batchfs")
    import batchfs_cuda
    x = torch.from_dlpack(batchfs_cuda.open("MOUNTPOINT/shard-0/epoch-0/batch-00000.cuda"))

The bytes stay as they are while x, or anything that shares its memory, exists, and until the GPU has done the work that
it was given before on the streams of PyTorch, CuPy or JAX that x was used on: the one that was current when x was made, and
the one that is current when the last array goes. Others must be waited for. Do not write to the bytes. A process that was forked has
none of its parent's batches. Nothing but the standard library and NVIDIA's driver is needed.
"""
import ctypes as C
import functools
import json
import os
import queue
import sys
import threading
import time
import weakref

_DEVICE_TYPE = 2  # kDLCUDA
_DTYPES = {"uint8": (1, 8), "float16": (2, 16), "bfloat16": (4, 16), "float32": (2, 32)}  # DLPack's code, bits
_HINTS = {  # what an error of a call mostly means
    "cuInit": "is there a GPU (nvidia-smi), does CUDA_VISIBLE_DEVICES show it, and was this process not forked from one that uses it?",
    "cuIpcOpenMemHandle_v2": "is this the PID namespace of batchfs (docker run --pid host), the GPU not divided by MIG, and the mount alive?",
}
_Callback = C.CFUNCTYPE(None, C.c_void_p)
_lock, _slabs, _driver = threading.Lock(), {}, None
_leases, _dropped, _forked = set(), queue.SimpleQueue(), False  # open files; those to be closed; whether CUDA is the parent's


class _Handle(C.Structure):
    _fields_ = [("bytes", C.c_char * 64)]


def _call(name, *args):
    """Calls the driver, which is loaded by the first call; _lock is held."""
    global _driver
    if _driver is None:
        try:
            driver = C.CDLL("libcuda.so.1")
        except OSError as e:
            raise RuntimeError(f"NVIDIA's driver cannot be loaded: {e}") from None
        driver.cuIpcOpenMemHandle_v2.argtypes = [C.c_void_p, _Handle, C.c_uint]
        _check(driver, "cuInit", driver.cuInit(0))
        threading.Thread(target=_close_dropped, args=(driver,), daemon=True).start()
        _driver = driver
    _check(_driver, name, getattr(_driver, name)(*args))


def _check(driver, name, code):
    if code:
        text = C.c_char_p()
        driver.cuGetErrorName(code, C.byref(text))
        hint = f" ({_HINTS[name]})" if name in _HINTS else ""
        raise RuntimeError(f"{name}: {(text.value or b'CUDA error %d' % code).decode()}{hint}")


def _captured(code):
    return 900 <= code < 909  # CUDA_ERROR_STREAM_CAPTURE_... and CUDA_ERROR_CAPTURED_EVENT


def _relax(driver, mode=2):
    """Has this thread's calls take no part in the graphs that others capture. Returns what undoes it."""
    mode = C.c_int(mode)
    driver.cuThreadExchangeStreamCaptureMode(C.byref(mode))
    return mode.value


class _Lease:
    """An open file. Arrays go when Python is done with them, while kernels that read them may still be queued: the file is
    closed when the GPU has done what the streams that use it had been given by then.

    To wait for a context, or for a stream or an event that is being captured into a graph, would break the capture. So an event is
    recorded in each stream when that is not captured, and asked for now and then, which is allowed outside of captures in threads that
    have relaxed their mode.
    """

    def __init__(self, fd):
        self.fd, self.name = fd, os.readlink(f"/proc/self/fd/{fd}")
        self.context, self.streams, self.events = None, {}, []  # streams by their handles
        _leases.add(self)

    def use(self, handle=None):
        """Notes a stream, and those that are current in this thread: as objects, so that they stay."""
        used = {} if handle is None else {handle: None}
        try:
            torch, cupy = sys.modules.get("torch"), sys.modules.get("cupy")
            if torch and torch.cuda.is_initialized():
                stream = torch.cuda.current_stream(self.device)
                used[stream.cuda_stream] = stream
            if cupy:
                stream = cupy.cuda.get_current_stream()
                used[stream.ptr] = stream
        except Exception:  # they are being imported, or Python ends
            pass
        for handle, stream in used.items():
            handle = handle if handle > 2 else 1  # the default stream waits for those of threads
            self.streams[handle] = stream or self.streams.get(handle)

    def drop(self):
        """May be called at any time, by the garbage collector: it takes no lock."""
        if self.fd is None:
            return
        if self.context is None:
            self.close()  # there never was an array
            return
        self.use()
        self.streams = self.streams or {1: None}
        mode, context = _relax(_driver), C.c_void_p()
        _driver.cuCtxGetCurrent(C.byref(context))
        self.record(_driver)
        _driver.cuCtxSetCurrent(context)
        _relax(_driver, mode)
        _dropped.put(self)

    def record(self, driver):
        """Records events in those streams that are not being captured. Other errors mean that nothing runs there any more."""
        event, status = C.c_void_p(), C.c_int()
        driver.cuCtxSetCurrent(C.c_void_p(self.context))
        for handle, stream in tuple(self.streams.items()):
            code = driver.cuStreamIsCapturing(C.c_void_p(handle), C.byref(status))
            if code == 0 and status.value == 0 and driver.cuEventCreate(C.byref(event), 2) == 0:  # CU_EVENT_DISABLE_TIMING
                self.events.append((event.value, handle, stream))
                code = driver.cuEventRecord(event, C.c_void_p(handle))
            if status.value == 0 and not _captured(code):
                del self.streams[handle]

    def ends(self, driver):
        """Closes the file if the GPU needs it no more."""
        self.record(driver)
        for event, handle, stream in tuple(self.events):
            code = driver.cuEventQuery(C.c_void_p(event))
            if code == 600:  # CUDA_ERROR_NOT_READY
                continue
            self.events.remove((event, handle, stream))
            driver.cuEventDestroy_v2(C.c_void_p(event))
            if _captured(code):  # it has been since just before its event was recorded
                self.streams[handle] = stream
        if not self.streams and not self.events:
            self.close()
        return self.fd is None

    def close(self):
        os.closerange(self.fd, self.fd + 1)  # whatever comes of it: the mount may be gone
        self.fd = None
        _leases.discard(self)


def _close_dropped(driver):
    """Closes files, in a thread."""
    _relax(driver)
    waiting, pause = [], 0.0002
    while True:
        waiting += [_dropped.get() for _ in range(_dropped.qsize() or not waiting)]
        left = [lease for lease in waiting if not lease.ends(driver)]
        pause = 0.0002 if len(left) < len(waiting) else min(0.01, 2 * pause)  # while the GPU has much to do, asking takes no time
        waiting = left
        if waiting:
            time.sleep(pause)


def _after_fork():
    """Nothing of CUDA works in a process that was forked from one that uses it. It would only keep the batches."""
    global _lock, _forked
    _lock, _forked = threading.Lock(), _driver is not None
    for lease in tuple(_leases):
        fd, lease.fd = lease.fd, None
        try:
            if fd is not None and os.readlink(f"/proc/self/fd/{fd}") == lease.name:
                os.close(fd)
        except OSError:  # another thread of the parent had just closed it
            pass
    _leases.clear()


os.register_at_fork(after_in_child=_after_fork)


def _of_parent():
    return RuntimeError("CUDA cannot be used in a process that was forked from one that uses it, nor can that one's batches: "
                        'start processes by multiprocessing\'s "spawn" or "forkserver"')


@functools.cache
def _find(uuid):
    """The device and its number in this process, which CUDA_VISIBLE_DEVICES may have changed."""
    count, device, found = C.c_int(), C.c_int(), (C.c_ubyte * 16)()
    _call("cuDeviceGetCount", C.byref(count))
    for ordinal in range(count.value):
        _call("cuDeviceGet", C.byref(device), ordinal)
        _call("cuDeviceGetUuid", C.byref(found), device)
        if bytes(found).hex() == uuid.removeprefix("GPU-").replace("-", ""):
            return device, ordinal
    raise RuntimeError(f"the batch is on {uuid}, which this process does not see: check CUDA_VISIBLE_DEVICES")


def _check_rank(uuid, ordinal):
    """A rank that works on one GPU would get arrays on another, and copy each of them to its own without a word."""
    torch = sys.modules.get("torch")
    if "LOCAL_RANK" in os.environ and torch and torch.cuda.is_initialized() and torch.cuda.current_device() != ordinal:
        raise RuntimeError(f"the batch is on cuda:{ordinal} ({uuid}), but this process (LOCAL_RANK={os.environ['LOCAL_RANK']}) works on "
                           f"cuda:{torch.cuda.current_device()}: a mount has one GPU, so mount once for each rank, with --gpu N")


def _slab(uuid, handle):
    """Maps an allocation of batchfs, once in a process and device: its address, the device's number, and its context."""
    with _lock:
        device, ordinal = _find(uuid)
        _check_rank(uuid, ordinal)
        if (uuid, handle) not in _slabs:
            before, context, address = C.c_void_p(), C.c_void_p(), C.c_uint64()
            _call("cuDevicePrimaryCtxRetain", C.byref(context), device)  # the one that frameworks use
            _call("cuCtxGetCurrent", C.byref(before))
            _call("cuCtxSetCurrent", context)
            try:
                _call("cuIpcOpenMemHandle_v2", C.byref(address), _Handle.from_buffer_copy(bytes.fromhex(handle)), 1)
            finally:
                _call("cuCtxSetCurrent", before)
            _slabs[uuid, handle] = address.value, ordinal, context.value
        return _slabs[uuid, handle]


class _Tensor(C.Structure):  # DLTensor
    _fields_ = [("data", C.c_void_p), ("device_type", C.c_int), ("device_id", C.c_int), ("ndim", C.c_int), ("code", C.c_uint8), ("bits", C.c_uint8),
                ("lanes", C.c_uint16), ("shape", C.POINTER(C.c_int64)), ("strides", C.POINTER(C.c_int64)), ("byte_offset", C.c_uint64)]


class _Managed(C.Structure):  # DLManagedTensor
    _fields_ = [("tensor", _Tensor), ("context", C.c_void_p), ("deleter", _Callback)]


_handed_out = {}  # what a consumer's tensor needs, by the address of its _Managed
_new = C.PYFUNCTYPE(C.py_object, C.c_void_p, C.c_char_p, _Callback)(("PyCapsule_New", C.pythonapi))
_is_valid = C.PYFUNCTYPE(C.c_int, C.c_void_p, C.c_char_p)(("PyCapsule_IsValid", C.pythonapi))
_pointer = C.PYFUNCTYPE(C.c_void_p, C.c_void_p, C.c_char_p)(("PyCapsule_GetPointer", C.pythonapi))


@_Callback
def _delete(managed, pop=_handed_out.pop):  # may be called when this module's names are gone
    pop(managed, None)


@_Callback
def _unused(capsule):
    try:
        _is_valid(capsule, b"dltensor")  # stops if the capsule goes while an exception is raised, of a consumer that refused it
    finally:
        if _is_valid(capsule, b"dltensor"):  # otherwise a consumer took it, and calls _delete
            _handed_out.pop(_pointer(capsule, b"dltensor"), None)


class Batch:
    """A batch on a GPU: shape, dtype, layout, valid, device (its number in this process) and pointer."""

    def __init__(self, path):
        if _forked:
            raise _of_parent()
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)  # returns when the batch is there; its memory is kept while the file is open
        self._lease = _Lease(fd)
        weakref.finalize(self, self._lease.drop).atexit = False  # a process that ends keeps its batches until it has ended
        d = json.loads(os.read(fd, 4096))
        self.shape, self.dtype, self.layout, self.valid = tuple(d["shape"]), d["dtype"], d["layout"], d["valid"]
        address, self.device, context = _slab(d["device"], d["handle"])
        self._pointer = address + d["offset"]
        self._lease.device, self._lease.context = self.device, context

    @property
    def pointer(self):
        if self._lease.fd is None:
            raise _of_parent()
        return self._pointer

    def __dlpack_device__(self):
        return _DEVICE_TYPE, self.device

    def __dlpack__(self, stream=None, *, max_version=None, dl_device=None, copy=None):
        # A capsule without a version, which JAX requires and the others take, too. No stream has to wait: the bytes are there.
        if copy or dl_device not in (None, self.__dlpack_device__()):
            raise BufferError("a batch is handed out where it is, without a copy")
        if stream != -1:  # which means none
            self._lease.use(1 if stream is None else stream)
        shape, (code, bits) = (C.c_int64 * len(self.shape))(*self.shape), _DTYPES[self.dtype]
        managed = _Managed(_Tensor(self.pointer, _DEVICE_TYPE, self.device, len(shape), code, bits, 1, shape, None, 0), None, _delete)
        _handed_out[C.addressof(managed)] = managed, shape, self
        return _new(C.addressof(managed), b"dltensor", _unused)


open = Batch
