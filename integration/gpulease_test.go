package integration

import (
	"regexp"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/batchfs/batchfs/internal/fakecuda"
	"github.com/batchfs/batchfs/internal/testkit"
	"github.com/batchfs/batchfs/layout"
)

// keeps runs a program that holds a batch, prints "ok" after each step, and waits for a line before
// the next.
func (m withGPU) keeps(t *testing.T, program string, args ...string) *partner {
	t.Helper()
	p := startPartner(t, m.python(t, "def step():\n    print('ok', flush=True); sys.stdin.readline()\n"+program, args...))
	p.expect(t, "ok")
	return p
}

// TestCUDALease: memory on the GPU is kept for as long as an array, a duplicate or a child has the
// file open, and comes back after that, also from a process that is killed.
func TestCUDALease(t *testing.T) {
	testkit.Python(t, "numpy")
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
	p := m.keeps(t, program, path)
	for i, kept := range []bool{true, false, true, true, false, true} {
		if i > 0 {
			p.tell(t, "")
			p.expect(t, "ok")
		}
		if !kept {
			eventually(t, "its memory is back", func() bool { return m.onGPU(t) == 0 })
		} else if m.onGPU(t) == 0 {
			t.Errorf("step %d: the memory is not kept", i)
		}
	}
	p.signal(t, syscall.SIGKILL)
	p.gone(t)
	eventually(t, "the memory of a killed process is back", func() bool { return m.onGPU(t) == 0 })
}

// onStreams gives a program a kernel that waits for a gate and then copies a batch. It is in a
// language for which fakecuda has kernels, too.
const onStreams = `
import ctypes as C, errno, gc, os, threading, numpy as np
gate, kernels = threading.Event(), []
def cuda(name, *args):
    assert getattr(batchfs_cuda._driver, name)(*args) == 0, name
def copy_later(batch, by_name=True):
    """Queues a kernel on a stream of its own, which a framework names: what it will have read, and the stream."""
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
    if by_name:
        batch.__dlpack__(stream=stream.value)
    cuda("cuLaunchKernel", kernels[-1], 1, 1, 1, 1, 1, 1, 0, stream, (C.c_void_p * 1)(C.addressof(parameter)), None)
    return copied, stream
def await_open(path):
    while True:
        try:
            return batchfs_cuda.open(path)
        except OSError as e:
            assert e.errno == errno.ENOMEM, e
def files():
    n = 0
    for fd in os.listdir("/proc/self/fd"):
        try:
            n += os.readlink(f"/proc/self/fd/{fd}").endswith(".cuda")
        except FileNotFoundError:  # closed just now
            pass
    return n
`

