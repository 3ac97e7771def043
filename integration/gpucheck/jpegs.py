"""Decodes JPEGs with PyTorch's decoder on the GPU: FOLDER BATCH ROUNDS.

Prints a JSON object: what was used, and the images a second of each round, after one to warm up; or
why it was skipped. The files are in memory beforehand, and their pixels stay on the GPU.
"""
import json
import pathlib
import sys
import time

folder, size, rounds = pathlib.Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
try:
    import torch
    import torchvision
    from torchvision.io import ImageReadMode, decode_jpeg
    if not torch.cuda.is_available():
        raise RuntimeError("PyTorch sees no GPU")
    files = [torch.frombuffer(bytearray(p.read_bytes()), dtype=torch.uint8) for p in sorted(folder.rglob("*")) if p.is_file()]
    decode_jpeg(files[:size], mode=ImageReadMode.RGB, device="cuda")  # fail here if it cannot work
except Exception as e:
    print(json.dumps({"skipped": f"{type(e).__name__}: {e}".splitlines()[0]}))
    sys.exit()
speeds = []
for _ in range(1 + rounds):
    began = time.perf_counter()
    for i in range(0, len(files), size):
        decode_jpeg(files[i:i + size], mode=ImageReadMode.RGB, device="cuda")
    torch.cuda.synchronize()
    speeds.append(len(files) / (time.perf_counter() - began))
print(json.dumps({"what": f"torchvision {torchvision.__version__}", "speeds": speeds[1:]}))
