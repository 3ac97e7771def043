package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/batchfs/batchfs/decode"
	"github.com/batchfs/batchfs/internal/cuda"
	"github.com/batchfs/batchfs/internal/cudafile"
	"github.com/batchfs/batchfs/internal/gpu"
	"github.com/batchfs/batchfs/internal/pixels"
	"github.com/batchfs/batchfs/internal/throughput"
	"github.com/batchfs/batchfs/layout"
)

// What `make gpucheck` measures (-only gpu), after integration/gpucheck has checked the GPU.
// Nothing but the batchfs binary is needed beside this one.

// findGPU finds the one that is measured. The error is the one that batchfs doctor shows.
func findGPU() (*cuda.Device, error) {
	d, err := cudafile.Device()
	if err != nil {
		return nil, fmt.Errorf("there is no GPU to measure: %w (try batchfs doctor)", err)
	}
	return &d, nil
}

// describeGPU says which one it is.
func describeGPU(d *cuda.Device) string {
	latest := 0 // version of CUDA that the driver supports, as in cuda.Driver
	if driver, err := cuda.Open(); err == nil {
		latest = driver.Version
	}
	version := "unknown"
	words := strings.Fields(line("/proc/driver/nvidia/version", "NVRM version:"))
	if i := slices.IndexFunc(words, func(w string) bool { return strings.Trim(w, "0123456789.") == "" }); i >= 0 {
		version = words[i]
	}
	return fmt.Sprintf("%s, %s, compute capability %d.%d, %.0f GB; NVIDIA's driver %s, for CUDA up to %d.%d",
		d.Name, d.UUID, d.Compute[0], d.Compute[1], float64(d.Memory)/1e9, version, latest/1000, latest%1000/10)
}

// batchOnGPU is the size of a batch that is copied, placed or handed over.
func (b *bench) batchOnGPU() int { return min(256, b.photos.images) }

// bandwidth is the figure of repeated.
var bandwidth = figure{"bandwidth", "GB/s", 1e-9}

// repeated has a stream do something with so many bytes, again and again.
func repeated(b *bench, stream *cuda.Stream, bytes int64, work func() error) turn {
	return perSecond(bandwidth, int64(b.repeat)*bytes, func(context.Context) error {
		for range b.repeat {
			if err := work(); err != nil {
				return err
			}
		}
		return stream.Synchronize()
	})
}

// onDevice is memory of the GPU until the end of the contest.
func (b *bench) onDevice(t *cuda.Thread, n int64) (cuda.Pointer, error) {
	p, err := t.Alloc(n)
	if err == nil {
		b.later(func() error { return t.Free(p) })
	}
	return p, err
}

// A placing is something that the kernel bfs_place does.
type placing struct {
	what  string
	dtype layout.DType
	order layout.Order
}

// placed compares the kernel that crops, resizes and converts with copies on the GPU, by the bytes
// that are read and written.
func placed(_ context.Context, b *bench) (list []contest, err error) {
	for _, p := range []placing{{"uint8 NHWC", layout.Uint8, layout.NHWC}, {"float16 NCHW", layout.Float16, layout.NCHW}} {
		var thread *cuda.Thread
		var between turn
		kernel := contender{start: func(context.Context) (fill turn, err error) {
			fill, between, err = place(b, thread, p)
			return fill, err
		}}
		copies := contender{start: func(context.Context) (turn, error) { return between, nil }}
		within := func(work func() error) error {
			return b.gpu.Thread(func(t *cuda.Thread) error { thread = t; return work() })
		}
		list = append(list, contest{
			what: p.what, contenders: []contender{kernel, copies}, warm: true, within: within,
			rows: func(r results) []row {
				what := "crops to 224, " + p.what + ", read and written / copies on the GPU"
				return []row{r.ratio(what, bandwidth, 0, 1).atLeast(0.5)}
			},
		})
	}
	return list, nil
}

// placePlan plans n random-resized-crops of decoded photos. It also returns how many bytes the
// kernel reads and writes: each pixel of a crop, and each element, once.
func placePlan(n int, p placing) (plan *gpu.Plan, traffic int64, err error) {
	const height, width = 375, 500
	head := decode.Header{Format: decode.PNG, Width: width, Height: height, Orientation: 1}
	var samples []gpu.Sample
	for i := range n {
		job := pixels.Options{}.Plan(head, crop224.Choose(0, int64(i), height, width), pixels.Target{})
		samples = append(samples, gpu.Sample{Slot: i, Job: job})
		traffic += int64(job.Height * job.Width * 3)
	}
	tensor, err := tensorOf(n, 224, 224, p.dtype, p.order)
	if err != nil {
		return nil, 0, err
	}
	plan, err = gpu.NewPlan(tensor, samples)
	return plan, traffic + tensor.Spec.Bytes(), err
}

// tensorOf is a batch of RGB images.
func tensorOf(n, height, width int, dtype layout.DType, order layout.Order) (t gpu.Tensor, err error) {
	if t.Converter, err = layout.NewConverter(dtype, 3, layout.Normalization{}); err == nil {
		t.Spec, err = layout.NewSpec(n, height, width, 3, dtype, order)
	}
	return t, err
}

