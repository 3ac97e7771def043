package fakecuda

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// TestStrict: what NVIDIA's driver refuses is refused here: calls without a context, or while a
// stream is captured, and results of work that nobody has waited for.
func TestStrict(t *testing.T) {
	if _, err := exec.LookPath("cc"); err != nil {
		t.Skip("SKIPPED: no C compiler")
	}
	dir := t.TempDir()
	d, err := Build(dir)
	if err != nil {
		t.Fatal(err)
	}
	program := filepath.Join(dir, "strict")
	cc := exec.Command("cc", "-Wall", "-pthread", "-o", program, "testdata/strict.c", "-L"+dir, "-l:libcuda.so.1")
	if out, err := cc.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	cmd := exec.Command(program)
	cmd.Env = append(os.Environ(), d.Env(Config{Context: 100 << 20})...)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
	if _, alive, err := d.Alive(cmd.Process.Pid); err != nil || alive != (Alive{}) {
		t.Errorf("%+v, %v", alive, err)
	}
}
