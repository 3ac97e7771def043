"""Hands batches on a GPU to one framework: MODULE MOUNTPOINT BATCH.cuda...

Prints a JSON object: what was used, how long each open of a finished batch took until there was an array, in seconds, and which
batches had wrong bytes; or why the framework was skipped.
"""
import importlib
import json
import sys
import time

module, mountpoint, *paths = sys.argv[1:]
try:
    framework = importlib.import_module(module)
    if module == "torch" and not framework.cuda.is_available():
        raise ImportError("it sees no GPU")
    import numpy as np
    if module == "jax":
        import jax.dlpack
        if framework.default_backend() != "gpu":
            raise ImportError("it sees no GPU")
except ImportError as e:
    print(json.dumps({"skipped": f"{module} cannot be used: {e}"}))
    sys.exit()
sys.path.insert(0, mountpoint + "/.batchfs")
import batchfs_cuda  # noqa: E402

take, host = {
    "torch": lambda: (framework.from_dlpack, lambda x: x.cpu().numpy()),
    "cupy": lambda: (framework.from_dlpack, framework.asnumpy),
    "jax": lambda: (jax.dlpack.from_dlpack, np.asarray),
}[module]()
opens, wrong = [], []
for path in paths:
    kept = batchfs_cuda.open(path)  # waits until the batch is there
    for _ in range(50):
        began = time.perf_counter()
        x = take(batchfs_cuda.open(path))
        opens.append(time.perf_counter() - began)
    with open(path.removesuffix("cuda") + "nhwc", "rb") as f:
        if host(x).tobytes() != f.read():
            wrong.append(path)
    del kept, x
print(json.dumps({"what": f"{module} {framework.__version__}", "opens": opens, "wrong": wrong}))
