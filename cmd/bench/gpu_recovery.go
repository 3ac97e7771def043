package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"time"

	"github.com/batchfs/batchfs/cuda"
	"github.com/batchfs/batchfs/internal/daemon"
)

// patience is how long what a killed reader had may take to come back.
const patience = 10 * time.Second

// inUse is how many bytes of the GPU's memory a mount's batches take.
func inUse(m *daemon.Mount) (int64, error) {
	var d struct {
		Buffers []struct {
			Kind string `json:"kind"`
			Real int64  `json:"real_memory_size"`
		}
	}
	if err := m.Document(".batchfs/memory.json", &d); err != nil {
		return 0, err
	}
	for _, b := range d.Buffers {
		if b.Kind == "device" {
			return b.Real, nil
		}
	}
	return 0, errors.New("memory.json says nothing of the GPU")
}

// hold is the program that is killed: it opens a batch, and reads it on the GPU over and over.
func hold(path string) error {
	c, err := findGPU()
	if err != nil {
		return err
	}
	return c.reading(func(r *deviceReader) error {
		b, err := r.open(path)
		if err != nil {
			return err
		}
		to, err := r.thread.Alloc(b.bytes)
		if err != nil {
			return err
		}
		stream, err := r.thread.NewStream()
		for first := true; err == nil; first = false {
			if err = errors.Join(stream.Copy(to, b.at, b.bytes), stream.Synchronize()); first && err == nil {
				fmt.Println("ok")
			}
		}
		return err
	})
}

// killedReader kills a process that has a batch in use on the GPU.
func killedReader(ctx context.Context, s *setup) ([]row, error) {
	return mountOnGPU(ctx, s, func(m *daemon.Mount) ([]row, error) {
		path := m.Batch(0, 0, 0)
		if err := killHolder(ctx, path); err != nil {
			return nil, err
		}
		killed := time.Now()
		for {
			n, err := inUse(m)
			if err != nil {
				return nil, err
			}
			if n == 0 {
				break
			}
			if time.Since(killed) > patience {
				return nil, fmt.Errorf("%d bytes of the GPU are still in use %s after kill -9 of their reader", n, patience)
			}
			time.Sleep(time.Millisecond)
		}
		passed := fmt.Sprintf("its memory came back after %.0f ms; later batches are right", 1e3*time.Since(killed).Seconds())
		err := s.gpu.reading(func(r *deviceReader) error { return errors.Join(r.same(path), r.same(m.Batch(0, 1, 0))) })
		return []row{{what: "kill -9 of a reader", passed: passed}}, err
	}, "--prefetch-queue-depth", "0")
}

// killHolder starts a reader, waits until it uses a batch, and kills it.
func killHolder(ctx context.Context, path string) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, self, "-hold", path)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	ready := bufio.NewScanner(out).Scan()
	_ = cmd.Process.Kill()
	if err := cmd.Wait(); !ready {
		return fmt.Errorf("the reader ended before it had a batch: %w", err)
	}
	return nil
}

// fullDevice has another program take all memory of the GPU, and give it back.
func fullDevice(ctx context.Context, s *setup) ([]row, error) {
	// The limit would otherwise be half of what is free when the first batch comes.
	return mountOnGPU(ctx, s, func(m *daemon.Mount) ([]row, error) {
		path := m.Batch(0, 0, 0)
		err := s.gpu.Thread(func(t *cuda.Thread) error {
			all, err := takeAll(t)
			if err == nil {
				err = refused(path)
			}
			for _, p := range all {
				err = errors.Join(err, t.Free(p))
			}
			return err
		})
		if err == nil {
			err = s.gpu.reading(func(r *deviceReader) error { return r.same(path) })
		}
		if err != nil {
			return nil, err
		}
		return []row{{what: "the GPU's memory is full", passed: ".cuda is refused with ENOMEM, host memory goes on; right again once there is room"}}, nil
	}, "--prefetch-queue-depth", "0", "--memory-wait", "0s", "--device-memory-limit", "1GiB")
}

// takeAll allocates what is left of the GPU's memory, in pieces that get smaller.
func takeAll(t *cuda.Thread) (all []cuda.Pointer, err error) {
	free, _, err := t.MemoryInfo()
	if err != nil {
		return nil, err
	}
	for n := free; n >= 64<<10; {
		p, err := t.Alloc(n)
		if errors.Is(err, cuda.ErrMemory) {
			n /= 2
			continue
		}
		if err != nil {
			return all, err
		}
		all = append(all, p)
	}
	return all, nil
}

// refused is an error unless a batch cannot be had on the GPU, but can be in host memory.
func refused(path string) error {
	if f, err := os.Open(path); err == nil {
		return errors.Join(errors.New("a batch was put on a GPU whose memory is full"), f.Close())
	} else if !errors.Is(err, syscall.ENOMEM) {
		return fmt.Errorf("the error should be ENOMEM: %w", err)
	}
	_, err := os.ReadFile(path[:len(path)-len("cuda")] + "nhwc")
	return err
}
