package gpucheck

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/batchfs/batchfs/decode"
	"github.com/batchfs/batchfs/decode/resample"
	"github.com/batchfs/batchfs/internal/cuda"
	"github.com/batchfs/batchfs/internal/daemon"
	"github.com/batchfs/batchfs/internal/gpu"
	"github.com/batchfs/batchfs/internal/pixels"
	"github.com/batchfs/batchfs/internal/testkit"
	"github.com/batchfs/batchfs/internal/throughput"
	"github.com/batchfs/batchfs/layout"
	"github.com/batchfs/batchfs/pinned"
)

// This file measures. A speed that is too low is only reported, because others may be using the
// GPU.

// A side is one of several whose speeds are compared.
type side struct {
	name string
	turn func() (speed float64, err error)
}

// measure lets sides take turns, so that other work of the machine affects all of them, and reports
// and returns the speeds of each. The first round is a warm-up.
func measure(t *testing.T, unit string, sides ...side) (speeds [][]float64) {
	t.Helper()
	speeds = make([][]float64, len(sides))
	for round := range 1 + *rounds {
		for i, s := range sides {
			speed, err := s.turn()
			if err != nil {
				t.Fatalf("%s: %v", s.name, err)
			}
			if round > 0 {
				speeds[i] = append(speeds[i], speed)
			}
		}
	}
	for i, s := range sides {
		report(t, s.name, unit, speeds[i], 0)
	}
	return speeds
}

// perSecond returns how much of an amount some work does in a second.
func perSecond(amount float64, work func() error) (speed float64, err error) {
	began := time.Now()
	err = work()
	return amount / time.Since(began).Seconds(), err
}

// report logs the median and the range of some values, and whether it reaches a goal; 0: there is
// none.
func report(t *testing.T, what, unit string, values []float64, goal float64) {
	t.Helper()
	median, digits, verdict := throughput.Median(values), 3, ""
	if median >= 1000 {
		digits = 0
	}
	switch {
	case goal > 0 && median >= goal:
		verdict = fmt.Sprintf(" at least %g: met", goal)
	case goal > 0:
		verdict = fmt.Sprintf(" at least %g: MISSED", goal)
	}
	t.Logf("%s %.*f %s%s (%.4g to %.4g)", what, digits, median, unit, verdict, slices.Min(values), slices.Max(values))
}

// ratio reports one speed over another, round by round.
func ratio(t *testing.T, what string, over, under []float64, goal float64) {
	t.Helper()
	values := slices.Clone(over)
	for i := range values {
		values[i] /= under[i]
	}
	report(t, what, "x", values, goal)
}

// repeated is a turn in which a stream does something with a number of bytes again and again. It
// measures GB/s.
func repeated(stream *cuda.Stream, bytes int64, work func() error) func() (float64, error) {
	return func() (float64, error) {
		return perSecond(float64(*repeat)*float64(bytes)/1e9, func() error {
			for range *repeat {
				if err := work(); err != nil {
					return err
				}
			}
			return stream.Synchronize()
		})
	}
}

// unlimited is a budget without a limit.
type unlimited struct{}

func (unlimited) Reserve(int64) bool { return true }
func (unlimited) Release(int64)      {}
func (unlimited) Cancel(int64)       {}

