package gpucheck

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/batchfs/batchfs/internal/cuda"
	"github.com/batchfs/batchfs/internal/daemon"
	"github.com/batchfs/batchfs/internal/testkit"
)

var (
	binary = flag.String("batchfs", "", "the batchfs `binary`")
	python = flag.String("python", "python3", "the `interpreter` that has PyTorch, CuPy or JAX")
	cases  = flag.Int("cases", 20000, "samples that are made on the GPU and compared")
	images = flag.Int("images", 256, "photos of a dataset, and the size of a batch")
	photos = flag.Int("photos", 2048, "photos of a dataset whose speed is measured")
	rounds = flag.Int("rounds", 5, "measurements of each speed, of which the median counts")
	repeat = flag.Int("repeat", 50, "copies or kernels of each measurement")
	held   = flag.String("hold", "", "only read this .cuda `file` on the GPU until killed")
)

func TestMain(m *testing.M) {
	flag.Parse()
	if *held == "" {
		os.Exit(m.Run())
	}
	fmt.Fprintln(os.Stderr, hold(*held))
	os.Exit(1)
}

// theGPU is the one that mounts use by default. Without one, or without a binary to mount with, it
// skips the test; but where a binary was named, a GPU has to be there.
func theGPU(t *testing.T) cuda.Device {
	t.Helper()
	device, err := usualGPU()
	switch {
	case err != nil && *binary != "":
		t.Fatalf("there is no GPU to check: %v (try batchfs doctor)", err)
	case err != nil:
		t.Skipf("SKIPPED: there is no GPU to check: %v", err)
	case *binary == "":
		t.Skip("SKIPPED: -batchfs names no binary; make gpucheck does")
	}
	return device
}

// batchfs runs a command.
func batchfs(t *testing.T, args ...string) {
	t.Helper()
	if out, err := exec.CommandContext(t.Context(), *binary, args...).CombinedOutput(); err != nil {
		t.Fatalf("batchfs %s: %v\n%s", args[0], err, out)
	}
}

// drawn makes a dataset of n images, and returns it with its files.
func drawn(t *testing.T, kind string, n int) (dir string, files []string) {
	t.Helper()
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	dir = filepath.Join(t.TempDir(), kind)
	batchfs(t, "gen", "--out", dir, "--kind", kind, "--images", strconv.Itoa(n), "--classes", "2")
	files, err := filepath.Glob(filepath.Join(dir, "*", "*"))
	if err != nil || len(files) != n {
		t.Fatalf("%d files: %v", len(files), err)
	}
	return dir, files
}

// mounted mounts a batch of photos, as random-resized-crops, with the GPU.
func mounted(t *testing.T, device cuda.Device, more ...string) *daemon.Mount {
	t.Helper()
	photos, _ := drawn(t, "photo", *images)
	return mountedAt(t, device, photos, more...)
}

// mountedAt does the same with photos that exist already.
func mountedAt(t *testing.T, device cuda.Device, photos string, more ...string) *daemon.Mount {
	t.Helper()
	args := []string{
		"--shuffle", "--batch-size", strconv.Itoa(*images), "--resize", "random-resized-crop", "--size", "224x224",
		"--io", "buffered", "--cache-size", "0", "--gpu", device.UUID,
	}
	args = append(append(args, more...), photos)
	m, err := daemon.NewMount(context.WithoutCancel(t.Context()), t.TempDir(), *binary, args...)
	testkit.Must(t, err)
	m.Form = "cuda"
	t.Cleanup(func() {
		if err := m.Unmount(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return m
}

// same returns an error unless batches have the same bytes on the GPU as in host memory.
func same(device cuda.Device, paths ...string) error {
	return onGPU(device, func(t *cuda.Thread, r *cudaReader) (err error) {
		for _, path := range paths {
			err = errors.Join(err, sameBatch(t, r, path))
		}
		return err
	})
}

func sameBatch(t *cuda.Thread, r *cudaReader, path string) (err error) {
	b, err := r.open(path)
	if err != nil {
		return err
	}
	defer b.Close()
	want, err := os.ReadFile(strings.TrimSuffix(path, "cuda") + "nhwc")
	if err != nil {
		return err
	}
	got, err := unix.Mmap(-1, 0, int(b.Bytes), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
	if err != nil {
		return err
	}
	defer unix.Munmap(got)
	stream, err := t.NewStream()
	if err != nil {
		return err
	}
	defer stream.Close()
	if err := errors.Join(stream.ToHost(got, b.At), stream.Synchronize()); err != nil {
		return err
	}
	if !bytes.Equal(got, want) {
		return fmt.Errorf("%s has other bytes on the GPU than in host memory", path)
	}
	return nil
}

// TestGPU says which GPU is checked.
func TestGPU(t *testing.T) {
	d := theGPU(t)
	t.Logf("%s, %s, compute capability %d.%d, %.0f GB", d.Name, d.UUID, d.Compute[0], d.Compute[1], float64(d.Memory)/1e9)
}
