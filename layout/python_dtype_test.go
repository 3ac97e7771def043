package layout

import (
	"strconv"
	"testing"

	"github.com/batchfs/batchfs/internal/pythons"
)

// elementSpecs returns all dtypes in both orders, in files that contain every value.
func elementSpecs() (all []Spec) {
	for d := Uint8; d <= Float32; d++ {
		for _, o := range []Order{NHWC, NCHW} {
			all = append(all, Spec{N: 2, H: 17, W: 19, C: 3, DType: d, Order: o})
		}
	}
	return all
}

// writeElements writes one batch as a file in form f, normalised as for ImageNet, and the 8-bit
// pixels that it was made from.
func writeElements(t *testing.T, dir string, k int, f Form, s Spec) {
	t.Helper()
	_, elements, pixels := floatBatch(t, s, normFor(s))
	file := make([]byte, Size(f, s))
	copy(file[DataOffset(f, s):], elements)
	PutHeader(f, s, file, metaFor(s.N))
	write(t, dir, k, "."+f.Ext(), file)
	write(t, dir, k, ".pixels", pixels)
	write(t, dir, k, ".about", []byte(s.DType.String()+" "+s.Order.String()))
}

// The values that Python expects in batch k. NumPy divides float64s, whose errors are far too
// small to show in float32 for these numbers.
const expectElements = `
import sys, os, numpy as np
dir, n = sys.argv[1], int(sys.argv[2])
def about(k):
    p = os.path.join(dir, str(k))
    dtype, order = open(p + ".about").read().split()
    return p, dtype, order
def expected(k):
    p, dtype, order = about(k)
    x = np.fromfile(p + ".pixels", np.uint8).reshape(2, 17, 19, 3)
    if dtype != "uint8":
        x = ((x - np.array([123.675, 116.28, 103.53])) / np.array([58.395, 57.12, 57.375])).astype(np.float32)
    return x if order == "nhwc" else x.transpose(0, 3, 1, 2)
def brain(x):
    u = x.view(np.uint32).astype(np.uint64)
    return ((u + 0x7fff + (u >> 16 & 1)) >> 16).astype(np.uint16)
`

func TestNumPyReadsElements(t *testing.T) {
	interpreter := pythons.Need(t, "numpy")
	const script = expectElements + `
for k in range(n):
    p, dtype, order = about(k)
    a, want = np.load(p + ".npy", mmap_mode="r"), np.ascontiguousarray(expected(k))
    assert a.shape == want.shape, (k, a.shape)
    if dtype == "bfloat16":
        assert a.dtype == np.dtype("V2"), (k, a.dtype)
        assert (a.view(np.uint16) == brain(want)).all(), k
        try:
            import ml_dtypes
            assert (a.view(ml_dtypes.bfloat16) == want.astype(ml_dtypes.bfloat16)).all(), k
        except ImportError:
            pass
    else:
        assert a.dtype == np.dtype(dtype) and a.dtype.isnative, (k, a.dtype)
        assert (a == want.astype(dtype)).all(), k
print("all good")
`
	dir := t.TempDir()
	for k, s := range elementSpecs() {
		writeElements(t, dir, k, NPY, s)
	}
	runPython(t, interpreter, script, dir, strconv.Itoa(len(elementSpecs())))
}

// TestTorchReadsElements: PyTorch reads the tensor files directly, and the safetensors files with
// that library, and rounds to the same elements.
func TestTorchReadsElements(t *testing.T) {
	interpreter := pythons.Need(t, "numpy", "torch", "safetensors")
	const script = `
import torch
from safetensors.torch import load_file
` + expectElements + `
for k in range(n):
    p, dtype, order = about(k)
    want = torch.from_numpy(np.ascontiguousarray(expected(k))).to(getattr(torch, dtype))
    got = torch.from_numpy(np.fromfile(p + "." + order, np.uint8)).view(getattr(torch, dtype)).reshape(want.shape)
    assert torch.equal(got, want), (k, dtype, order)
    got = load_file(p + ".safetensors")["images"]
    assert got.dtype == want.dtype and got.shape == want.shape and torch.equal(got, want), (k, dtype, order)
print("all good")
`
	dir := t.TempDir()
	for k, s := range elementSpecs() {
		writeElements(t, dir, k, formOf(s.Order), s)
		writeElements(t, dir, k, SafeTensors, s)
	}
	runPython(t, interpreter, script, dir, strconv.Itoa(len(elementSpecs())))
}

func formOf(o Order) Form {
	if o == NCHW {
		return NCHWForm
	}
	return NHWCForm
}
