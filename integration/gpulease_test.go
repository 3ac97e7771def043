package integration

import (
	"bufio"
	"io"
	"os"
	"os/exec"
	"strconv"
	"testing"
	"time"

	"github.com/batchfs/batchfs/internal/fakecuda"
	"github.com/batchfs/batchfs/internal/pythons"
	"github.com/batchfs/batchfs/layout"
)

// A keeper is a Python program that has a batch and tells what it did, line by line.
type keeper struct {
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Reader
}

// hold runs a program that prints "ok" after each step, and waits for a line before the next.
func (m withGPU) hold(t *testing.T, program string, args ...string) *keeper {
	t.Helper()
	cmd := m.python(t, "def step():\n    print('ok', flush=True); sys.stdin.readline()\n"+program, args...)
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	h := &keeper{cmd, in, bufio.NewReader(out)}
	h.await(t)
	return h
}

func (h *keeper) await(t *testing.T) {
	t.Helper()
	if line, err := h.out.ReadString('\n'); line != "ok\n" {
		t.Fatalf("the program said %q, %v", line, err)
	}
}

func (h *keeper) step(t *testing.T) {
	t.Helper()
	if _, err := io.WriteString(h.in, "\n"); err != nil {
		t.Fatal(err)
	}
	h.await(t)
}

// TestCUDALease: memory on the GPU is kept for as long as an array, a duplicate or a child has the
// file open, and comes back after that, also from a process that is killed.
func TestCUDALease(t *testing.T) {
	pythons.Need(t, "numpy")
	const program = `
import gc, os, signal, numpy as np
batch = batchfs_cuda.open(sys.argv[2])
x = np.from_dlpack(batch); y = x[1:]; want = x.copy()
del batch, x; gc.collect(); step()                    # an array keeps it
assert (y == want[1:]).all(); y = None; gc.collect(); step()
fd = os.open(sys.argv[2], os.O_RDONLY); copy = os.dup(fd); os.close(fd); step()
if (child := os.fork()) == 0:
    signal.pause()
os.close(copy); step()
os.kill(child, 9); os.wait(); step()
batch = batchfs_cuda.open(sys.argv[2]); step()
`
	m := mountWithGPU(t, fakecuda.Config{}, photos(t), "--batch-size", "4", "--prefetch-queue-depth", "0")
	path := m.path(0, 0, 1, layout.CUDA)
	h := m.hold(t, program, path)
	for i, kept := range []bool{true, false, true, true, false, true} {
		if i > 0 {
			h.step(t)
		}
		if !kept {
			eventually(t, "its memory is back", func() bool { return m.onGPU(t) == 0 })
		} else if m.onGPU(t) == 0 {
			t.Errorf("step %d: the memory is not kept", i)
		}
	}
	if err := h.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = h.cmd.Wait()
	eventually(t, "the memory of a killed process is back", func() bool { return m.onGPU(t) == 0 })
}

// onStreams gives a program a kernel that waits for a gate and then copies a batch, in a language in which fakecuda has kernels, too.
const onStreams = `
import ctypes as C, errno, gc, os, threading, numpy as np
gate, kernels = threading.Event(), []
def cuda(name, *args):
    assert getattr(batchfs_cuda._driver, name)(*args) == 0, name
def copy_later(batch):
    """Queues a kernel on a stream of its own: what it will have read, and the stream."""
    copied, stream, source = np.zeros(batch.shape, np.uint8), C.c_void_p(), batch.pointer
    def kernel(*_):
        gate.wait()
        C.memmove(copied.ctypes.data, source, copied.nbytes)
        return 0
    kernels.append(C.CFUNCTYPE(C.c_int, C.c_void_p, C.c_void_p, C.c_size_t, C.c_void_p, C.c_size_t)(kernel))
    context, parameter = C.c_void_p(), C.c_uint64()
    cuda("cuDevicePrimaryCtxRetain", C.byref(context), 0)
    cuda("cuCtxSetCurrent", context)
    cuda("cuStreamCreate", C.byref(stream), 1)  # CU_STREAM_NON_BLOCKING
    cuda("cuLaunchKernel", kernels[-1], 1, 1, 1, 1, 1, 1, 0, stream, (C.c_void_p * 1)(C.addressof(parameter)), None)
    return copied, stream
def await_open(path):
    while True:
        try:
            return batchfs_cuda.open(path)
        except OSError as e:
            assert e.errno == errno.ENOMEM, e
def files():
    return sum(os.path.realpath(f"/proc/self/fd/{fd}").endswith(".cuda") for fd in os.listdir("/proc/self/fd"))
`

