package integration

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/batchfs/batchfs/internal/gen"
	"github.com/batchfs/batchfs/internal/testkit"
)

var makePackagePhotos = sync.OnceValues(func() (string, error) {
	return generated("package", gen.Options{Images: 60, Kind: gen.Photo, Classes: 3, Seed: 5})
})

// runPackageTests runs the tests of the Python package, or some of them, in a Python, which finds
// batchfs in path and the package in modules, or as it was installed.
func runPackageTests(t *testing.T, python, path, modules string, some ...string) {
	env := []string{"PATH=" + path + string(os.PathListSeparator) + os.Getenv("PATH"), "PYTHONPATH=" + modules, "TMPDIR=" + scratch(t)}
	out := runProgram(t, "", env, python, append([]string{"../python/test_batchfs.py", shared(t, makePackagePhotos), "--verbose"}, some...)...)
	if strings.Contains(out, "SKIPPED") {
		t.Logf("some were skipped:\n%s", out)
	}
}

// TestPythonPackage runs python/test_batchfs.py: epochs, shards, ranks, resuming, workers of a
// DataLoader, dtypes and errors.
func TestPythonPackage(t *testing.T) {
	modules, err := filepath.Abs("../python")
	check(t, err)
	runPackageTests(t, testkit.Python(t, "numpy", "torch"), filepath.Dir(suite.binary), modules)
}

// TestWheel: the wheel that `make wheel` builds needs no glibc after 2.17, and passes the same
// tests where only the wheel and NumPy are installed; in a short run some that use all of it.
func TestWheel(t *testing.T) {
	inStageOfItsOwn(t)
	python := testkit.Python(t, "numpy", "ensurepip")
	dir := scratch(t)
	if out, err := exec.Command("../scripts/wheel.sh", dir).CombinedOutput(); err != nil {
		if strings.Contains(string(out), "could not install") {
			t.Skipf("SKIPPED: %s", out)
		}
		t.Fatalf("%v\n%s", err, out)
	}
	wheels, err := filepath.Glob(filepath.Join(dir, "batchfs-*-manylinux_2_17_*.whl"))
	if err != nil || len(wheels) != 1 {
		t.Fatal(wheels, err)
	}
	env := filepath.Join(dir, "env")
	if out, err := exec.Command(python, "-m", "venv", "--system-site-packages", "--without-pip", env).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	inside := filepath.Join(env, "bin", "python3")
	const pip = "../bin/wheel/bin/python3" // this has all that wheel.sh needs; making another environment takes seconds
	if out, err := exec.Command(pip, "-m", "pip", "--python", inside, "install", "--no-index", "--no-deps", wheels[0]).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	symbols, err := exec.Command("sh", "-c", `objdump -T "$1" | grep -o 'GLIBC_[0-9.]*' | sort -Vu | tail -n 1`, "sh", filepath.Join(env, "bin", "batchfs")).Output()
	if newest := strings.TrimSpace(string(symbols)); err != nil || newest == "" || newestOf(newest, "GLIBC_2.17") != "GLIBC_2.17" {
		t.Errorf("the binary needs %q, %v", newest, err)
	}
	modules := filepath.Join(dir, "modules")
	check(t, os.Mkdir(modules, 0o755))
	writeFile(t, filepath.Join(modules, "torch.py"), []byte("raise ImportError('it is not installed here')\n"))
	var some []string
	if testing.Short() {
		some = []string{"-k", "its_files", "-k", "resuming", "-k", "flags_and_the_end", "-k", "the_reason", "-k", "the_end_of_the_program"}
	}
	runPackageTests(t, inside, "/nowhere", modules, some...)
}

// inStageOfItsOwn skips a test in runs with the race detector, which does not see into the programs
// that the test runs and would make it take long.
func inStageOfItsOwn(t *testing.T) {
	t.Helper()
	if testkit.RaceDetector() {
		t.Skip("make test runs it without the race detector")
	}
}

// newestOf returns the later of two versions, in the order of `sort -V`.
func newestOf(a, b string) string {
	cmd := exec.Command("sort", "-V")
	cmd.Stdin = strings.NewReader(a + "\n" + b + "\n")
	out, _ := cmd.Output()
	lines := strings.Fields(string(out))
	return lines[len(lines)-1]
}
