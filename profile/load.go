package profile

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/batchfs/batchfs/cache"
	"github.com/batchfs/batchfs/dataset"
	"github.com/batchfs/batchfs/engine"
)

// leastLoads is how many files are read at least, however long that takes.
const leastLoads = 8

// measureLoad returns the seconds that an image of mean bytes takes to come from
// storage, with the workers of a mount that read a mix and do nothing else. A share of
// the images are kept in a cache, and so read whole.
func measureLoad(ctx context.Context, ds *dataset.Dataset, mean, kept float64, o *engine.Options, least time.Duration) (float64, error) {
	if o.CachePolicy == cache.Static || o.CachePolicy == cache.TinyLFU {
		kept = 1 // they may keep anything
	}
	var next, bytes atomic.Int64
	errs := make([]error, o.Workers)
	var wait sync.WaitGroup
	started := time.Now()
	for w := range o.Workers {
		wait.Go(func() {
			var buf []byte
			grow := func(n int) []byte {
				if cap(buf) < n {
					buf = alignedBytes(n)
				}
				return buf
			}
			loader, n := engine.NewLoader(ds, o), int64(ds.Len())
			for ctx.Err() == nil {
				k := next.Add(1) - 1
				if k >= leastLoads && time.Since(started) >= least {
					return
				}
				data, _, _, err := loader.Load(int(k/n), k%n, golden(k) < kept, grow, ctx.Done())
				if err != nil {
					errs[w] = err
					return
				}
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
