package integration

import (
	"debug/elf"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/batchfs/batchfs/internal/fakecuda"
	"github.com/batchfs/batchfs/internal/testkit"
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
	if testkit.BuildSetting("CGO_ENABLED") == "0" {
		t.Skip("SKIPPED: GPUs need cgo")
	}
	driver, err := theGPU()
	check(t, err)
	user := thisUser()
	user.run = append([]string{"env"}, driver.Env(c)...)
	return withGPU{mountAs(t, user, dataset, flags...), driver, user.run}
}

// python runs a program beside the GPU. The program can import the module as batchfs_cuda, and
// takes the GPU's memory for the processor's.
func (m withGPU) python(t testing.TB, program string, args ...string) *exec.Cmd {
	t.Helper()
	modules := []string{"numpy"}
	for _, framework := range []string{"torch", "jax"} {
		if strings.Contains(program, "import "+framework) {
			modules = append(modules, framework)
		}
	}
	const start = `
import sys
sys.path.insert(0, sys.argv[1] + "/.batchfs")
import batchfs_cuda
batchfs_cuda._DEVICE_TYPE = 1            # kDLCPU: so NumPy takes it
batchfs_cuda._DTYPES["bfloat16"] = 1, 16 # which NumPy lacks
`
	name := filepath.Join(scratch(t), "program.py")
	writeFile(t, name, []byte(start+program))
	return m.command(slices.Concat(m.env, []string{testkit.Python(t, modules...), name, m.dir}, args)...)
}

// sameOnGPU has processes read .cuda files, and compare their bytes with those of the other form.
// Each prints how many allocations it mapped.
func (m withGPU) sameOnGPU(t *testing.T, processes int, paths ...string) (said []string) {
	t.Helper()
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
	said = make([]string, processes)
	var all sync.WaitGroup
	for i := range said {
		reader := m.python(t, program, paths...)
		all.Go(func() {
			out, err := output(reader)
			if err != nil {
				t.Error(err)
			}
			said[i] = strings.TrimSpace(out)
		})
	}
	all.Wait()
	return said
}

// onGPU returns how many bytes of the GPU's memory are in use.
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
	for _, flags := range [][]string{
		{}, {"--dtype", "float16", "--normalize", "imagenet", "--last-batch", "partial"},
		{"--dtype", "bfloat16", "--layout", "nchw", "--prefetch-queue-depth", "0"}, {"--dtype", "float32", "--batch-size", "7", "--shuffle"},
	} {
		t.Run(strings.Join(flags, " "), func(t *testing.T) {
			t.Parallel()
			config := fakecuda.Config{Delay: 2 * time.Millisecond, Seed: int64(len(flags))}
			m := mountWithGPU(t, config, mixedImages(t), append(flags, "--size", "96x96", "--resize", "not-larger", "--shards", "2")...)
			var paths []string
			for s := range 2 {
				for epoch := range 2 {
					names, err := os.ReadDir(m.epochDir(s, epoch))
					check(t, err)
					for _, n := range names {
						if batch, form, ok := layout.Names(nil).ParseBatchName(n.Name()); ok && form == layout.JSON {
							paths = append(paths, m.path(s, epoch, batch, layout.CUDA))
						}
					}
				}
			}
			if slabs := m.sameOnGPU(t, 1, paths...)[0]; slabs < "1" || slabs > "3" || len(slabs) > 1 { // a dropped batch is kept for some time
				t.Errorf("the reader mapped %s allocations", slabs)
			}
			eventually(t, "all memory is back", func() bool {
				s := m.stats(t)
				return s.Batches.Making == 0 && m.onGPU(t) <= s.Batches.Ahead*int64(32*96*96*3*4)
			})
		})
	}
}

