package integration

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/batchfs/batchfs/internal/fakecuda"
	"github.com/batchfs/batchfs/internal/testkit"
)

// Small stand-ins for programs that the check uses if they are installed. CuPy is NumPy here, since
// the GPU's memory is the processor's; the sanitizer runs some of its arguments, with one of its
// tools.
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

// gpuTests runs the smallest check of the GPU, and returns the output.
func gpuTests(t *testing.T, env []string, flags ...string) (string, error) {
	t.Helper()
	folder, err := theFolder()
	check(t, err)
	dir := scratch(t)
	const unpacked = `gzip -dc "$1/gpucheck.gz" >"$TMPDIR/gpucheck" && chmod +x "$TMPDIR/gpucheck" && shift && exec "$TMPDIR/gpucheck" "$@"`
	command := []string{"TMPDIR=" + dir, "sh", "-c", unpacked, "sh", folder, "-batchfs", suite.binary, "-test.v", "-images", "2"}
	return output(root(t).reader(0, slices.Concat([]string{"env"}, env, command, flags)))
}

// theFolder is what make gpucheck makes.
var theFolder = sync.OnceValues(func() (string, error) {
	folder := filepath.Join(suite.dir, "gpucheck.d")
	out, err := exec.Command("../scripts/gpucheck.sh", folder, suite.binary).CombinedOutput()
	if err != nil {
		err = fmt.Errorf("%w\n%s", err, out)
	}
	return folder, err
})

// aGPU sets up everything that a GPU in host memory can have. It returns the folder that checks it,
// and environment variables for the smallest check.
func aGPU(t *testing.T) (folder string, env []string) {
	t.Helper()
	if testkit.BuildSetting("CGO_ENABLED") == "0" {
		t.Skip("SKIPPED: GPUs need cgo")
	}
	driver, err := theGPU()
	for _, prepare := range []func() error{theKernels, theNVJPEG} {
		if err == nil {
			err = prepare()
		}
	}
	if err == nil {
		folder, err = theFolder()
	}
	check(t, err)
	env = driver.Env(fakecuda.Config{Shared: true})
	return folder, append(env, "CASES=24", "IMAGES=3", "PHOTOS=2", "ROUNDS=1", "REPEAT=2")
}

// awaitRows complains about rows that are missing in the lines of some output.
func awaitRows(t *testing.T, out string, rows ...string) {
	t.Helper()
	for _, row := range rows {
		if !regexp.MustCompile(`(?m)^ *` + row).MatchString(out) {
			t.Errorf("there is no row %s", row)
		}
	}
	if strings.Contains(out, "FAILED") || t.Failed() {
		t.Errorf("%s", out)
	}
}

// TestGPUCheck runs the whole of make gpucheck with a GPU in host memory. This says nothing about
// speed, but every row ends in its time, and everything that must be exact is.
func TestGPUCheck(t *testing.T) {
	folder, env := aGPU(t)
	tools := scratch(t)
	writeFile(t, filepath.Join(tools, "compute-sanitizer"), []byte(stubSanitizer))
	check(t, os.Chmod(filepath.Join(tools, "compute-sanitizer"), 0o755))
	writeFile(t, filepath.Join(tools, "cupy.py"), []byte(stubCuPy))
	writeFile(t, filepath.Join(tools, "torch.py"), []byte("raise ImportError('it sees no GPU')\n"))
	env = append(env, "PATH="+tools+":"+os.Getenv("PATH"), "PYTHONPATH="+tools, "PYTHON="+testkit.Python(t, "numpy"), "TMPDIR="+scratch(t))
	out, err := output(root(t).reader(0, slices.Concat([]string{"env"}, env, []string{filepath.Join(folder, "run")})))
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	awaitRows(t, out,
		`.*Fake GPU 0, GPU-[-0-9a-f]{36}, compute capability`,
		`.*24 samples, [1-9]\d{4,} bytes; [1-9]\d* JPEGs decoded on the GPU`, `--- PASS: TestExact `,
		`--- PASS: TestSanitizer/memcheck`, `--- PASS: TestSanitizer/synccheck`, `--- PASS: TestCopies/exact`,
		`--- PASS: TestKilledReader`, `.*its memory came back after \d+ ms`, `--- PASS: TestFullDevice`,
		`--- PASS: TestFrameworks/cupy`, `.*cupy 14 for processors: open of .cuda to array, p50 `, `--- SKIP: TestFrameworks/jax`,
		`.*from batch memory / from cuMemHostAlloc's \d.* x`, `--- PASS: TestSpeedOfCopies`, `.*crops to 224, float16 nchw, .* x`,
		`.*JPEGs decoded in full: batchfs, exact kernels, 256 at once [\d.]+ images/s`, `.*JPEGs decoded in full: libjpeg-turbo, \d+ CPUs [1-9][\d.]* images/s`, `.*exact kernels / libjpeg-turbo`,
		`.*JPEGs decoded in full: nvJPEG, hardware, 128 a call [1-9][\d.]* images/s`, `.*exact kernels / nvJPEG's best \d+\.\d+ x`,
		`.*JPEGs decoded in full: nvJPEG, GPU-hybrid, 50 a call [1-9][\d.]* images/s`, `.*JPEGs decoded in full: nvJPEG, GPU-hybrid, 128 a call [1-9][\d.]* images/s`,
		`.*JPEGs decoded in full: nvJPEG, by torchvision skipped: \w+Error`,
		`.*open of .cuda to address, p50 .* 40 opens`,
		`.*random-resized-crop 224 as .cuda: one epoch, --gpu-decode off [1-9][\d.]* images/s`, `.*random-resized-crop 224 as .cuda: one epoch, --gpu-decode exact [1-9][\d.]* images/s`,
		`ok  mounting +a test mount worked`, `device +\d+ s  ok$`, `exact +\d+ s  ok$`, `gpu/decode +\d+ s  ok, but skipped: \w+Error`, `frameworks +\d+ s  ok, but .*jax cannot be used`, `mounts +\d+ s  ok$`, `gpu/epoch +\d+ s  ok$`, `sanitizer +\d+ s  ok$`,
	)
}

