"""torchvision's decoder of JPEGs on the GPU: FOLDER FILES BATCH. peers/contender.py documents the protocol.

The files are in memory before, and their pixels stay on the GPU.
"""
import itertools
import json
import pathlib
import sys
import time


def answer(**document):
    print(json.dumps(document), flush=True)


try:
    import torch
    import torchvision
    from torchvision.io import ImageReadMode, decode_jpeg
    if not torch.cuda.is_available():
        raise RuntimeError("PyTorch sees no GPU")
    folder, n, size = pathlib.Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
    paths = sorted(p for p in folder.rglob("*") if p.is_file())[:n]
    files = [torch.frombuffer(bytearray(p.read_bytes()), dtype=torch.uint8) for p in paths]
    batches = itertools.cycle([files[i:i + size] for i in range(0, len(files), size)])
    decode_jpeg(files[:size], mode=ImageReadMode.RGB, device="cuda")  # fail here if it cannot work
except Exception as e:
    answer(error=f"{type(e).__name__}: {e}".splitlines()[0])
    sys.exit(1)
answer(what=f"torchvision {torchvision.__version__}", ahead=0)
for line in sys.stdin:
    images, began = 0, time.perf_counter()
    for batch in itertools.islice(batches, int(line.split()[1])):
        decode_jpeg(batch, mode=ImageReadMode.RGB, device="cuda")
        images += len(batch)
    torch.cuda.synchronize()
    answer(images=images, seconds=time.perf_counter() - began)
