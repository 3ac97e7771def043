package profile

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/batchfs/batchfs/decode"
	"github.com/batchfs/batchfs/internal/daemon"
	"github.com/batchfs/batchfs/internal/dataset"
	"github.com/batchfs/batchfs/internal/engine"
	"github.com/batchfs/batchfs/internal/parallel"
	"github.com/batchfs/batchfs/internal/sample"
	"github.com/batchfs/batchfs/internal/throughput"
	"github.com/batchfs/batchfs/pinned"
)

// A Comparison measures mounts of a dataset, and this machine's limits. Each round takes every
// figure once, one after the other, so that a slowdown of the machine affects all of them.
//
// Rates of the report are medians over the rounds; ratios are medians of the per-round ratios.
type Comparison struct {
	Dataset  *dataset.Dataset
	Path     string         // path of the dataset, as a mount has it
	Program  string         // runs the mounts
	Engine   engine.Options // of the mounts
	Flags    []string       // the same options as flags
	Batches  int            // batches of each shard to read; 0: all
	Rounds   int
	Progress func(done, total int64)

	memory   *sample.Memory
	encoded  []encodedSample      // what the ceiling decodes
	readPath string               // of the mounts, as measured
	figures  map[string][]float64 // one value per round, by key in the report
}

// ways are how batches are read.
var ways = map[string]throughput.Reader{"mapped": throughput.Mapped, "read": throughput.Reading(true)}

// Run measures everything.
func (c *Comparison) Run(ctx context.Context) (map[string]any, error) {
	c.memory, c.figures = sample.NewMemory(c.Engine.MemoryLimit, c.Engine.CPUs), map[string][]float64{}
	if err := c.load(ctx); err != nil {
		return nil, err
	}
	for i := range c.Rounds {
		c.Progress(int64(i), int64(c.Rounds))
		if err := c.round(ctx); err != nil {
			return nil, err
		}
	}
	report := map[string]any{"samples": c.Dataset.Len(), "rounds": c.Rounds, "read_path": c.readPath, "decoder": decode.Version()}
	for key, list := range c.figures {
		report[key] = throughput.Median(list)
	}
	return report, nil
}

// add adds a figure, in a unit, and its ratio to another figure.
func (c *Comparison) add(key, unit string, x, to float64) {
	c.figures[key+unit], c.figures[key+"_ratio"] = append(c.figures[key+unit], x), append(c.figures[key+"_ratio"], x/to)
}

// round measures everything once.
func (c *Comparison) round(ctx context.Context) error {
	ceiling, err := c.decode(ctx)
	if err != nil {
		return err
	}
	c.figures["ceiling_images_per_second"] = append(c.figures["ceiling_images_per_second"], ceiling)
	for name, read := range ways {
		var rate, first float64
		err := c.mounted(ctx, func(m *daemon.Mount) error {
			rate, first, err = c.epoch(ctx, m, read)
			return err
		})
		if err != nil {
			return err
		}
		if c.add(name, "_images_per_second", rate, ceiling); name == "mapped" {
			c.add("first_batch", "_seconds", first, float64(min(c.Engine.BatchSize, c.Dataset.Len()))/ceiling)
		}
	}
	return c.mounted(ctx, func(m *daemon.Mount) error { return c.finished(ctx, m) })
}

// encodedSample is the file of sample id.
type encodedSample struct {
	id    int
	image sample.Image
}

// ceilingBytes limits the encoded bytes in memory. From a larger dataset, samples are taken at even
// intervals.
const ceilingBytes = 1 << 30

// load reads the samples that the ceiling decodes.
func (c *Comparison) load(ctx context.Context) error {
	r := sample.NewReader(c.Dataset, c.Engine.Decoding, c.memory)
	defer r.Close()
	step := max(1, (c.Dataset.Report.Bytes+ceilingBytes-1)/ceilingBytes)
	for i := 0; i < c.Dataset.Len(); i += int(step) {
		if reason := c.Dataset.Problem(i); reason != "" && c.Engine.OnError == engine.Fail {
			return &dataset.FileError{Path: c.Dataset.Path(i), Err: errors.New(reason)}
		} else if reason != "" {
			continue
		}
		img, err := r.Read(ctx, i, 0)
		if err != nil {
			return &dataset.FileError{Path: c.Dataset.Path(i), Err: dataset.Reason(err)}
		}
		img.Data = bytes.Clone(img.Data)
		c.encoded = append(c.encoded, encodedSample{i, img})
	}
	if len(c.encoded) == 0 {
		return errors.New("no image of the dataset can be read")
	}
	return nil
}