// TestCUDANames: .cuda exists only with a GPU, and can be listed; a mount is refused if the GPU
// that it asks for is missing.
func TestCUDANames(t *testing.T) {
	m := mountWithGPU(t, fakecuda.Config{Devices: 2}, photos(t), "--gpu", "1", "--list", "cuda", "--device-memory-limit", "8MiB", "--batch-size", "4")
	if names := m.run(t, "ls", m.epochDir(0, 0)); !strings.HasPrefix(names, "batch-00000.cuda\n") {
		t.Error(names)
	}
	if size := m.run(t, "stat", "-c", "%s", m.path(0, 0, 0, layout.CUDA)); size != "4096\n" {
		t.Error(size)
	}
	m.run(t, "cat", m.path(0, 0, 0, layout.CUDA))
	stats := m.stats(t)
	if !strings.HasPrefix(stats.GPU.UUID, "GPU-") || stats.GPU.Limit != 8<<20 || stats.GPU.Batches == 0 {
		t.Errorf("stats.json: %+v", stats)
	}
	if text := m.run(t, suite.binary, "stats", m.dir); !strings.Contains(text, stats.GPU.UUID+", batches ") {
		t.Error(text)
	}
	if text := m.run(t, "cat", filepath.Join(m.dir, ".batchfs/metrics")); !regexp.MustCompile(`\nbatchfs_gpu_memory_bytes\{use="batches"\} [1-9]`).MatchString(text) {
		t.Error(text)
	}
	none := mountWithGPU(t, fakecuda.Config{}, photos(t), "--gpu", "none")
	if _, err := none.try("cat", none.path(0, 0, 0, layout.CUDA)); err == nil || !strings.Contains(err.Error(), "No such file") {
		t.Error(err)
	}
	for _, c := range []struct {
		config fakecuda.Config
		flags  string
		says   string
	}{
		{fakecuda.Config{}, "--gpu 1", "there is no GPU 1, only 0: GPU-"},
		{fakecuda.Config{MIG: true}, "--gpu 0", "MIG"},
		{fakecuda.Config{Failures: []fakecuda.Failure{{Function: "cuInit", Code: 100}}}, "--list cuda", "CUDA_ERROR_NO_DEVICE"},
	} {
		env := none.driver.Env(c.config)
		cmd := thisUser().reader(0, slices.Concat([]string{"env"}, env, []string{suite.binary, "mount"}, strings.Fields(c.flags), []string{photos(t), scratch(t)}))
		if out, err := output(cmd); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v\n%s", c.flags, err, out)
		}
	}
}

// TestCUDAOneOfMany: a mount initializes only one of several GPUs, makes no context there before a
// batch is put there, and says which GPU it is, and what ranks on other GPUs need.
func TestCUDAOneOfMany(t *testing.T) {
	config := fakecuda.Config{Devices: 3, Visible: "2,0,1", Context: 64 << 20}
	for which, number := range map[string]byte{"auto": '2', "1": '0', "2": '1'} {
		m := mountWithGPU(t, config, photos(t), "--gpu", which, "--batch-size", "4")
		m.run(t, "cat", m.path(0, 0, 0, layout.NHWCForm))
		_, alive, err := m.driver.Alive(m.pid())
		if opened, _ := m.driver.Opened(m.pid()); err != nil || opened != 1 || alive != (fakecuda.Alive{}) {
			t.Errorf("--gpu %s: %d devices are open, with %+v (%v)", which, opened, alive, err)
		}
		document := m.run(t, "cat", m.path(0, 0, 0, layout.CUDA))
		uuid := "GPU-e0e1e2e3-e4e5-e6e7-e8e9-eaebecedee0" + string(number)
		if !strings.Contains(document, uuid) {
			t.Errorf("--gpu %s: %s", which, strings.TrimSpace(document))
		}
		if says := "one of 3 GPUs, " + uuid + "; "; strings.Contains(m.logged(), says) != (which == "auto") {
			t.Errorf("--gpu %s: %s", which, m.logged())
		}
	}
	m := mountWithGPU(t, config, photos(t))
	env := slices.Concat([]string{"env"}, m.env[1:], []string{suite.binary, "mount", "--gpu", "3", photos(t), scratch(t)})
	if _, err := output(thisUser().reader(0, env)); err == nil || !strings.Contains(err.Error(), "there is no GPU 3, only 0: GPU-e0e1e2e3-e4e5-e6e7-e8e9-eaebecedee02") {
		t.Error(err)
	}
}