// TestGPUCheckCarried runs the folder where there is nothing but a shell, a few of the programs
// that every Debian has, and a driver: no Python, compiler or sanitizer; what mounts, with FUSE and
// without.
func TestGPUCheckCarried(t *testing.T) {
	folder, env := aGPU(t)
	env = append(env, "CASES=8", "IMAGES=2", "PHOTOS=2") // the other test checks more
	dir := scratch(t)
	for _, sub := range []string{"bin", "dev", "proc", "tmp", "carried"} {
		check(t, os.Mkdir(filepath.Join(dir, sub), 0o755))
	}
	nvjpeg := filepath.Join(filepath.Dir(folder), "gpu", "libnvjpeg.so.12")
	copyNeeded(t, dir, suite.binary, nvjpeg)
	for _, name := range strings.Fields("sh env timeout gzip cat rm mktemp date grep sed tee chmod dirname tr") {
		path, err := exec.LookPath(name)
		if err == nil {
			path, err = filepath.EvalSymlinks(path)
		}
		if err == nil {
			err = copyFile(filepath.Join(dir, "bin", name), path, 0o755)
		}
		check(t, err)
		copyNeeded(t, dir, path)
	}
	const enter = `mount --make-rprivate / && mkdir -p "$1/$2" && mount --bind "$2" "$1/$2" && mount --bind "$3" "$1/carried" && mount -t proc proc "$1/proc" &&
mount --rbind /dev "$1/dev" && root=$1 && shift 3 && exec chroot "$root" /bin/env -i "$@"`
	inside := slices.Concat([]string{"unshare", "-m", "sh", "-c", enter, "sh", dir, filepath.Dir(nvjpeg), folder, "PATH=/bin"}, env, []string{"/carried/run"})
	out, err := output(root(t).reader(0, append(inside, "2", "3")))
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	awaitRows(t, out, `mounts +\d+ s  ok$`, `recovery +\d+ s  ok$`, `gpu/epoch +\d+ s  ok$`,
		`frameworks +\d+ s  ok, but SKIPPED: .*python3.* not found`, `sanitizer +\d+ s  ok, but SKIPPED: compute-sanitizer`)
	inside[4] = strings.Replace(enter, `mount --rbind /dev "$1/dev"`, `mknod -m 666 "$1/dev/null" c 1 3 && mknod -m 666 "$1/dev/urandom" c 1 9`, 1)
	out, err = output(root(t).reader(0, append(inside, "1", "2")))
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	awaitRows(t, out, `exact +\d+ s  ok$`, `copies +\d+ s  ok$`, `gpu/place +\d+ s  ok$`, `gpu/decode +\d+ s  ok, but skipped: .*python3.* not found`,
		`recovery +skipped: nothing can be mounted here: .*/dev/fuse`, `gpu/epoch +skipped: nothing can be mounted here`, `!!  FUSE `)
}

// copyNeeded copies the libraries that programs need into a root, each to its own place.
func copyNeeded(t *testing.T, dir string, programs ...string) {
	t.Helper()
	out, err := exec.Command("ldd", programs...).Output()
	check(t, err)
	for _, path := range regexp.MustCompile(`(/\S+) \(0x`).FindAllStringSubmatch(string(out), -1) {
		to := filepath.Join(dir, path[1])
		check(t, errors.Join(os.MkdirAll(filepath.Dir(to), 0o755), copyFile(to, path[1], 0o755)))
	}
}

// TestGPUCheckEnds: the steps of each part of the check may take less than ten minutes together.
func TestGPUCheckEnds(t *testing.T) {
	text := mustRead(t, "../scripts/gpucheck-run.sh")
	parts := map[string]int{}
	for _, m := range regexp.MustCompile(`(?m)^check (\d) (\d+) `).FindAllStringSubmatch(string(text), -1) {
		seconds, _ := strconv.Atoi(m[2])
		parts[m[1]] += seconds
	}
	for part, seconds := range parts {
		if seconds > 570 { // 20 more are for batchfs doctor
			t.Errorf("part %s takes up to %d s", part, seconds)
		}
	}
	if len(parts) != 3 {
		t.Errorf("there are %d parts", len(parts))
	}
}

// TestGPUCheckFails: if the GPU fails or there is none, the exit status is 1, and the reason is
// printed.
func TestGPUCheckFails(t *testing.T) {
	if testkit.BuildSetting("CGO_ENABLED") == "0" {
		t.Skip("SKIPPED: GPUs need cgo")
	}
	check(t, theKernels())
	driver, err := theGPU()
	check(t, err)
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
}
