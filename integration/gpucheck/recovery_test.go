package gpucheck

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/batchfs/batchfs/internal/cuda"
	"github.com/batchfs/batchfs/internal/daemon"
	"github.com/batchfs/batchfs/internal/testkit"
)

// hold is the program that is killed: it opens a batch, and reads it on the GPU over and over.
func hold(path string) error {
	device, err := usualGPU()
	if err != nil {
		return err
	}
	return onGPU(device, func(t *cuda.Thread, r *cudaReader) error {
		b, err := r.open(path)
		if err != nil {
			return err
		}
		to, err := t.Alloc(b.Bytes)
		if err != nil {
			return err
		}
		stream, err := t.NewStream()
		for first := true; err == nil; first = false {
			if err = errors.Join(stream.Copy(to, b.At, b.Bytes), stream.Synchronize()); first && err == nil {
				fmt.Println("ok")
			}
		}
		return err
	})
}

// inUse returns how many bytes of the GPU's memory a mount's batches take.
func inUse(t *testing.T, m *daemon.Mount) int64 {
	t.Helper()
	var d struct {
		Buffers []struct {
			Kind string `json:"kind"`
			Real int64  `json:"real_memory_size"`
		}
	}
	testkit.Must(t, m.Document(".batchfs/memory.json", &d))
	for _, b := range d.Buffers {
		if b.Kind == "device" {
			return b.Real
		}
	}
	t.Fatal("memory.json says nothing of the GPU")
	return 0
}

// TestKilledReader kills a process that has a batch in use on the GPU: its memory is released, and
// later batches are right.
func TestKilledReader(t *testing.T) {
	const patience = 10 * time.Second
	device := theGPU(t)
	m := mounted(t, device, "--prefetch-queue-depth", "0")
	path := m.Batch(0, 0, 0)
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-hold", path)
	var said strings.Builder
	cmd.Stderr = &said
	out, err := cmd.StdoutPipe()
	testkit.Must(t, err)
	testkit.Must(t, cmd.Start())
	ready := bufio.NewScanner(out).Scan()
	_ = cmd.Process.Kill()
	if err := cmd.Wait(); !ready {
		t.Fatalf("the reader ended before it had a batch: %v\n%s", err, said.String())
	}
	killed := time.Now()
	for n := inUse(t, m); n > 0; n = inUse(t, m) {
		if time.Since(killed) > patience {
			t.Fatalf("%d bytes of the GPU are still in use %s after kill -9 of their reader", n, patience)
		}
		time.Sleep(time.Millisecond)
	}
	t.Logf("its memory came back after %d ms", time.Since(killed).Milliseconds())
	if err := same(device, path, m.Batch(0, 1, 0)); err != nil {
		t.Error(err)
	}
}

// TestFullDevice: while another program has all memory of the GPU, .cuda is refused with ENOMEM,
// and other forms are served as before; .cuda is right again once there is room.
func TestFullDevice(t *testing.T) {
	device := theGPU(t)
	// The limit would otherwise be half of what is free when the first batch comes.
	m := mounted(t, device, "--prefetch-queue-depth", "0", "--memory-wait", "0s", "--device-memory-limit", "1GiB")
	path := m.Batch(0, 0, 0)
	err := device.Thread(func(ct *cuda.Thread) error {
		all, err := takeAll(ct)
		if err == nil {
			err = refused(path)
		}
		for _, p := range all {
			err = errors.Join(err, ct.Free(p))
		}
		return err
	})
	if err == nil {
		err = same(device, path)
	}
	if err != nil {
		t.Error(err)
	}
}

// takeAll allocates the rest of the GPU's memory, in smaller and smaller pieces.
func takeAll(t *cuda.Thread) (all []cuda.Pointer, err error) {
	free, _, err := t.MemoryInfo()
	for n := free; err == nil && n >= 64<<10; {
		p, failed := t.Alloc(n)
		switch {
		case errors.Is(failed, cuda.ErrMemory):
			n /= 2
		case failed != nil:
			err = failed
		default:
			all = append(all, p)
		}
	}
	return all, err
}

// refused returns an error unless a batch cannot be opened on the GPU but can be read from host
// memory.
func refused(path string) error {
	if f, err := os.Open(path); err == nil {
		return errors.Join(errors.New("a batch was put on a GPU whose memory is full"), f.Close())
	} else if !errors.Is(err, syscall.ENOMEM) {
		return fmt.Errorf("the error should be ENOMEM: %w", err)
	}
	_, err := os.ReadFile(strings.TrimSuffix(path, "cuda") + "nhwc")
	return err
}