// TestCUDAFrameworks hands batches of every type to PyTorch and to JAX.
func TestCUDAFrameworks(t *testing.T) {
	for name, program := range map[string]string{"torch": `
import torch
batchfs_cuda._DTYPES["bfloat16"] = 4, 16
for path in sys.argv[2:]:
    batch = batchfs_cuda.open(path)
    x = torch.from_dlpack(batch)
    assert x.data_ptr() == batch.pointer and x.shape == batch.shape and x.dtype == getattr(torch, batch.dtype)
    assert bytes(x.view(torch.uint8).flatten().tolist()) == open(path.removesuffix("cuda") + "nhwc", "rb").read()
`, "jax": `
import jax, gc, numpy as np
batchfs_cuda._DTYPES["bfloat16"] = 4, 16
for path in sys.argv[2:]:
    batch = batchfs_cuda.open(path)
    x = jax.dlpack.from_dlpack(batch)
    assert x.unsafe_buffer_pointer() == batch.pointer and x.shape == batch.shape and x.dtype == batch.dtype
    assert np.asarray(x).tobytes() == open(path.removesuffix("cuda") + "nhwc", "rb").read()
    del x; gc.collect()
assert not batchfs_cuda._handed_out
`} {
		t.Run(name, func(t *testing.T) { testCUDAFramework(t, program) })
	}
}

func testCUDAFramework(t *testing.T, program string) {
	var m withGPU
	var paths []string
	for _, dtype := range []string{"uint8", "float16", "bfloat16", "float32"} {
		m = mountWithGPU(t, fakecuda.Config{}, photos(t), "--dtype", dtype, "--size", "16x16", "--resize", "stretch", "--batch-size", "3")
		paths = append(paths, m.path(0, 0, 0, layout.CUDA))
	}
	if _, err := output(m.python(t, program, paths...)); err != nil {
		t.Error(err)
	}
}

// TestCUDAConsumers calls the module with exactly the arguments that frameworks pass, and checks
// what they would get.
func TestCUDAConsumers(t *testing.T) {
	const program = `
import ctypes as C, gc
batchfs_cuda._DEVICE_TYPE = 2
batch = batchfs_cuda.open(sys.argv[2])
device = batch.__dlpack_device__()
assert device == (2, 0) and type(device[0]) is int
for arguments, named in [
    ((), {"stream": 0x7f1234567890}),                                   # JAX
    ((None,), {}),                                                      # JAX, in 2023
    ((), {"stream": 1, "max_version": (1, 0), "copy": None}),           # CuPy
    ((), {"stream": 1}),                                                # CuPy, before max_version
    ((), {"max_version": (1, 0), "stream": 1}),                         # PyTorch
    ((), {"max_version": (1, 0), "copy": False, "dl_device": device, "stream": -1}),
]:
    capsule = batch.__dlpack__(*arguments, **named)
    assert batchfs_cuda._is_valid(id(capsule), b"dltensor"), named
    t = batchfs_cuda._Managed.from_address(batchfs_cuda._pointer(id(capsule), b"dltensor")).tensor
    assert (t.data, t.byte_offset, t.device_type, t.device_id) == (batch.pointer, 0, *device)
    assert t.data % 256 == 0, "DLPack and XLA want aligned memory"
    assert tuple(t.shape[:t.ndim]) == batch.shape and not t.strides, "NULL: compact, row after row"
    assert (t.code, t.bits, t.lanes) == (1, 8, 1)
    del capsule
    assert not batchfs_cuda._handed_out, "nobody took it"
try:
    int(batch.__dlpack__())
except (TypeError, SystemError):  # Python makes it a SystemError, as the capsule goes meanwhile
    pass
assert not batchfs_cuda._handed_out, "its consumer failed"
for named in {"copy": True}, {"dl_device": (1, 0)}, {"dl_device": (2, 1)}:
    try:
        batch.__dlpack__(max_version=(1, 0), **named)
        sys.exit(f"{named} was not refused")
    except BufferError:
        pass
`
	m := mountWithGPU(t, fakecuda.Config{}, photos(t), "--size", "17x15", "--resize", "stretch", "--batch-size", "3")
	for b := range 3 { // one after the other on the GPU
		if out, err := output(m.python(t, program, m.path(0, 0, b, layout.CUDA))); err != nil {
			t.Errorf("%v\n%s", err, out)
		}
	}
}