// TestSpeedOfCopies: the memory of batches is copied to the GPU as fast as memory that the driver
// has allocated.
func TestSpeedOfCopies(t *testing.T) {
	device, n := theGPU(t), int64(*images)*224*224*3
	store := pinned.NewStore(4 * n)
	defer store.Close()
	pool := pinned.NewPool(store, unlimited{}, pinned.PoolOptions{Lock: true})
	defer pool.Close()
	var buffers [2][]byte
	for i := range buffers {
		b, err := pool.Get(n)
		testkit.Must(t, err)
		defer b.Release()
		buffers[i] = b.Bytes()
		clear(buffers[i])
	}
	batch, plain := buffers[0], buffers[1]
	err := device.Thread(func(ct *cuda.Thread) error {
		own, err := ct.AllocHost(int(n))
		if err != nil {
			return err
		}
		defer ct.FreeHost(own)
		clear(own)
		if err := ct.Register(batch); err != nil {
			return err
		}
		defer ct.Unregister(batch)
		on, err := ct.Alloc(n)
		if err != nil {
			return err
		}
		defer ct.Free(on)
		stream, err := ct.NewStream()
		if err != nil {
			return err
		}
		defer stream.Close()
		of := func(name string, memory []byte) side {
			return side{name, repeated(stream, n, func() error { return stream.ToDevice(on, memory) })}
		}
		speeds := measure(t, "GB/s", of("copies to the GPU from batch memory", batch),
			of("from cuMemHostAlloc's", own), of("from memory that is not registered", plain))
		ratio(t, "from batch memory / from cuMemHostAlloc's", speeds[0], speeds[1], 0.98)
		return nil
	})
	testkit.Must(t, err)
}

// A placing is something that the kernel bfs_place does.
type placing struct {
	dtype layout.DType
	order layout.Order
}