// TestCUDALeaseWaitsForTheGPU: the memory of batches that a program has dropped is not reused before the GPU has done what it was given by
// then, on any stream, and is reused after that.
func TestCUDALeaseWaitsForTheGPU(t *testing.T) {
	const program = onStreams + `
slots, paths, kept = int(sys.argv[2]), sys.argv[3:], []
for path in paths[:slots]:
    batch = batchfs_cuda.open(path); x = np.from_dlpack(batch)
    kept.append((x.copy(), *copy_later(batch)))
    del batch, x
gc.collect()
for path in paths[slots:2*slots]:
    try:
        batchfs_cuda.open(path)  # nothing is left, unless something was given back too early
    except OSError as e:
        assert e.errno == errno.ENOMEM, e
gate.set()
for want, copied, stream in kept:
    cuda("cuStreamSynchronize", stream)
    assert (copied == want).all(), "the GPU read another batch"
for path in paths[slots:]:
    batch = await_open(path); x = np.from_dlpack(batch)
    kept.append((x.copy(), *copy_later(batch)))
    del batch, x
cuda("cuCtxSynchronize")
assert all((copied == want).all() for want, copied, _ in kept[slots:]), "of many, the GPU read another batch"
`
	capturing := []fakecuda.Failure{{Function: "cuCtxSynchronize", Nth: 1, Code: 900}} // CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED
	for name, c := range map[string]struct {
		slots  int
		config fakecuda.Config
	}{
		"one slot":  {1, fakecuda.Config{}},
		"two slots": {2, fakecuda.Config{Delay: 3 * time.Millisecond}},
		"a capture": {1, fakecuda.Config{Failures: capturing}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := mountWithGPU(t, c.config, photos(t), "--batch-size", "1", "--size", "600x1000", "--resize", "stretch",
				"--device-memory-limit", strconv.Itoa(2*c.slots)+"MiB", "--memory-wait", "500ms")
			args := []string{strconv.Itoa(c.slots)}
			for b := range 8 {
				args = append(args, m.path(0, 0, b, layout.CUDA))
			}
			if _, err := output(m.python(t, program, args...)); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestCUDALeaseEnds: a fork gives back what it has without the GPU, an error of the driver's ends a wait, and a program ends
// whatever the GPU does.
func TestCUDALeaseEnds(t *testing.T) {
	pythons.Need(t, "numpy")
	const forks = `
batch = batchfs_cuda.open(sys.argv[2]); copy_later(batch)
if (child := os.fork()) == 0:
    del batch
    os._exit(files())
assert os.waitpid(child, 0)[1] == 0, "the fork still has the file open"
del batch
assert files() == 1
print("ends")
`
	const fails = `
batch = batchfs_cuda.open(sys.argv[2]); copy_later(batch)
del batch
while files():
    pass
print("ends")
`
	m := mountWithGPU(t, fakecuda.Config{}, photos(t), "--batch-size", "4", "--prefetch-queue-depth", "0")
	for _, program := range []string{forks, fails} {
		if out, err := output(m.python(t, onStreams+program, m.path(0, 0, 0, layout.CUDA))); err != nil || out != "ends\n" {
			t.Errorf("%q, %v", out, err)
		}
		eventually(t, "its memory is back", func() bool { return m.onGPU(t) == 0 })
		failure := fakecuda.Failure{Function: "cuCtxSynchronize", Code: 999}
		m.env = append([]string{"env"}, m.driver.Env(fakecuda.Config{Failures: []fakecuda.Failure{failure}})...)
	}
}
