package layout

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/batchfs/batchfs/internal/pythons"
)

func runPython(t *testing.T, interpreter, script string, args ...string) {
	t.Helper()
	out, err := exec.Command(interpreter, append([]string{"-c", script}, args...)...).CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if !strings.Contains(string(out), "all good") {
		t.Fatalf("the script did not reach its end: %s", out)
	}
}

// pythonSpecs are small, since their files go to disk.
var pythonSpecs = []Spec{
	{N: 5, H: 7, W: 9, C: 3}, {N: 5, H: 7, W: 9, C: 3, Order: NCHW}, {N: 1, H: 1, W: 1, C: 1}, {N: 0, H: 0, W: 0, C: 3},
	{N: 0, H: 4, W: 4, C: 3}, {N: 1234, H: 1, W: 1, C: 3}, {N: 3, H: 5, W: 5, C: 3, DType: Float16},
	{N: 3, H: 5, W: 5, C: 3, DType: BFloat16}, {N: 3, H: 5, W: 5, C: 3, DType: Float32, Order: NCHW},
}

func TestNumPyReads(t *testing.T) {
	interpreter := pythons.Need(t, "numpy")
	const script = `
import sys, os, numpy as np
dir, n = sys.argv[1], int(sys.argv[2])
for k in range(n):
    p = os.path.join(dir, str(k))
    raw = open(p + ".nhwc", "rb").read()
    # NumPy before 2.0 cannot map an array without elements behind a whole page.
    a = np.load(p + ".npy", mmap_mode="r" if raw else None)
    assert a.tobytes() == raw and a.flags.c_contiguous, (k, a.dtype, a.shape)
    assert repr(a.shape) == open(p + ".shape").read(), (k, a.shape)
    if a.size:
        assert a.offset == 4096, (k, a.offset)
        assert str(a.dtype) in ("uint8", "float16", "|V2", "float32"), (k, a.dtype)
    m = a.shape[0]
    for name, want in (("labels", np.array([i % 3 - 1 for i in range(m)], np.int64)),
                       ("ids", np.array([(i << 33) + 7 for i in range(m)], np.int64)),
                       ("sizes", np.array([(100 + i, 200 - i) for i in range(m)], np.int32).reshape(m, 2)),
                       ("valid", np.arange(m) < m - 1)):
        f = p + "." + name + ".npy"
        got = np.load(f)
        assert got.dtype == want.dtype and got.shape == want.shape and (got == want).all(), (k, name, got)
        np.save(f + ".own.npy", want)
        ours, own = open(f, "rb").read(), open(f + ".own.npy", "rb").read()
        assert ours == own or np.__version__ < "1.24", (k, name, ours[:128], own[:128])
print("all good")
`
	dir := t.TempDir()
	for k, s := range pythonSpecs {
		m := metaFor(s.N)
		file, pixels := writeFile(t, NPY, s, m)
		write(t, dir, k, ".npy", file)
		write(t, dir, k, ".nhwc", pixels)
		write(t, dir, k, ".shape", []byte(tuple(s.Shape())))
		write(t, dir, k, ".labels.npy", AppendSmall(nil, Labels, m))
		write(t, dir, k, ".ids.npy", AppendSmall(nil, IDs, m))
		write(t, dir, k, ".sizes.npy", AppendSmall(nil, Sizes, m))
		write(t, dir, k, ".valid.npy", AppendSmall(nil, Valid, m))
	}
	runPython(t, interpreter, script, dir, strconv.Itoa(len(pythonSpecs)))
}

func TestSafeTensorsReads(t *testing.T) {
	interpreter := pythons.Need(t, "numpy", "safetensors")
	const script = `
import sys, os, numpy as np
from safetensors import safe_open, deserialize
dir, n = sys.argv[1], int(sys.argv[2])
for k in range(n):
    p = os.path.join(dir, str(k))
    raw, shape = open(p + ".nhwc", "rb").read(), eval(open(p + ".shape").read())
    tensors = dict(deserialize(open(p + ".safetensors", "rb").read()))
    assert sorted(tensors) == ["ids", "images", "labels", "sizes", "valid"], k
    images = tensors["images"]
    assert bytes(images["data"]) == raw and tuple(images["shape"]) == shape, (k, images["shape"])
    assert images["dtype"] in ("U8", "F16", "BF16", "F32"), (k, images["dtype"])
    with safe_open(p + ".safetensors", framework="np") as f:
        m = len(f.get_tensor("ids"))
        assert f.metadata()["layout"] in ("nhwc", "nchw"), k
        assert (f.get_tensor("labels") == np.array([i % 3 - 1 for i in range(m)], np.int64)).all(), k
        assert (f.get_tensor("ids") == np.array([(i << 33) + 7 for i in range(m)], np.int64)).all(), k
        sizes = f.get_tensor("sizes")
        assert sizes.dtype == np.int32 and sizes.shape == (m, 2), k
        assert (sizes == np.array([(100 + i, 200 - i) for i in range(m)], np.int32).reshape(m, 2)).all(), k
        valid = f.get_tensor("valid")
        assert valid.dtype == np.int64 and valid.tolist() == [max(0, m - 1)], (k, valid)
        if images["dtype"] != "BF16":
            assert f.get_tensor("images").tobytes() == raw, k
print("all good")
`
	dir := t.TempDir()
	for k, s := range pythonSpecs {
		file, pixels := writeFile(t, SafeTensors, s, metaFor(s.N))
		write(t, dir, k, ".safetensors", file)
		write(t, dir, k, ".nhwc", pixels)
		write(t, dir, k, ".shape", []byte(tuple(s.Shape())))
	}
	runPython(t, interpreter, script, dir, strconv.Itoa(len(pythonSpecs)))
}

func tuple(shape [4]int) string {
	return "(" + strconv.Itoa(shape[0]) + ", " + strconv.Itoa(shape[1]) + ", " + strconv.Itoa(shape[2]) + ", " + strconv.Itoa(shape[3]) + ")"
}

func write(t *testing.T, dir string, k int, ext string, data []byte) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, strconv.Itoa(k)+ext), data, 0o644); err != nil {
		t.Fatal(err)
	}
}
