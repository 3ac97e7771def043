"""Hands batches that batchfs keeps on a GPU to PyTorch, CuPy, JAX and others, without a copy.

    sys.path.insert(0, "MOUNTPOINT/.batchfs")
    import batchfs_cuda
    x = torch.from_dlpack(batchfs_cuda.open("MOUNTPOINT/shard-0/epoch-0/batch-00000.cuda"))

The bytes stay as they are while x, or anything that shares its memory, exists, and until the GPU has done the work that
it was given before. Do not write to them. Nothing but the standard library and NVIDIA's driver is needed.
"""
import ctypes as C
import json
import os
import queue
import threading
import weakref

_DEVICE_TYPE = 2  # kDLCUDA
_DTYPES = {"uint8": (1, 8), "float16": (2, 16), "bfloat16": (4, 16), "float32": (2, 32)}  # DLPack's code, bits
_HINTS = {  # what an error of a call mostly means
    "cuInit": "is there a GPU (nvidia-smi), and does CUDA_VISIBLE_DEVICES show it?",
    "cuIpcOpenMemHandle_v2": "is this the PID namespace of batchfs (docker run --pid host), the GPU not divided by MIG, and the mount alive?",
}
_Callback = C.CFUNCTYPE(None, C.c_void_p)
_lock, _slabs, _driver = threading.Lock(), {}, None
_process, _contexts, _dropped = None, set(), queue.SimpleQueue()  # who uses the driver, and where; files to be closed


class _Handle(C.Structure):
    _fields_ = [("bytes", C.c_char * 64)]


def _call(name, *args):
    """Calls the driver, which is loaded by the first call; _lock is held."""
    global _driver, _process
    if _driver is None:
        try:
            driver = C.CDLL("libcuda.so.1")
        except OSError as e:
            raise RuntimeError(f"NVIDIA's driver cannot be loaded: {e}") from None
        driver.cuIpcOpenMemHandle_v2.argtypes = [C.c_void_p, _Handle, C.c_uint]
        _check(driver, "cuInit", driver.cuInit(0))
        threading.Thread(target=_close_dropped, args=(driver,), daemon=True).start()
        _driver, _process = driver, os.getpid()
    _check(_driver, name, getattr(_driver, name)(*args))


def _check(driver, name, code):
    if code:
        text = C.c_char_p()
        driver.cuGetErrorName(code, C.byref(text))
        hint = f" ({_HINTS[name]})" if name in _HINTS else ""
        raise RuntimeError(f"{name}: {(text.value or b'CUDA error %d' % code).decode()}{hint}")


def _drop(fd):
    _dropped.put(fd) if os.getpid() == _process else os.close(fd)  # a fork has no work on the GPU, and must not use CUDA


def _close_dropped(driver):
    """Closes files, in a thread, when the GPU has done all work that it had when their arrays went.

    Arrays go when Python is done with them; kernels that read them may still be queued. Waiting for the consumer's stream is not
    enough: others may have used the array, too, and the default stream does not wait for PyTorch's. So it waits for all.
    """
    driver.cuThreadExchangeStreamCaptureMode(C.byref(C.c_int(2)))  # relaxed: it takes no part in graphs that others capture
    while True:
        files = [_dropped.get() for _ in range(max(1, _dropped.qsize()))]  # wait once for all: they may come faster than waits end
        for context in tuple(_contexts):
            driver.cuCtxSetCurrent(C.c_void_p(context))
            while 900 <= driver.cuCtxSynchronize() < 909:  # not while a graph is captured; after other errors, nothing runs
                threading.Event().wait(0.01)
        for fd in files:
            os.closerange(fd, fd + 1)  # whatever comes of it: the mount may be gone


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


def _slab(uuid, handle):
    """Maps an allocation of batchfs, once in a process and device: its address, and the device's number."""
    with _lock:
        if (uuid, handle) not in _slabs:
            device, ordinal = _find(uuid)
            before, context, address = C.c_void_p(), C.c_void_p(), C.c_uint64()
            _call("cuDevicePrimaryCtxRetain", C.byref(context), device)  # the one that frameworks use
            _call("cuCtxGetCurrent", C.byref(before))
            _call("cuCtxSetCurrent", context)
            try:
                _call("cuIpcOpenMemHandle_v2", C.byref(address), _Handle.from_buffer_copy(bytes.fromhex(handle)), 1)
            finally:
                _call("cuCtxSetCurrent", before)
            _contexts.add(context.value)
            _slabs[uuid, handle] = address.value, ordinal
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
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)  # returns when the batch is there; its memory is kept while the file is open
        weakref.finalize(self, _drop, fd).atexit = False  # a process that ends keeps its batches until it has ended
        d = json.loads(os.read(fd, 4096))
        self.shape, self.dtype, self.layout, self.valid = tuple(d["shape"]), d["dtype"], d["layout"], d["valid"]
        address, self.device = _slab(d["device"], d["handle"])
        self.pointer = address + d["offset"]

    def __dlpack_device__(self):
        return _DEVICE_TYPE, self.device

    def __dlpack__(self, stream=None, *, max_version=None, dl_device=None, copy=None):
        # A capsule without a version, which JAX requires and the others take, too. No stream has to wait: the bytes are there.
        if copy or dl_device not in (None, self.__dlpack_device__()):
            raise BufferError("a batch is handed out where it is, without a copy")
        shape, (code, bits) = (C.c_int64 * len(self.shape))(*self.shape), _DTYPES[self.dtype]
        managed = _Managed(_Tensor(self.pointer, _DEVICE_TYPE, self.device, len(shape), code, bits, 1, shape, None, 0), None, _delete)
        _handed_out[C.addressof(managed)] = managed, shape, self
        return _new(C.addressof(managed), b"dltensor", _unused)


open = Batch
