package integration

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/batchfs/batchfs/internal/fakecuda"
	"github.com/batchfs/batchfs/internal/pythons"
)

// Programs that the check uses where they are installed, each the least that it can be. CuPy here is NumPy, for which the
// GPU's memory is the processor's; the sanitizer runs some of what it is given, with one of its tools.
const (
	stubSanitizer = "#!/bin/sh\n[ \"$2\" = memcheck ] || exit 0\nshift 4\nexec \"$@\" -cases 8\n"
	stubCuPy      = `
import numpy
__version__ = "14 for processors"
asnumpy = numpy.asarray
def from_dlpack(x):
    import batchfs_cuda
    batchfs_cuda._DEVICE_TYPE = 1
    return numpy.from_dlpack(x)
`
)

// gpuCheck runs a part of what make gpucheck runs, and returns its output.
func gpuCheck(t *testing.T, env []string, name, program string, flags ...string) (string, error) {
	t.Helper()
	path := filepath.Join(suite.dir, name)
	if _, err := os.Stat(path); err != nil {
		if err := buildBinary(path, program); err != nil {
			t.Fatal(err)
		}
	}
	return output(root(t).reader(0, slices.Concat([]string{"env"}, env, []string{path, "-batchfs", suite.binary}, flags)))
}

// gpuTests checks the GPU, as little as it can.
func gpuTests(t *testing.T, env []string, flags ...string) (string, error) {
	t.Helper()
	env = slices.Concat(env, []string{"TMPDIR=" + scratch(t)})
	return gpuCheck(t, env, "gpucheck", "./integration/gpucheck", append([]string{"-test.v", "-images", "6"}, flags...)...)
}

// TestGPUCheck runs the whole of make gpucheck with a GPU in host memory. It says nothing of any speed, but every row is there, and
// what must be exact is.
func TestGPUCheck(t *testing.T) {
	if buildSetting("CGO_ENABLED") == "0" {
		t.Skip("SKIPPED: GPUs need cgo")
	}
	if err := theKernels(); err != nil {
		t.Fatal(err)
	}
	driver, err := theGPU()
	if err == nil {
		err = theNVJPEG()
	}
	if err != nil {
		t.Fatal(err)
	}
	tools := scratch(t)
	writeFile(t, filepath.Join(tools, "compute-sanitizer"), []byte(stubSanitizer))
	if err := os.Chmod(filepath.Join(tools, "compute-sanitizer"), 0o755); err != nil {
		t.Fatal(err)
	}
	writeFile(t, filepath.Join(tools, "cupy.py"), []byte(stubCuPy))
	env := append(driver.Env(fakecuda.Config{Shared: true}), "PATH="+tools+":"+os.Getenv("PATH"), "PYTHONPATH="+tools)
	out, err := gpuTests(t, env, "-cases", "40", "-python", pythons.Need(t, "numpy"))
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	figures, err := gpuCheck(t, env, "bench", "./cmd/bench", "-images", "6", "-rounds", "1", "-repeat", "2", "-work", scratch(t), "-only", "gpu")
	if err != nil {
		t.Fatalf("%v\n%s", err, figures)
	}
	out += figures
	for _, row := range []string{
		`.*Fake GPU 0, GPU-[-0-9a-f]{36}, compute capability`, `Fake GPU 0, GPU-[-0-9a-f]{36}, .* for CUDA up to 12.4`,
		`.*40 samples, [1-9]\d{4,} bytes; [1-9]\d* JPEGs decoded on the GPU`, `--- PASS: TestExact `,
		`--- PASS: TestSanitizer/memcheck`, `--- PASS: TestSanitizer/synccheck`, `--- PASS: TestCopies/exact`,
		`--- PASS: TestKilledReader`, `.*its memory came back after \d+ ms`, `--- PASS: TestFullDevice`,
		`--- PASS: TestFrameworks/cupy`, `.*cupy 14 for processors: open of .cuda to array, p50 `, `--- SKIP: TestFrameworks/jax`,
		`.*copies to the GPU from batch memory / from cuMemHostAlloc's: .* GB/s`, `--- PASS: TestSpeedOfCopies`, `crops to 224, float16 NCHW, .* GB/s`,
		`JPEGs decoded in full: batchfs, exact kernels +\d+ images/s`, `JPEGs decoded in full: libjpeg-turbo, \d+ CPUs +[1-9]\d* images/s`, `exact kernels / libjpeg-turbo`,
		`JPEGs decoded in full: nvJPEG, hardware +[1-9]\d* images/s`, `exact kernels / nvJPEG's best +\d+\.\d+ x`,
		`JPEGs decoded in full: nvJPEG, GPU-hybrid +[1-9]\d* images/s`,
		`open of .cuda to address, p50 .* 40 opens`, `open of .cuda to address, p99`,
		`random-resized-crop 224 as .cuda: one epoch, --gpu-decode off +[1-9]\d* images/s`, `random-resized-crop 224 as .cuda: one epoch, --gpu-decode exact +[1-9]\d* images/s`,
	} {
		if !regexp.MustCompile(`(?m)^ *` + row).MatchString(out) {
			t.Errorf("there is no row %s", row)
		}
	}
	if strings.Contains(out, "FAILED") || t.Failed() {
		t.Errorf("%s", out)
	}
}

// TestGPUCheckFails: exit status 1 and the reason, where the GPU fails or there is none.
func TestGPUCheckFails(t *testing.T) {
	if buildSetting("CGO_ENABLED") == "0" {
		t.Skip("SKIPPED: GPUs need cgo")
	}
	if err := theKernels(); err != nil {
		t.Fatal(err)
	}
	driver, err := theGPU()
	if err != nil {
		t.Fatal(err)
	}
	failing := func(f fakecuda.Failure) []string { return driver.Env(fakecuda.Config{Failures: []fakecuda.Failure{f}}) }
	for _, c := range []struct {
		env       []string
		run, says string
	}{
		{failing(fakecuda.Failure{Function: "cuInit", Code: 100}), "TestExact", `there is no GPU to check: cuInit: CUDA_ERROR_NO_DEVICE`},
		{failing(fakecuda.Failure{Function: "kernel", Nth: 1, Code: 700}), "TestExact", `CUDA_ERROR_ILLEGAL_ADDRESS`},
		{failing(fakecuda.Failure{Function: "cuIpcOpenMemHandle", Code: 201}), "TestKilledReader", `the reader ended before it had a batch`},
	} {
		out, err := gpuTests(t, c.env, "-cases", "8", "-test.run", c.run)
		if ended, ok := errors.AsType[*exec.ExitError](err); !ok || ended.ExitCode() != 1 {
			t.Errorf("%s: %v", c.run, err)
			continue
		}
		if !regexp.MustCompile(c.says).MatchString(out + err.Error()) {
			t.Errorf("%s does not say %s: %v\n%s", c.run, c.says, err, out)
		}
	}
	noGPU := failing(fakecuda.Failure{Function: "cuInit", Code: 100})
	if out, err := gpuCheck(t, noGPU, "bench", "./cmd/bench", "-only", "gpu"); err == nil || !strings.Contains(out+err.Error(), "there is no GPU to measure: cuInit") {
		t.Errorf("no GPU to measure: %v\n%s", err, out)
	}
}