// decode measures how fast this machine's CPUs can decode the dataset at most, in images per
// second: encoded bytes in memory, one reused buffer per goroutine, nothing else. It repeats a
// small dataset until the measurement is long enough.
func (c *Comparison) decode(ctx context.Context) (float64, error) {
	const least = 500 * time.Millisecond
	images, start := 0, time.Now()
	for images == 0 || time.Since(start) < least {
		err := parallel.Each(ctx, c.Engine.CPUs, len(c.encoded), nil, func(_ context.Context, items iter.Seq[int]) error {
			r := sample.NewReader(c.Dataset, c.Engine.Decoding, c.memory)
			defer r.Close()
			for i := range items {
				if err := r.Decode(c.encoded[i].image); err != nil && c.Engine.OnError == engine.Fail {
					return &dataset.FileError{Path: c.Dataset.Path(c.encoded[i].id), Err: err}
				}
			}
			return nil
		})
		if err != nil {
			return 0, err
		}
		images += len(c.encoded)
	}
	return float64(images) / time.Since(start).Seconds(), nil
}

// epoch reads a mount once. It returns images per second, and the seconds until the first
// batch was read.
func (c *Comparison) epoch(ctx context.Context, m *daemon.Mount, read throughput.Reader) (rate, first float64, err error) {
	images, began := 0.0, time.Now()
	for s := range c.Engine.Shards {
		t, err := throughput.NewTraining(m, s, read)
		if err != nil {
			return 0, 0, err
		}
		n := t.Batches
		if c.Batches > 0 {
			n = min(n, c.Batches)
		}
		if s == 0 {
			began = time.Now()
			if _, err := t.Take(ctx, 1); err != nil {
				return 0, 0, err
			}
			first = time.Since(began).Seconds()
		}
		if _, err := t.Take(ctx, n-t.Next); err != nil {
			return 0, 0, err
		}
		images += float64(t.Samples) * float64(n) / float64(t.Batches)
	}
	return images / time.Since(began).Seconds(), first, nil
}

// finishedBytes is the number of bytes of a finished batch read for one figure.
const finishedBytes = 2 << 30

// finished compares reading a finished batch with reading the same bytes from a plain file.
func (c *Comparison) finished(ctx context.Context, m *daemon.Mount) error {
	batch, err := os.Open(m.Batch(0, 0, 0))
	if err != nil {
		return err
	}
	defer batch.Close()
	size, err := throughput.Mapped(batch)
	if err != nil || size == 0 {
		return err
	}
	plain, err := plainCopy(batch, size, c.Engine.MemoryLimit)
	if err != nil {
		return fmt.Errorf("a file in memory to compare with: %w", err)
	}
	defer plain.Close()
	var before, after struct {
		ReadPath string `json:"read_path"`
		FUSE     struct{ Reads int64 }
	}
	if err := m.Document(".batchfs/stats.json", &before); err != nil {
		return err
	}
	repeat := int(max(4, finishedBytes/size))
	for name, read := range ways {
		served, err := read.Speed(ctx, batch, repeat)
		if err != nil {
			return err
		}
		memory, err := read.Speed(ctx, plain, repeat)
		if err != nil {
			return err
		}
		c.add("finished_"+name, "_bytes_per_second", served, memory)
	}
	err = m.Document(".batchfs/stats.json", &after)
	c.readPath = after.ReadPath
	c.figures["daemon_reads"] = append(c.figures["daemon_reads"], float64(after.FUSE.Reads-before.FUSE.Reads))
	return err
}

// plainCopy copies a batch to the same kind of memory as batches have, or to a plain memfd if
// that is unavailable.
func plainCopy(batch *os.File, size, limit int64) (*os.File, error) {
	store := pinned.NewStore(limit)
	defer store.Close()
	fd, err := store.File()
	if err != nil {
		fd, err = unix.MemfdCreate("batchfs-bench", unix.MFD_CLOEXEC)
	}
	if err != nil {
		return nil, err
	}
	f := os.NewFile(uintptr(fd), "plain")
	// Allocate it all at once, as for batches: huge pages depend on the size.
	if err = errors.Join(f.Truncate(size), unix.Fallocate(fd, 0, 0, size)); err == nil {
		_, err = io.Copy(f, batch)
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// mounted runs work on a fresh mount.
func (c *Comparison) mounted(ctx context.Context, work func(m *daemon.Mount) error) error {
	// There is no next epoch to prefetch: every measurement ends with an idle engine.
	words := slices.Concat(c.Flags, []string{"--epochs=1", "--log-file=" + os.DevNull, "--", c.Path})
	m, err := daemon.NewMount(ctx, "", c.Program, words...)
	if err != nil {
		return err
	}
	err = work(m)
	if busy := m.Unmount(ctx); busy != nil {
		err = errors.Join(err, busy, m.Detach())
	}
	return err
}
