package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/batchfs/batchfs/cuda"
	"github.com/batchfs/batchfs/decode"
	"github.com/batchfs/batchfs/decode/pixels"
	"github.com/batchfs/batchfs/decode/resample"
	"github.com/batchfs/batchfs/gpu"
	"github.com/batchfs/batchfs/layout"
	"github.com/batchfs/batchfs/pinned"
)

// batchOnGPU is the size of a batch that is copied, placed or handed over.
func (s *setup) batchOnGPU() int { return min(256, s.photos.images) }

// undo collects what has to be released on a thread of the GPU, and releases it in the opposite order.
type undo []func() error

func (u *undo) later(f func() error) { *u = append(*u, f) }

func (u *undo) all(err *error) {
	for i := len(*u) - 1; i >= 0; i-- {
		*err = errors.Join(*err, (*u)[i]())
	}
}

// unlimited is a budget without a limit.
type unlimited struct{}

func (unlimited) Reserve(int64) bool { return true }
func (unlimited) Release(int64)      {}
func (unlimited) Cancel(int64)       {}

// hostMemories are n bytes as mounts have batches, registered; of the driver's own; and as batches are without registration.
func hostMemories(t *cuda.Thread, u *undo, n int64) (batch, own, plain []byte, err error) {
	store := pinned.NewStore(4 * n)
	u.later(func() error { store.Close(); return nil })
	pool := pinned.NewPool(store, unlimited{}, pinned.PoolOptions{Lock: true})
	u.later(func() error { pool.Close(); return nil })
	for _, memory := range []*[]byte{&batch, &plain} {
		buffer, err := pool.Get(n)
		if err != nil {
			return nil, nil, nil, err
		}
		u.later(func() error { buffer.Release(); return nil })
		*memory = buffer.Bytes()
		clear(*memory)
	}
	if err := t.Register(batch, cuda.Portable); err != nil {
		return nil, nil, nil, err
	}
	u.later(func() error { return t.Unregister(batch) })
	if own, err = t.AllocHost(int(n)); err != nil {
		return nil, nil, nil, err
	}
	u.later(func() error { return t.FreeHost(own) })
	clear(own)
	return batch, own, plain, nil
}

// repeated is a side that has a stream do something with so many bytes, again and again. The figure is bytes per second.
func (s *setup) repeated(stream *cuda.Stream, bytes int64, work func() error) side {
	return func(context.Context) (float64, error) {
		began := time.Now()
		for range s.repeat {
			if err := work(); err != nil {
				return 0, err
			}
		}
		err := stream.Synchronize()
		return bandwidth(bytes, s.repeat, time.Since(began)), err
	}
}

// copies compares copies to the GPU.
func copies(ctx context.Context, s *setup) (rows []row, err error) {
	n := int64(s.batchOnGPU()) * 224 * 224 * 3
	return rows, s.gpu.Thread(func(t *cuda.Thread) (err error) {
		var u undo
		defer u.all(&err)
		batch, own, plain, err := hostMemories(t, &u, n)
		if err != nil {
			return err
		}
		on, err := t.Alloc(n)
		if err != nil {
			return err
		}
		u.later(func() error { return t.Free(on) })
		stream, err := t.NewStream()
		if err != nil {
			return err
		}
		u.later(stream.Close)
		var sides []side
		for _, memory := range [][]byte{own, batch, plain} {
			sides = append(sides, s.repeated(stream, n, func() error { return stream.ToDevice(on, memory) }))
		}
		figures, err := s.turns(ctx, "copies", s.rounds+1, sides...)
		if err != nil {
			return err
		}
		for i := range figures {
			figures[i] = figures[i][1:] // the first is a warm-up
		}
		note := func(i int) string {
			return fmt.Sprintf("%.1f GB/s, of %.1f", median(figures[i])/1e9, median(figures[0])/1e9)
		}
		rows = []row{
			measured("copies to the GPU from batch memory / from cuMemHostAlloc's", "x", ratios(figures[1], figures[0]), note(1)).atLeast(0.98),
			measured("    from memory that is not registered", "x", ratios(figures[2], figures[0]), note(2)),
		}
		return nil
	})
}