// TestCUDALeaseWaitsForTheGPU: the memory of batches that a program has dropped is not reused
// before the GPU has finished its work on the streams that use them, and is reused after that.
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
	for name, c := range map[string]struct {
		slots  int
		config fakecuda.Config
	}{
		"one slot":  {1, fakecuda.Config{}},
		"two slots": {2, fakecuda.Config{Delay: 3 * time.Millisecond}},
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

// TestCUDALeaseInCaptures: a batch may be dropped while a graph is captured, in any mode and by any
// thread, and is waited for meanwhile. It is given back when the GPU has finished its work.
func TestCUDALeaseInCaptures(t *testing.T) {
	testkit.Python(t, "numpy")
	const program = onStreams + `
asked, rounds = threading.Semaphore(0), 20
def counted(call):
    def calls(*args):
        asked.release()
        return call(*args)
    return calls
before, in_capture, elsewhere = (batchfs_cuda.open(path) for path in sys.argv[3:6])
for name in "cuEventQuery", "cuStreamIsCapturing", "cuCtxSynchronize":
    setattr(batchfs_cuda._driver, name, counted(getattr(batchfs_cuda._driver, name)))
copied, stream = copy_later(before)
want = np.from_dlpack(before).copy()
del before                                    # the GPU has not done what it has
captured, graph = C.c_void_p(), C.c_void_p()
cuda("cuStreamCreate", C.byref(captured), int(sys.argv[6]))
cuda("cuStreamBeginCapture_v2", captured, int(sys.argv[2]))
in_capture.__dlpack__(stream=captured.value)
del in_capture                                # its stream is being captured
elsewhere.__dlpack__(stream=1)
other = [elsewhere]; del elsewhere
thread = threading.Thread(target=other.clear)
thread.start(); thread.join()                 # by a thread that captures nothing
for _ in range(rounds):
    assert asked.acquire(timeout=60), "nobody asks for the GPU's work"
assert files() >= 2, "the file was closed before the GPU had done its work"
cuda("cuStreamEndCapture", captured, C.byref(graph))
gate.set()
while files():
    pass
assert (copied == want).all()
`
	for mode, name := range []string{"global", "thread-local", "relaxed"} {
		for flags, kind := range []string{"blocking", "non-blocking"} {
			t.Run(name+", "+kind, func(t *testing.T) {
				t.Parallel()
				m := mountWithGPU(t, fakecuda.Config{}, photos(t), "--batch-size", "1", "--size", "32x32", "--resize", "stretch")
				args := []string{strconv.Itoa(mode), m.path(0, 0, 0, layout.CUDA), m.path(0, 0, 1, layout.CUDA), m.path(0, 0, 2, layout.CUDA), strconv.Itoa(flags)}
				if _, err := output(m.python(t, program, args...)); err != nil {
					t.Error(err)
				}
			})
		}
	}
}

// pytorch stands for a PyTorch that works on device 1, unless LOCAL_RANK is 0, and on the stream
// current.
const pytorch = `
import os, types
current = types.SimpleNamespace(cuda_stream=0)
sys.modules["torch"] = torch = types.ModuleType("torch")
torch.cuda = types.SimpleNamespace(is_initialized=lambda: True, current_stream=lambda device: current,
    current_device=lambda: int(os.environ.get("LOCAL_RANK") != "0"))
`

// TestCUDALeaseOfPyTorch: the stream that is current in PyTorch when a batch is dropped is waited
// for, even if another one was current when the batch was taken.
func TestCUDALeaseOfPyTorch(t *testing.T) {
	testkit.Python(t, "numpy")
	const program = onStreams + pytorch + `
batch = batchfs_cuda.open(sys.argv[2])
batch.__dlpack__(stream=1)
copied, stream = copy_later(batch, by_name=False)
want, asked, query = np.from_dlpack(batch).copy(), threading.Semaphore(0), batchfs_cuda._driver.cuEventQuery
def counted(event):
    asked.release()
    return query(event)
batchfs_cuda._driver.cuEventQuery = counted
current.cuda_stream = stream.value
del batch
for _ in range(20):
    assert asked.acquire(timeout=60)
assert files() == 1, "the file was closed before the GPU had done its work"
gate.set()
while files():
    pass
assert (copied == want).all()
`
	m := mountWithGPU(t, fakecuda.Config{}, photos(t), "--batch-size", "2")
	if _, err := output(m.python(t, program, m.path(0, 0, 0, layout.CUDA))); err != nil {
		t.Error(err)
	}
}

// TestCUDARanks: a rank of torchrun that works on another GPU than the mount's gets an error,
// before it has anything on the mount's. Other processes may use several GPUs.
func TestCUDARanks(t *testing.T) {
	const program = pytorch + `
try:
    batchfs_cuda.open(sys.argv[2])
    print("opened")
except RuntimeError as e:
    print(e, batchfs_cuda._slabs)
`
	m := mountWithGPU(t, fakecuda.Config{Devices: 2}, photos(t), "--batch-size", "2", "--gpu", "0")
	env := m.env
	for _, c := range []struct{ rank, says string }{
		{"LOCAL_RANK=0", `^opened`},
		{"RANK=1", `^opened`},
		{"LOCAL_RANK=1", `^the batch is on cuda:0 \(GPU-.*\), but this process \(LOCAL_RANK=1\) works on cuda:1: .* --gpu N {}\n$`},
	} {
		m.env = append(env[:len(env):len(env)], c.rank)
		if out, err := output(m.python(t, program, m.path(0, 0, 0, layout.CUDA))); err != nil || !regexp.MustCompile(c.says).MatchString(out) {
			t.Errorf("%s: %q, %v", c.rank, out, err)
		}
	}
}

// TestCUDALeaseEnds: a forked process gives its batches back without the GPU, an error of the
// driver ends a wait, and a program ends whatever the GPU does.
func TestCUDALeaseEnds(t *testing.T) {
	testkit.Python(t, "numpy")
	const forks = `
batch = batchfs_cuda.open(sys.argv[2]); copy_later(batch)
x, other = np.from_dlpack(batch), os.open(sys.argv[2], os.O_RDONLY)
if (child := os.fork()) == 0:
    assert files() == 1, "the fork has more than the file that is not the module's"
    for use in batch.__dlpack__, lambda: batch.pointer, lambda: batchfs_cuda.open(sys.argv[2]):
        try:
            use()
            os._exit(1)
        except RuntimeError as e:
            assert "spawn" in str(e), e
    del batch, x; gc.collect()
    os._exit(files() - 1)
assert os.waitpid(child, 0)[1] == 0, "what the fork has, and does"
del batch, x
os.close(other)
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
		failure := fakecuda.Failure{Function: "cuEventQuery", Code: 999}
		m.env = append([]string{"env"}, m.driver.Env(fakecuda.Config{Failures: []fakecuda.Failure{failure}})...)
	}
}
