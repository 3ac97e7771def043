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
	"github.com/batchfs/batchfs/dataset/sample"
	"github.com/batchfs/batchfs/engine"
)

// leastLoads is the minimum number of files to read, however long that takes.
const leastLoads = 8

// measureLoad returns the seconds to load an image of mean bytes from storage, with as many
// workers as the mount, which read a mix and do nothing else. A share of kept of the images
// is cached and therefore read whole.
func measureLoad(ctx context.Context, ds *dataset.Dataset, mean, kept float64, o *engine.Options, least time.Duration) (float64, error) {
	if o.CachePolicy == cache.Static || o.CachePolicy == cache.TinyLFU {
		kept = 1 // these policies may keep any sample
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
			loader, n := sample.NewLoader(ds, o.Transform, o.Decoding), int64(ds.Len())
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
	// The files read may be larger or smaller than the average of the mix.
	return took * mean / float64(bytes.Load()), nil
}

// bufferAlignment suits direct reads on all common disks.
const bufferAlignment = 64 << 10

func alignedBytes(n int) []byte {
	p := make([]byte, n+bufferAlignment)
	skip := -uintptr(unsafe.Pointer(unsafe.SliceData(p))) & (bufferAlignment - 1)
	return p[skip : int(skip)+n : int(skip)+n]
}