// A placing is something that the kernel bfs_place does.
type placing struct {
	what  string
	dtype layout.DType
	order layout.Order
}

// placed compares the kernel that crops, resizes and converts with copies on the GPU, by the bytes that are read and written.
func placed(ctx context.Context, s *setup) (rows []row, err error) {
	return rows, s.gpu.Thread(func(t *cuda.Thread) (err error) {
		for _, p := range []placing{{"uint8 NHWC", layout.Uint8, layout.NHWC}, {"float16 NCHW", layout.Float16, layout.NCHW}} {
			r, err := s.place(ctx, t, p)
			if err != nil {
				return err
			}
			rows = append(rows, r)
		}
		return nil
	})
}

// placePlan plans n random-resized-crops of decoded photos. It also returns how many bytes the kernel reads and writes: each
// pixel of a crop, and each element, once.
func placePlan(n int, p placing) (plan *gpu.Plan, traffic int64, err error) {
	converter, err := layout.NewConverter(p.dtype, 3, layout.Normalization{})
	if err != nil {
		return nil, 0, err
	}
	spec, err := layout.NewSpec(n, 224, 224, 3, p.dtype, p.order)
	if err != nil {
		return nil, 0, err
	}
	o := resample.Options{Mode: resample.RandomResizedCrop, Height: 224, Width: 224, Flip: .5, CropArea: resample.DefaultCropArea, CropRatio: resample.DefaultCropRatio}
	traffic = spec.Bytes()
	var samples []gpu.Sample
	for i := range n {
		job := pixels.Options{}.Plan(decode.Header{Format: decode.PNG, Width: 500, Height: 375, Orientation: 1}, o.Choose(0, int64(i), 375, 500), pixels.Target{})
		samples = append(samples, gpu.Sample{Slot: i, Job: job})
		traffic += int64(job.Height * job.Width * 3)
	}
	plan, err = gpu.NewPlan(gpu.Tensor{Spec: spec, Converter: converter}, samples)
	return plan, traffic, err
}

func (s *setup) place(ctx context.Context, t *cuda.Thread, p placing) (r row, err error) {
	var u undo
	defer u.all(&err)
	plan, traffic, err := placePlan(s.batchOnGPU(), p)
	if err != nil {
		return r, err
	}
	host, err := t.AllocHost(plan.Staging)
	if err != nil {
		return r, err
	}
	u.later(func() error { return t.FreeHost(host) })
	at, err := t.Alloc(int64(plan.Device()))
	if err != nil {
		return r, err
	}
	u.later(func() error { return t.Free(at) })
	for i := range s.batchOnGPU() {
		plan.Put(host, i)
	}
	plan.Finish(host, uint64(at), uint64(at)+uint64(plan.Staging), uint64(at)+uint64(plan.Staging+plan.Work))
	stream, err := t.NewStream()
	if err != nil {
		return r, err
	}
	u.later(stream.Close)
	kernels, err := t.Load(gpu.PTX)
	if err != nil {
		return r, err
	}
	u.later(kernels.Close)
	launch := plan.Launches()[0]
	kernel, err := kernels.Function(launch.Kernel)
	if err != nil {
		return r, err
	}
	if err := errors.Join(stream.ToDevice(at, host), stream.Synchronize()); err != nil {
		return r, err
	}
	half := int64(plan.Staging / 2)
	place := s.repeated(stream, traffic, func() error {
		return kernel.Launch(launch.Grid, [3]int{launch.Threads, 1, 1}, launch.Shared, stream, at)
	})
	other, err := t.Alloc(half)
	if err != nil {
		return r, err
	}
	u.later(func() error { return t.Free(other) })
	between := s.repeated(stream, 2*half, func() error { return stream.Copy(other, at, half) })
	figures, err := s.turns(ctx, p.what, s.rounds+1, place, between)
	if err != nil {
		return r, err
	}
	note := fmt.Sprintf("%.0f GB/s, of %.0f", median(figures[0][1:])/1e9, median(figures[1][1:])/1e9)
	return measured("crops to 224, "+p.what+", read and written / copies on the GPU", "x", ratios(figures[0][1:], figures[1][1:]), note).atLeast(0.5), nil
}
