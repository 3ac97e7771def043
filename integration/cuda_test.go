package integration

import (
	"bufio"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/batchfs/batchfs/internal/fakecuda"
	"github.com/batchfs/batchfs/layout"
)

// theGPU is a driver in host memory, for all tests.
var theGPU = sync.OnceValues(func() (*fakecuda.Driver, error) {
	dir := filepath.Join(suite.dir, "gpu")
	if err := os.Mkdir(dir, 0o755); err != nil {
		return nil, err
	}
	return fakecuda.Build(dir)
})

// A withGPU is a mount whose daemon and readers find a GPU in host memory.
type withGPU struct {
	*mounted
	driver *fakecuda.Driver
	env    []string
}

func mountWithGPU(t testing.TB, c fakecuda.Config, dataset string, flags ...string) withGPU {
	t.Helper()
	if buildSetting("CGO_ENABLED") == "0" {
		t.Skip("SKIPPED: GPUs need cgo")
	}
	driver, err := theGPU()
	if err != nil {
		t.Fatal(err)
	}
	user := thisUser()
	user.run = append([]string{"env"}, driver.Env(c)...)
	return withGPU{mountAs(t, user, dataset, flags...), driver, user.run}
}

// python runs a program beside the GPU. It has the module as batchfs_cuda, and what NumPy takes
// for memory of the processor.
func (m withGPU) python(t testing.TB, program string, args ...string) *exec.Cmd {
	t.Helper()
	const start = `
import sys
sys.path.insert(0, sys.argv[1] + "/.batchfs")
import batchfs_cuda
batchfs_cuda._DEVICE_TYPE = 1            # kDLCPU: so NumPy takes it
batchfs_cuda._DTYPES["bfloat16"] = 1, 16 # which NumPy lacks
`
	name := filepath.Join(scratch(t), "program.py")
	writeFile(t, name, []byte(start+program))
	return m.command(slices.Concat(m.env, []string{needPython(t, "numpy"), name, m.dir}, args)...)
}

// onGPU is how many bytes of the GPU's memory are in use.
func (m withGPU) onGPU(t testing.TB) int64 {
	t.Helper()
	var d struct {
		Buffers []struct {
			Kind string `json:"kind"`
			Real int64  `json:"real_memory_size"`
		}
	}
	m.document(t, ".batchfs/memory.json", &d)
	for _, b := range d.Buffers {
		if b.Kind == "device" {
			return b.Real
		}
	}
	t.Fatalf("memory.json: %+v", d)
	return 0
}

// TestCUDAEpochs reads epochs from the GPU, in every type and order, and compares their bytes with
// those of the other form.
func TestCUDAEpochs(t *testing.T) {
	const program = `
import numpy as np
for path in sys.argv[2:]:
    batch = batchfs_cuda.open(path)
    x = np.from_dlpack(batch)
    file = path.removesuffix("cuda") + batch.layout
    assert x.ctypes.data == batch.pointer and x.shape == batch.shape, path
    assert x.tobytes() == open(file, "rb").read(), path
    del batch, x
assert not batchfs_cuda._handed_out
print(len(batchfs_cuda._slabs))
`
	for _, flags := range [][]string{
		{}, {"--layout", "nchw", "--prefetch-queue-depth", "0"}, {"--dtype", "float16", "--normalize", "imagenet", "--last-batch", "partial"},
		{"--dtype", "bfloat16", "--layout", "nchw"}, {"--dtype", "float32", "--batch-size", "7", "--shuffle"},
	} {
		t.Run(strings.Join(flags, " "), func(t *testing.T) {
			t.Parallel()
			config := fakecuda.Config{Delay: 2 * time.Millisecond, Seed: int64(len(flags))}
			m := mountWithGPU(t, config, mixedImages(t), append(flags, "--size", "96x96", "--resize", "not-larger", "--shards", "2")...)
			var paths []string
			for s := range 2 {
				for epoch := range 2 {
					names, err := os.ReadDir(m.epochDir(s, epoch))
					if err != nil {
						t.Fatal(err)
					}
					for _, n := range names {
						if batch, form, ok := layout.ParseBatchName(n.Name()); ok && form == layout.NHWCForm {
							paths = append(paths, m.path(s, epoch, batch, layout.CUDA))
						}
					}
				}
			}
			out, err := output(m.python(t, program, paths...))
			if err != nil {
				t.Fatal(err)
			}
			if slabs := strings.TrimSpace(out); slabs != "1" && slabs != "2" {
				t.Errorf("the reader mapped %s allocations", slabs)
			}
			eventually(t, "all memory is back", func() bool {
				s := m.stats(t)
				return s.Batches.Making == 0 && m.onGPU(t) <= s.Batches.Ahead*int64(32*96*96*3*4)
			})
		})
	}
}

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
	needPython(t, "numpy")
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