// TestCUDARecipes runs the programs of docs/gpu.md without a real GPU: PyTorch takes the GPU's
// memory for the processor's, has no streams, and pins nothing.
func TestCUDARecipes(t *testing.T) {
	m := mountWithGPU(t, fakecuda.Config{}, photos(t), "--size", "32x32", "--resize", "stretch", "--batch-size", "4")
	training := blockWith(t, "../docs/gpu.md", "```python\n", "batchfs_cuda")
	pinned := blockWith(t, "../docs/gpu.md", "```python\n", "pin_memory=True")
	without := strings.NewReplacer("\n    ...\n", "\n    steps = i + 1\n", `"mnt/`, `f"{sys.argv[1]}/`, `f"mnt/`, `f"{sys.argv[1]}/`,
		", pin_memory=True", "", `.to("cuda", `, `.to("cpu", `)
	program := "import torch, os\nmodel = torch.nn.Sequential(torch.nn.AdaptiveAvgPool2d(4), torch.nn.Flatten(), torch.nn.Linear(48, 3))\n" + training +
		"print('finite', loss.isfinite().item(), 'of', steps)\ngpu, shape, n = x, x.shape, os.stat(f'{b}.nhwc').st_size\n" + pinned + "assert (x == gpu).all()\n"
	if out, err := output(m.python(t, without.Replace(program))); err != nil || out != "finite True of 3\n" {
		t.Errorf("%q, %v", out, err)
	}
}

// TestCUDAErrors: the module says what is missing.
func TestCUDAErrors(t *testing.T) {
	m := mountWithGPU(t, fakecuda.Config{}, photos(t), "--batch-size", "2")
	for _, c := range []struct {
		env  []string
		says string
	}{
		{[]string{"env", "LD_LIBRARY_PATH="}, "NVIDIA's driver cannot be loaded"},
		{append([]string{"env"}, m.driver.Env(fakecuda.Config{Failures: []fakecuda.Failure{{Function: "cuInit", Code: 100}}})...), "nvidia-smi"},
		{append([]string{"env"}, m.driver.Env(fakecuda.Config{Failures: []fakecuda.Failure{{Function: "cuIpcOpenMemHandle", Code: 201}}})...), "--pid host"},
	} {
		m.env = c.env
		if _, err := output(m.python(t, "batchfs_cuda.open(sys.argv[2])\n", m.path(0, 0, 0, layout.CUDA))); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%q: %v", c.env, err)
		}
	}
}

// TestCUDAThousandsOfOpens leaves nothing behind: no slot, no descriptor of the daemon (which
// every test checks at its end), and nothing in the driver beyond the buffers that are reused.
func TestCUDAThousandsOfOpens(t *testing.T) {
	const program = `
import os
for i in range(5000):
    batch = batchfs_cuda.open(sys.argv[2 + i % (len(sys.argv) - 2)])
assert len(batchfs_cuda._slabs) == 1
del batch
`
	m := mountWithGPU(t, fakecuda.Config{}, photos(t), "--size", "32x32", "--resize", "stretch", "--batch-size", "2")
	var paths []string
	for b := range 3 {
		paths = append(paths, m.path(0, 0, b, layout.CUDA))
	}
	if out, err := output(m.python(t, program, paths...)); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	_, alive, err := m.driver.Alive(m.pid())
	if err != nil || alive.Allocations != 1 || alive.Streams != 2 || alive.Registrations > 16 {
		t.Errorf("%+v, %v", alive, err)
	}
	m.finish(t)
	if _, alive, err = m.driver.Alive(m.pid()); err != nil || alive != (fakecuda.Alive{}) {
		t.Errorf("after its end: %+v, %v", alive, err)
	}
}

