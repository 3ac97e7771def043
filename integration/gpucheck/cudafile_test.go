package gpucheck

import (
	_ "embed"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/batchfs/batchfs/internal/cuda"
	"github.com/batchfs/batchfs/internal/gpu"
)

// usualGPU finds the GPU that mounts use by default.
func usualGPU() (device cuda.Device, err error) {
	found, err := gpu.Find("auto")
	if err != nil {
		return device, err
	}
	defer found.Close()
	driver, err := cuda.Open()
	if err != nil {
		return device, err
	}
	devices, err := driver.Devices()
	for _, d := range devices {
		if d.UUID == found.UUID() {
			device = d
		}
	}
	return device, err
}

// A cudaReader opens .cuda files on one thread of the GPU, like a program that trains there. It
// maps each allocation once.
type cudaReader struct {
	thread *cuda.Thread
	slabs  map[string]*cuda.Import // by their handles
}

// onGPU runs f with a cudaReader.
func onGPU(device cuda.Device, f func(t *cuda.Thread, r *cudaReader) error) error {
	return device.Thread(func(t *cuda.Thread) (err error) {
		r := &cudaReader{t, map[string]*cuda.Import{}}
		defer func() {
			for _, slab := range r.slabs {
				err = errors.Join(err, slab.Close())
			}
		}()
		return f(t, r)
	})
}

// A cudaBatch is in the GPU's memory, and stays there until its file is closed.
type cudaBatch struct {
	*os.File
	At    cuda.Pointer
	Bytes int64
}

// open opens a file. It returns when the batch is there.
func (r *cudaReader) open(path string) (b cudaBatch, err error) {
	if b.File, err = os.Open(path); err != nil {
		return b, err
	}
	var text [4096]byte
	var document struct {
		Handle        string
		Offset, Bytes int64
	}
	if _, err = b.ReadAt(text[:], 0); err == nil {
		err = json.Unmarshal(text[:], &document)
	}
	if err == nil {
		err = r.find(document.Handle)
	}
	if err != nil {
		return b, errors.Join(fmt.Errorf("%s: %w", path, err), b.Close())
	}
	b.At, b.Bytes = r.slabs[document.Handle].At+cuda.Pointer(document.Offset), document.Bytes
	return b, nil
}

// find maps an allocation, unless it is mapped already.
func (r *cudaReader) find(name string) error {
	if _, mapped := r.slabs[name]; mapped {
		return nil
	}
	var handle cuda.IPCHandle
	if _, err := hex.Decode(handle[:], []byte(name)); err != nil {
		return err
	}
	slab, err := r.thread.OpenIPC(handle)
	if err == nil {
		r.slabs[name] = slab
	}
	return err
}

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
