package main

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/batchfs/batchfs/dataset"
	"github.com/batchfs/batchfs/dataset/sample"
	"github.com/batchfs/batchfs/decode"
	"github.com/batchfs/batchfs/internal/parallel"
	"github.com/batchfs/batchfs/pinned"
)

// decodeCeiling measures the fastest this machine's CPUs can decode a dataset: encoded
// bytes in memory, one reused buffer per goroutine, nothing else.
type decodeCeiling struct {
	ds      *dataset.Dataset
	options decode.Options
	memory  *sample.Memory
	encoded []encodedSample
}

// encodedSample is the file of sample id.
type encodedSample struct {
	id    int
	image sample.Image
}

// ceilingBytes bounds the encoded bytes held in memory. From a larger dataset, samples are
// taken at even intervals.
const ceilingBytes = 1 << 30

func loadCeiling(ctx context.Context, ds *dataset.Dataset, o decode.Options, memory *sample.Memory) (*decodeCeiling, error) {
	d := &decodeCeiling{ds: ds, options: o, memory: memory}
	r := sample.NewReader(ds, o, memory)
	defer r.Close()
	step := max(1, (ds.Report().Bytes+ceilingBytes-1)/ceilingBytes)
	for i := 0; i < ds.Len(); i += int(step) {
		if ds.Problem(i) != "" {
			continue
		}
		img, err := r.Read(ctx, i, 0)
		if ctx.Err() != nil {
			return nil, errInterrupted
		}
		if err != nil {
			return nil, badSample(ds.Path(i), err)
		}
		img.Data = append([]byte(nil), img.Data...)
		d.encoded = append(d.encoded, encodedSample{i, img})
	}
	if len(d.encoded) == 0 {
		return nil, errors.New("no image of the dataset can be read")
	}
	return d, nil
}

// measure decodes everything once on the given number of CPUs and returns images per
// second. It repeats a small dataset until the measurement is long enough.
func (d *decodeCeiling) measure(ctx context.Context, cpus int) (float64, error) {
	const least = 500 * time.Millisecond
	var images int64
	start := time.Now()
	for images == 0 || time.Since(start) < least {
		if err := d.pass(ctx, cpus); err != nil {
			return 0, err
		}
		images += int64(len(d.encoded))
	}
	return float64(images) / time.Since(start).Seconds(), nil
}

func (d *decodeCeiling) pass(ctx context.Context, cpus int) error {
	return parallel.Each(ctx, cpus, len(d.encoded), nil, func(ctx context.Context, items iter.Seq[int]) error {
		r := sample.NewReader(d.ds, d.options, d.memory)
		defer r.Close()
		for i := range items {
			if err := r.Decode(d.encoded[i].image); err != nil {
				return badSample(d.ds.Path(d.encoded[i].id), err)
			}
		}
		return nil
	})
}

// plainFile makes a file of the given size in the same kind of memory as batches, or in a
// plain memfd if that is unavailable.
func plainFile(size, limit int64) (*os.File, error) {
	store := pinned.NewStore(limit)
	defer store.Close()
	fd, err := store.File()
	if err != nil {
		fd, err = unix.MemfdCreate("batchfs-bench", unix.MFD_CLOEXEC)
	}
	if err != nil {
		return nil, fmt.Errorf("a file in memory to compare with: %w", err)
	}
	f := os.NewFile(uintptr(fd), "plain")
	// Allocate it all at once, as for batches: huge pages depend on the size.
	if err := errors.Join(f.Truncate(size), unix.Fallocate(fd, 0, 0, size)); err != nil {
		f.Close()
		return nil, fmt.Errorf("a file in memory to compare with: %w", err)
	}
	data := make([]byte, 1<<20)
	for i := range data {
		data[i] = byte(i * 7)
	}
	for at := int64(0); at < size; at += int64(len(data)) {
		if _, err := f.WriteAt(data[:min(int64(len(data)), size-at)], at); err != nil {
			f.Close()
			return nil, err
		}
	}
	return f, nil
}
