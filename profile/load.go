package profile

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/batchfs/batchfs/dataset"
)

// leastLoads is how many files are read at least, however long that takes.
const leastLoads = 8

// measureLoad returns the seconds that an image of mean bytes takes to come from
// storage, with so many workers that read a mix and do nothing else.
func measureLoad(ctx context.Context, ds *dataset.Dataset, mean float64, workers int, least time.Duration) (float64, error) {
	var next, bytes atomic.Int64
	errs := make([]error, workers)
	var wait sync.WaitGroup
	started := time.Now()
	for w := range workers {
		wait.Go(func() {
			var buf []byte
			grow := func(n int) []byte { return alignedBytes(n) }
			for ctx.Err() == nil {
				k := next.Add(1) - 1
				if k >= leastLoads && time.Since(started) >= least {
					return
				}
				data, _, err := ds.Load(int(k%int64(ds.Len())), buf, grow, ctx.Done())
				if err != nil {
					errs[w] = err
					return
				}
				buf = data
				bytes.Add(int64(len(data)))
			}
		})
	}
	wait.Wait()
	took := time.Since(started).Seconds()
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	if err := errors.Join(errs...); err != nil {
		return 0, err
	}
	// Those that were read may be larger or smaller than the mix's on average.
	return took * mean / float64(bytes.Load()), nil
}

// bufferAlignment suits direct reads on every usual disk.
const bufferAlignment = 64 << 10

func alignedBytes(n int) []byte {
	p := make([]byte, n+bufferAlignment)
	skip := -uintptr(unsafe.Pointer(unsafe.SliceData(p))) & (bufferAlignment - 1)
	return p[skip : int(skip)+n : int(skip)+n]
}