// TestStartsEverywhere: the binary does not make the dynamic linker look for anything of NVIDIA's,
// neither a library nor a function.
func TestStartsEverywhere(t *testing.T) {
	binary, err := elf.Open(suite.binary)
	check(t, err)
	defer binary.Close()
	libraries, err := binary.ImportedLibraries()
	check(t, err)
	// These are the libraries of libc and, if there are no archives of them, the image libraries.
	usual := regexp.MustCompile(`^(libc|libm|libdl|libpthread|librt|libresolv|ld-linux[-a-z0-9]*|libjpeg|libpng16|libwebp|libsharpyuv|libdeflate|libz)\.`)
	for _, library := range libraries {
		if !usual.MatchString(library) {
			t.Errorf("the binary needs %s", library)
		}
	}
	symbols, err := binary.DynamicSymbols()
	if err != nil && testkit.BuildSetting("CGO_ENABLED") == "1" {
		t.Fatal(err)
	}
	for _, s := range symbols {
		if regexp.MustCompile(`^(cu[A-Z]|nvml)`).MatchString(s.Name) {
			t.Errorf("the dynamic linker sees %s", s.Name)
		}
	}
}

// TestDoctorCUDA: doctor says what the driver can do, or why not, in a line each.
func TestDoctorCUDA(t *testing.T) {
	if testkit.BuildSetting("CGO_ENABLED") != "1" {
		t.Skip("built without cgo")
	}
	driver, err := fakecuda.Build(t.TempDir())
	check(t, err)
	namespace, err := os.Readlink("/proc/self/ns/pid")
	check(t, err)
	handOver := "GPU memory can be handed to other processes"
	if namespace != "pid:[4026531836]" {
		handOver = "PID namespace of its own"
	}
	fails := func(function string, code int) fakecuda.Config {
		return fakecuda.Config{Failures: []fakecuda.Failure{{Function: function, Code: code}}}
	}
	for _, c := range []struct {
		config         fakecuda.Config
		cuda, handOver string // the finding; "": there is no such line
		advice         string
	}{
		{fakecuda.Config{Devices: 2}, "driver for CUDA 12.4; Fake GPU 0, GPU-e0e1e2e3-e4e5-e6e7-e8e9-eaebecedee00, 256 MiB; Fake GPU 1", handOver, ""},
		{fakecuda.Config{MIG: true}, "MIG-c0c1", "is a part of a GPU (MIG)", ""},
		{fakecuda.Config{Version: 10010}, "too old: it supports CUDA 10.1, batchfs needs 11.0", "", "newer driver"},
		{fails("cuInit", 999), "cuInit: CUDA_ERROR_UNKNOWN (999)", "", "nvidia_uvm"},
		{fails("cuDeviceGetName", 719), "cuDeviceGetName: CUDA_ERROR_LAUNCH_FAILED (719)", "", "nvidia-smi"},
		{fails("cuInit", 100), "CUDA_ERROR_NO_DEVICE", "", ""},
	} {
		for _, variable := range driver.Env(c.config) {
			name, value, _ := strings.Cut(variable, "=")
			t.Setenv(name, value)
		}
		var report struct {
			Findings []struct{ Name, Found, Advice string }
		}
		o := execute(t, "doctor", "--json").done(t)
		if err := json.Unmarshal([]byte(o.out), &report); err != nil {
			t.Fatalf("%v: %s", err, o.out)
		}
		found, advice := map[string]string{}, ""
		for _, f := range report.Findings {
			found[f.Name] = f.Found
			if f.Name == "CUDA" {
				advice = f.Advice
			}
		}
		if !strings.Contains(found["CUDA"], c.cuda) || !strings.Contains(found[".cuda files"], c.handOver) || (c.handOver == "") != (found[".cuda files"] == "") {
			t.Errorf("%+v: CUDA: %q, .cuda files: %q", c.config, found["CUDA"], found[".cuda files"])
		}
		if !strings.Contains(advice, c.advice) {
			t.Errorf("%+v: advice: %q", c.config, advice)
		}
	}
}
