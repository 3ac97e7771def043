package gpucheck

import (
	_ "embed"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

//go:embed frameworks.py
var frameworks string

// A reading is what a program in Python prints.
type reading struct {
	What, Skipped string
	Opens         []float64 // seconds
	Wrong         []string
	Speeds        []float64
}

// ask runs a program in Python. The error says why it cannot run here; any other error fails the
// test.
func ask(t *testing.T, program string, args ...string) (r reading, err error) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), *python, append([]string{"-c", program}, args...)...)
	// JAX would take most of the GPU's memory.
	cmd.Env = append(os.Environ(), "PYTHONDONTWRITEBYTECODE=1", "PYTHONWARNINGS=ignore", "XLA_PYTHON_CLIENT_PREALLOCATE=false")
	var said strings.Builder
	cmd.Stderr = &said
	out, err := cmd.Output()
	if errors.Is(err, exec.ErrNotFound) {
		return r, err
	}
	if err != nil {
		t.Fatalf("%v\n%s", err, said.String())
	}
	lines := strings.Split(strings.TrimSpace(string(out)), "\n") // a framework may print some, too
	if err := json.Unmarshal([]byte(lines[len(lines)-1]), &r); err != nil {
		t.Fatalf("it printed %q", out)
	}
	if r.Skipped != "" {
		return r, errors.New(r.Skipped)
	}
	return r, nil
}

// TestFrameworks hands batches to the frameworks that are installed, and compares the bytes.
func TestFrameworks(t *testing.T) {
	device := theGPU(t)
	if _, err := exec.LookPath(*python); err != nil {
		t.Skipf("SKIPPED: %v", err)
	}
	m := mounted(t, device)
	for _, module := range []string{"torch", "cupy", "jax"} {
		t.Run(module, func(t *testing.T) {
			r, err := ask(t, frameworks, module, m.Dir, m.Batch(0, 0, 0), m.Batch(0, 1, 0))
			if err != nil {
				t.Skipf("SKIPPED: %v", err)
			}
			if len(r.Wrong) > 0 || len(r.Opens) == 0 {
				t.Fatalf("%s: wrong bytes in %q, of %d opens", r.What, r.Wrong, len(r.Opens))
			}
			slices.Sort(r.Opens)
			n := len(r.Opens)
			t.Logf("%s: open of .cuda to array, p50 %.3f ms, p99 %.3f ms, %d opens of finished batches",
				r.What, 1e3*r.Opens[n/2], 1e3*r.Opens[n*99/100], n)
		})
	}
}
