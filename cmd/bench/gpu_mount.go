package main

import (
	"bytes"
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/batchfs/batchfs/cuda"
	"github.com/batchfs/batchfs/internal/daemon"
	"github.com/batchfs/batchfs/internal/throughput"
)

// A deviceReader opens .cuda files, as a program that trains on the GPU does.
type deviceReader struct {
	thread *cuda.Thread
	slabs  map[string]cuda.Pointer // by their handles
}

// reading runs f with a deviceReader.
func (c *card) reading(f func(r *deviceReader) error) error {
	return c.Thread(func(t *cuda.Thread) (err error) {
		r := &deviceReader{t, map[string]cuda.Pointer{}}
		defer func() {
			for _, p := range r.slabs {
				err = errors.Join(err, t.CloseIPC(p))
			}
		}()
		return f(r)
	})
}

// A deviceBatch is a batch in the GPU's memory, kept until its file is closed.
type deviceBatch struct {
	*os.File
	at    cuda.Pointer
	bytes int64
}

func (r *deviceReader) open(path string) (b deviceBatch, err error) {
	if b.File, err = os.Open(path); err != nil {
		return b, err
	}
	var text [4096]byte
	var document struct {
		Handle        string
		Offset, Bytes int64
	}
	n, err := b.ReadAt(text[:], 0)
	if n == len(text) {
		err = json.Unmarshal(text[:], &document)
	}
	slab, mapped := r.slabs[document.Handle]
	if err == nil && !mapped {
		var handle cuda.IPCHandle
		if _, err = hex.Decode(handle[:], []byte(document.Handle)); err == nil {
			slab, err = r.thread.OpenIPC(handle)
		}
		if err == nil {
			r.slabs[document.Handle] = slab
		}
	}
	if err != nil {
		return b, errors.Join(fmt.Errorf("%s: %w", path, err), b.Close())
	}
	b.at, b.bytes = slab+cuda.Pointer(document.Offset), document.Bytes
	return b, nil
}

// same is an error unless a batch has the same bytes on the GPU as in host memory.
func (r *deviceReader) same(path string) (err error) {
	b, err := r.open(path)
	if err != nil {
		return err
	}
	defer b.Close()
	want, err := os.ReadFile(strings.TrimSuffix(path, "cuda") + "nhwc")
	if err != nil {
		return err
	}
	got, err := unix.Mmap(-1, 0, int(b.bytes), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, unix.Munmap(got)) }()
	stream, err := r.thread.NewStream()
	if err != nil {
		return err
	}
	defer stream.Close()
	if err := errors.Join(stream.ToHost(got, b.at), stream.Synchronize()); err != nil {
		return err
	}
	if !bytes.Equal(got, want) {
		return fmt.Errorf("%s has other bytes on the GPU than in host memory", path)
	}
	return nil
}

// mountOnGPU mounts the photos, as random-resized-crops, and reads from the GPU.
func mountOnGPU[T any](ctx context.Context, s *setup, work func(m *daemon.Mount) (T, error), more ...string) (T, error) {
	return mounted(ctx, s, s.photos.Root(), s.flagsOnGPU(more...), func(m *daemon.Mount) (T, error) {
		m.Form = "cuda"
		return work(m)
	})
}

func (s *setup) flagsOnGPU(more ...string) []string {
	return warm(shuffled(s.batchOnGPU(), append(s.gpu.flags(more...), trainingCrop...)...)...)
}

// handOver times opens of batches that are on the GPU already, up to their address.
func handOver(ctx context.Context, s *setup) ([]row, error) {
	return mountOnGPU(ctx, s, func(m *daemon.Mount) (rows []row, err error) {
		var first float64
		var all []float64
		err = s.gpu.reading(func(r *deviceReader) error {
			for i := 0; i < 2*s.repeat && ctx.Err() == nil; i++ {
				s.progress.step("opens", i, 2*s.repeat)
				path := m.Batch(0, i, 0)
				lease, err := r.open(path) // waits until it is there
				if err != nil {
					return err
				}
				if i == 0 { // again, as in another process that has nothing mapped yet
					err = s.gpu.reading(func(other *deviceReader) error { first, err = other.timeOpen(path); return err })
				}
				for range 10 {
					took, failed := r.timeOpen(path)
					all, err = append(all, took), errors.Join(err, failed)
				}
				if err = errors.Join(err, lease.Close()); err != nil {
					return err
				}
			}
			return ctx.Err()
		})
		if err != nil {
			return nil, err
		}
		const title = "open of .cuda to address, "
		return []row{
			once(title+"p50", "ms", 1e3*quantile(all, .5), fmt.Sprintf("%d opens of finished batches", len(all))),
			once(title+"p99", "ms", 1e3*quantile(all, .99), ""),
			once(title+"with its allocation mapped once more", "ms", 1e3*first, ""),
		}, nil
	})
}

// timeOpen times one open, in seconds.
func (r *deviceReader) timeOpen(path string) (float64, error) {
	began := time.Now()
	b, err := r.open(path)
	took := time.Since(began).Seconds()
	if err != nil {
		return 0, err
	}
	return took, b.Close()
}

// deviceEpochs reads whole epochs as .cuda, with and without the kernels that decode.
func deviceEpochs(ctx context.Context, s *setup) (rows []row, err error) {
	modes := []string{"off", "exact"}
	var sides []side
	for _, mode := range modes {
		m, err := s.start(ctx, s.photos.Root(), s.flagsOnGPU("--gpu-decode", mode))
		if err != nil {
			return nil, err
		}
		defer m.Unmount(ctx)
		m.Form = "cuda"
		training, err := trainOn(ctx, m, throughput.Reading(0, false))
		if err != nil {
			return nil, err
		}
		sides = append(sides, training.Epoch)
	}
	figures, err := s.turns(ctx, "epochs", s.rounds+1, sides...)
	if err != nil {
		return nil, err
	}
	for i, mode := range modes {
		figures[i] = figures[i][1:] // the first is a warm-up: the share of the GPU is being found
		rows = append(rows, measured("random-resized-crop 224 as .cuda: one epoch, --gpu-decode "+mode, "images/s", figures[i],
			"batches of "+strconv.Itoa(s.batchOnGPU())))
	}
	return append(rows, measured("    exact / off", "x", ratios(figures[1], figures[0]), "")), nil
}