// plan plans n random-resized-crops of decoded photos. It also returns how many bytes the kernel
// reads and writes: each pixel of a crop, and each element, once.
func (p placing) plan(n int) (plan *gpu.Plan, traffic int64, err error) {
	const height, width, side = 375, 500, 224
	crop := resample.Options{
		Mode: resample.RandomResizedCrop, Height: side, Width: side, Flip: 0.5,
		CropArea: resample.DefaultCropArea, CropRatio: resample.DefaultCropRatio,
	}
	head := decode.Header{Format: decode.PNG, Width: width, Height: height, Orientation: 1}
	var samples []gpu.Sample
	for i := range n {
		job := pixels.Options{}.Plan(head, crop.Choose(0, int64(i), height, width), pixels.Target{})
		samples = append(samples, gpu.Sample{Slot: i, Job: job})
		traffic += int64(job.Height * job.Width * 3)
	}
	tensor, err := tensorOf(n, side, side, p.dtype, p.order)
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

// TestPlacing compares the kernel that crops, resizes and converts with copies on the GPU, by the
// bytes that are read and written.
func TestPlacing(t *testing.T) {
	device := theGPU(t)
	for _, p := range []placing{{layout.Uint8, layout.NHWC}, {layout.Float16, layout.NCHW}} {
		if err := device.Thread(func(ct *cuda.Thread) error { return p.measure(t, ct) }); err != nil {
			t.Error(err)
		}
	}
}

func (p placing) measure(t *testing.T, ct *cuda.Thread) error {
	plan, traffic, err := p.plan(*images)
	if err != nil {
		return err
	}
	stream, err := ct.NewStream()
	if err != nil {
		return err
	}
	defer stream.Close()
	half := int64(plan.Staging / 2)
	at, err := ct.Alloc(int64(plan.Device()))
	if err != nil {
		return err
	}
	defer ct.Free(at)
	other, err := ct.Alloc(half)
	if err != nil {
		return err
	}
	defer ct.Free(other)
	host, err := ct.AllocHost(plan.Staging)
	if err != nil {
		return err
	}
	defer ct.FreeHost(host)
	for i := range *images {
		plan.Put(host, i)
	}
	work := uint64(at) + uint64(plan.Staging)
	plan.Finish(host, uint64(at), work, work+uint64(plan.Work))
	module, err := ct.Load(gpu.PTX)
	if err != nil {
		return err
	}
	defer module.Close()
	launch := plan.Launches()[0]
	function, err := module.Function(launch.Kernel)
	if err == nil {
		err = errors.Join(stream.ToDevice(at, host), stream.Synchronize())
	}
	if err != nil {
		return err
	}
	what := fmt.Sprintf("crops to 224, %v %v", p.dtype, p.order)
	speeds := measure(t, "GB/s", side{what, repeated(stream, traffic, func() error {
		return function.Launch(launch.Grid, [3]int{launch.Threads, 1, 1}, launch.Shared, stream, at)
	})}, side{"copies on the GPU", repeated(stream, 2*half, func() error { return stream.Copy(other, at, half) })})
	ratio(t, what+", read and written / copies on the GPU", speeds[0], speeds[1], 0.5)
	return nil
}

// TestPlacedBytes: the bytes of a crop are counted once when they are read and once when they are
// written.
func TestPlacedBytes(t *testing.T) {
	const n, written = 8, 8 * 224 * 224 * 3
	_, bytes, err := placing{layout.Uint8, layout.NHWC}.plan(n)
	if read := bytes - written; err != nil || read < n*500*375*3*8/100/2 || read > n*500*375*3 {
		t.Errorf("%d bytes are read of %d crops, %v", read, n, err)
	}
	_, doubled, err := placing{layout.Float16, layout.NCHW}.plan(n)
	if err != nil || doubled-bytes != written {
		t.Errorf("float16: %d more bytes than uint8, %v", doubled-bytes, err)
	}
}

// TestSpeedOfOpens measures how long it takes to open batches that are already on the GPU, until
// their address is known.
func TestSpeedOfOpens(t *testing.T) {
	device := theGPU(t)
	m := mounted(t, device)
	var first float64 // in a process that has nothing mapped yet
	var all []float64 // ms
	err := onGPU(device, func(_ *cuda.Thread, r *cudaReader) error {
		for i := range 2 * *repeat {
			path := m.Batch(0, i, 0)
			lease, err := r.open(path) // waits until it is there
			if err != nil {
				return err
			}
			if i == 0 {
				var other sync.WaitGroup
				other.Go(func() {
					err = onGPU(device, func(_ *cuda.Thread, r *cudaReader) (err error) {
						first, err = timeOpen(r, path)
						return err
					})
				})
				other.Wait()
			}
			for range 10 {
				took, failed := timeOpen(r, path)
				all, err = append(all, took), errors.Join(err, failed)
			}
			if err = errors.Join(err, lease.Close()); err != nil {
				return err
			}
		}
		return nil
	})
	testkit.Must(t, err)
	slices.Sort(all)
	const what = "open of .cuda to address"
	t.Logf("%s, p50 %.3f ms, p99 %.3f ms, of %d opens of finished batches", what, all[len(all)/2], all[len(all)*99/100], len(all))
	t.Logf("%s, with its allocation mapped once more: %.3f ms", what, first)
}

// timeOpen times one open, in milliseconds.
func timeOpen(r *cudaReader, path string) (ms float64, err error) {
	began := time.Now()
	f, err := r.open(path)
	ms = 1e3 * time.Since(began).Seconds()
	if err != nil {
		return 0, err
	}
	return ms, f.Close()
}

// TestEpochs reads whole epochs as .cuda, with and without the kernels that decode. While the first
// round is read, the engine finds out the GPU's share.
func TestEpochs(t *testing.T) {
	device := theGPU(t)
	folder, _ := drawn(t, "photo", *photos)
	const what = "random-resized-crop 224 as .cuda: one epoch, --gpu-decode "
	var sides []side
	for _, mode := range []string{"off", "exact"} {
		m := mountedAt(t, device, folder, "--flip", "0.5", "--gpu-decode", mode)
		sides = append(sides, side{what + mode, epochs(t, m)})
	}
	speeds := measure(t, "images/s", sides...)
	ratio(t, "exact / off", speeds[1], speeds[0], 0)
}

// epochs is a turn that reads an epoch: images a second. The mount is stopped between turns.
func epochs(t *testing.T, m *daemon.Mount) func() (float64, error) {
	t.Helper()
	training, err := throughput.NewTraining(m, 0, throughput.Reading(false))
	testkit.Must(t, err)
	if _, err := training.Take(t.Context(), training.Batches); err != nil {
		t.Fatal(err)
	}
	m.Pause()
	return func() (speed float64, err error) {
		err = training.Turn(t.Context(), func() (err error) {
			speed, err = perSecond(float64(training.Samples), func() error {
				_, err := training.Take(t.Context(), training.Batches)
				return err
			})
			return err
		})
		return speed, err
	}
}
