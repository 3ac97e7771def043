package gpucheck

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/batchfs/batchfs/internal/cuda"
	"github.com/batchfs/batchfs/pinned"
)

// unlimited is a budget without a limit.
type unlimited struct{}

func (unlimited) Reserve(int64) bool { return true }
func (unlimited) Release(int64)      {}
func (unlimited) Cancel(int64)       {}

// TestCopies: what is copied to the GPU is what readers of host memory get, whether processors or
// the GPU decode.
func TestCopies(t *testing.T) {
	device := theGPU(t)
	for _, decoder := range []string{"off", "exact"} {
		t.Run(decoder, func(t *testing.T) {
			m := mounted(t, device, "--gpu-decode", decoder)
			if err := same(device, m.Batch(0, 0, 0), m.Batch(0, 1, 0), m.Batch(0, 2, 0)); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestSpeedOfCopies: the memory of batches is copied to the GPU as fast as memory of the driver's
// own. What is too slow is only reported: others may use the GPU.
func TestSpeedOfCopies(t *testing.T) {
	const rounds, repeat, goal = 6, 50, 0.98 // the first round is a warm-up
	device, n := theGPU(t), int64(*images)*224*224*3
	store := pinned.NewStore(4 * n)
	defer store.Close()
	pool := pinned.NewPool(store, unlimited{}, pinned.PoolOptions{Lock: true})
	defer pool.Close()
	var buffers [2]*pinned.Buffer
	for i := range buffers {
		var err error
		if buffers[i], err = pool.Get(n); err != nil {
			t.Fatal(err)
		}
		defer buffers[i].Release()
		clear(buffers[i].Bytes())
	}
	batch, plain := buffers[0].Bytes(), buffers[1].Bytes()
	speeds := map[string][]float64{} // GB/s
	err := device.Thread(func(ct *cuda.Thread) (err error) {
		own, err := ct.AllocHost(int(n))
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, ct.FreeHost(own)) }()
		clear(own)
		if err := ct.Register(batch, cuda.Portable); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, ct.Unregister(batch)) }()
		on, err := ct.Alloc(n)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, ct.Free(on)) }()
		stream, err := ct.NewStream()
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, stream.Close()) }()
		for range rounds {
			for name, memory := range map[string][]byte{"own": own, "batch": batch, "plain": plain} {
				began := time.Now()
				for range repeat {
					if err := stream.ToDevice(on, memory); err != nil {
						return err
					}
				}
				if err := stream.Synchronize(); err != nil {
					return err
				}
				speeds[name] = append(speeds[name], float64(n)*repeat/1e9/time.Since(began).Seconds())
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	median := func(name string) float64 { return slices.Sorted(slices.Values(speeds[name][1:]))[(rounds-1)/2] }
	verdict := "MISSED"
	if median("batch")/median("own") >= goal {
		verdict = "met"
	}
	t.Logf("copies to the GPU from batch memory / from cuMemHostAlloc's: %.3f, at least %v: %s, %.1f GB/s",
		median("batch")/median("own"), goal, verdict, median("batch"))
	t.Logf("    from memory that is not registered: %.1f GB/s", median("plain"))
}