// place returns the turns of the kernel and of copies of its memory.
func place(b *bench, t *cuda.Thread, p placing) (kernel, copies turn, err error) {
	plan, traffic, err := placePlan(b.batchOnGPU(), p)
	if err != nil {
		return nil, nil, err
	}
	stream, err := t.NewStream()
	if err != nil {
		return nil, nil, err
	}
	b.later(stream.Close)
	half := int64(plan.Staging / 2)
	at, err := b.onDevice(t, int64(plan.Device()))
	other, err1 := b.onDevice(t, half)
	host, err2 := t.AllocHost(plan.Staging)
	if err := errors.Join(err, err1, err2); err != nil {
		return nil, nil, err
	}
	b.later(func() error { return t.FreeHost(host) })
	for i := range b.batchOnGPU() {
		plan.Put(host, i)
	}
	work := uint64(at) + uint64(plan.Staging)
	plan.Finish(host, uint64(at), work, work+uint64(plan.Work))
	module, err := t.Load(gpu.PTX)
	if err != nil {
		return nil, nil, err
	}
	b.later(module.Close)
	launch := plan.Launches()[0]
	function, err := module.Function(launch.Kernel)
	if err != nil {
		return nil, nil, err
	}
	kernel = repeated(b, stream, traffic, func() error {
		return function.Launch(launch.Grid, [3]int{launch.Threads, 1, 1}, launch.Shared, stream, at)
	})
	copies = repeated(b, stream, 2*half, func() error { return stream.Copy(other, at, half) })
	return kernel, copies, errors.Join(stream.ToDevice(at, host), stream.Synchronize())
}

// flagsOnGPU are those of a mount of random-resized-crops that uses the GPU.
func flagsOnGPU(b *bench, more ...string) []string {
	return warm(shuffled(b.batchOnGPU(), trainingCrop...), []string{"--gpu", b.gpu.UUID}, more)
}

// handOver times opens of batches that are on the GPU already, up to their address.
func handOver(_ context.Context, b *bench) ([]contest, error) {
	ms := func(what string) figure { return figure{"open of .cuda to address, " + what, "ms", 1e3} }
	p50, p99, again, n := ms("p50"), ms("p99"), ms("with its allocation mapped once more"), figure{"n", "", 1}
	opened := func(ctx context.Context) (f figures, err error) {
		m, err := b.start(ctx, b.batchfs, b.photos.Root(), flagsOnGPU(b))
		if err != nil {
			return nil, err
		}
		m.Form = "cuda"
		var first float64
		var all []float64
		err = cudafile.Reading(*b.gpu, func(_ *cuda.Thread, r *cudafile.Reader) error {
			for i := 0; i < 2*b.repeat && ctx.Err() == nil; i++ {
				path := m.Batch(0, i, 0)
				lease, err := r.Open(path) // waits until it is there
				if err != nil {
					return err
				}
				if i == 0 { // again, as in another process that has nothing mapped yet
					var other errgroup.Group
					other.Go(func() error {
						return cudafile.Reading(*b.gpu, func(_ *cuda.Thread, r *cudafile.Reader) (err error) {
							first, err = timeOpen(r, path)
							return err
						})
					})
					err = other.Wait()
				}
				for range 10 {
					took, failed := timeOpen(r, path)
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
		return figures{p50: quantile(all, .5), p99: quantile(all, .99), again: first, n: float64(len(all))}, nil
	}
	return []contest{{what: "opens", contenders: []contender{ready(opened)}, rounds: 1, rows: func(r results) []row {
		return []row{
			r.row(p50.name, p50, 0).noted("%v opens of finished batches", r.of(n, 0)),
			r.row(p99.name, p99, 0),
			r.row(again.name, again, 0),
		}
	}}}, nil
}

// timeOpen times one open, in seconds.
func timeOpen(r *cudafile.Reader, path string) (float64, error) {
	began := time.Now()
	f, err := r.Open(path)
	took := time.Since(began).Seconds()
	if err != nil {
		return 0, err
	}
	return took, f.Close()
}

// deviceEpochs reads whole epochs as .cuda, with and without the kernels that decode.
func deviceEpochs(_ context.Context, b *bench) ([]contest, error) {
	modes := []string{"off", "exact"}
	var sides []contender
	for _, mode := range modes {
		m := mount{dataset: b.photos.Root(), flags: flagsOnGPU(b, "--gpu-decode", mode), form: "cuda"}
		m.read = throughput.Reading(0, false)
		sides = append(sides, b.training(m))
	}
	// The first round is a warm-up: the share of the GPU is being found.
	return []contest{{what: "epochs", contenders: sides, warm: true, rows: func(r results) (rows []row) {
		for i, mode := range modes {
			epoch := r.row("random-resized-crop 224 as .cuda: one epoch, --gpu-decode "+mode, rate, i)
			rows = append(rows, epoch.noted("batches of %d", b.batchOnGPU()))
		}
		return append(rows, r.ratio("    exact / off", rate, 1, 0))
	}}}, nil
}
