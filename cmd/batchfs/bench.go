package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/urfave/cli/v2"
	"golang.org/x/sys/unix"

	"github.com/batchfs/batchfs/dataset"
	"github.com/batchfs/batchfs/decode"
	"github.com/batchfs/batchfs/engine"
	"github.com/batchfs/batchfs/fusefs"
	"github.com/batchfs/batchfs/internal/daemon"
	"github.com/batchfs/batchfs/internal/parallel"
	"github.com/batchfs/batchfs/internal/sample"
	"github.com/batchfs/batchfs/internal/throughput"
	"github.com/batchfs/batchfs/pinned"
)

func benchCommand(c *console) *cli.Command {
	return command("bench DATASET", func(f *flagSet) runner {
		b := &bench{c: c}
		f.check(func() error { return c.remoteReaders(f, &b.engine, &b.source) })
		engineFlags(c, f, &b.engine)
		readPathFlag(f, new(string))
		datasetFlags(f, &b.source)
		f.group = ""
		f.add("rounds", "3", "measure everything `N` times", number(&b.rounds, 1, 1000))
		f.add("batches", "0", "read only the first `N` batches of each shard; 0: the whole epoch", number(&b.batches, 0, 1<<30))
		jsonFlag(c, f, "print one JSON object")
		return c.withDataset(f, &b.source, func(ctx context.Context, ds *dataset.Dataset) (printable, error) {
			b.ds, b.path = ds, f.args[0]
			b.flags = slices.DeleteFunc(f.spelled(), func(word string) bool { // those of this command alone
				name, _, _ := strings.Cut(strings.TrimLeft(word, "-"), "=")
				return group(find(f.flags, name)) == ""
			})
			report, err := b.run(ctx)
			ended, early := errors.AsType[*exec.ExitError](err)
			bad, isBad := errors.AsType[*dataset.FileError](err)
			switch {
			case err != nil && ctx.Err() != nil: // the error follows from that
				err = ctx.Err()
			case early && ended.Stderr != nil: // the daemon said why
				_, _ = c.err.Write(ended.Stderr)
				err = endOf(ended)
			case isBad:
				err = hint(fmt.Errorf("cannot read %s: %s", shown(bad.Path), oneLine(bad.Err.Error())),
					"to list all such files: batchfs verify %s", shellWord(b.path))
			}
			return report, err
		})
	})
}

// bench is one comparison. Each round takes every figure once, one after the other, so that
// a slowdown of the machine affects all of them.
type bench struct {
	c       *console
	path    string
	engine  engine.Options
	flags   []string // of the mounts
	source  dataset.Options
	rounds  int
	batches int // of each shard; 0: all

	program  string // this program, which also runs as the daemon
	ds       *dataset.Dataset
	memory   *sample.Memory
	encoded  []encodedSample // what the ceiling decodes
	readPath string          // of the mounts, as measured
}

// figures are those of one pass over all measurements, by their keys in the report.
type figures map[string]float64

// ways are how batches are read.
var ways = map[string]throughput.Reader{"mapped": throughput.Mapped, "read": throughput.Reading(0, true)}

func (b *bench) run(ctx context.Context) (report benchReport, err error) {
	if b.program, err = os.Executable(); err != nil {
		return report, err
	}
	b.memory = sample.NewMemory(b.engine.MemoryLimit, b.c.machine.cpus)
	if err := b.load(ctx); err != nil {
		return report, err
	}
	bar := b.c.progress("measuring", "rounds")
	defer bar.close()
	rounds := map[string][]float64{}
	for i := range b.rounds {
		bar.report(int64(i), int64(b.rounds))
		round, err := b.round(ctx)
		if err != nil {
			return report, err
		}
		for key, figure := range round {
			rounds[key] = append(rounds[key], figure)
		}
	}
	report = benchReport{"samples": b.ds.Len(), "rounds": b.rounds, "read_path": b.readPath, "decoder": decode.Version()}
	for key, list := range rounds {
		report[key] = throughput.FigureOf(list).Value
	}
	return report, nil
}

// round measures everything once.
func (b *bench) round(ctx context.Context) (figures, error) {
	ceiling, err := b.decode(ctx)
	if err != nil {
		return nil, err
	}
	r := figures{"ceiling_images_per_second": ceiling}
	for name, read := range ways {
		var rate, first float64
		err := b.mounted(ctx, func(m *daemon.Mount) error {
			rate, first, err = b.epoch(ctx, m, read)
			return err
		})
		if err != nil {
			return nil, err
		}
		r[name+"_images_per_second"], r[name+"_ratio"] = rate, rate/ceiling
		if name == "mapped" {
			alone := float64(min(b.engine.BatchSize, b.ds.Len())) / ceiling
			r["first_batch_seconds"], r["first_batch_ratio"] = first, first/alone
		}
	}
	return r, b.mounted(ctx, func(m *daemon.Mount) error { return b.finished(ctx, m, r) })
}

// encodedSample is the file of sample id.
type encodedSample struct {
	id    int
	image sample.Image
}

// ceilingBytes bounds the encoded bytes held in memory. From a larger dataset, samples are
// taken at even intervals.
const ceilingBytes = 1 << 30

// load reads what the ceiling decodes.
func (b *bench) load(ctx context.Context) error {
	r := sample.NewReader(b.ds, b.engine.Decoding, b.memory)
	defer r.Close()
	step := max(1, (b.ds.Report().Bytes+ceilingBytes-1)/ceilingBytes)
	for i := 0; i < b.ds.Len(); i += int(step) {
		if b.ds.Problem(i) != "" {
			continue
		}
		img, err := r.Read(ctx, i, 0)
		if err != nil {
			return &dataset.FileError{Path: b.ds.Path(i), Err: dataset.Reason(err)}
		}
		img.Data = bytes.Clone(img.Data)
		b.encoded = append(b.encoded, encodedSample{i, img})
	}
	if len(b.encoded) == 0 {
		return errors.New("no image of the dataset can be read")
	}
	return nil
}

// decode measures the fastest this machine's CPUs can decode the dataset, in images per second:
// encoded bytes in memory, one reused buffer per goroutine, nothing else. It repeats a small
// dataset until the measurement is long enough.
func (b *bench) decode(ctx context.Context) (float64, error) {
	const least = 500 * time.Millisecond
	images, start := 0, time.Now()
	for images == 0 || time.Since(start) < least {
		err := parallel.Each(ctx, b.c.machine.cpus, len(b.encoded), nil, func(_ context.Context, items iter.Seq[int]) error {
			r := sample.NewReader(b.ds, b.engine.Decoding, b.memory)
			defer r.Close()
			for i := range items {
				if err := r.Decode(b.encoded[i].image); err != nil {
					return &dataset.FileError{Path: b.ds.Path(b.encoded[i].id), Err: err}
				}
			}
			return nil
		})
		if err != nil {
			return 0, err
		}
		images += len(b.encoded)
	}
	return float64(images) / time.Since(start).Seconds(), nil
}

// epoch reads a mount once. It returns images per second, and the seconds until the first
// batch was read.
func (b *bench) epoch(ctx context.Context, m *daemon.Mount, read throughput.Reader) (rate, first float64, err error) {
	images, began := 0.0, time.Now()
	for s := range b.engine.Shards {
		t, err := throughput.NewTraining(m, s, read)
		if err != nil {
			return 0, 0, err
		}
		n := t.Batches
		if b.batches > 0 {
			n = min(n, b.batches)
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
func (b *bench) finished(ctx context.Context, m *daemon.Mount, r figures) error {
	batch, err := os.Open(m.Batch(0, 0, 0))
	if err != nil {
		return err
	}
	defer batch.Close()
	size, err := throughput.Mapped(batch)
	if err != nil || size == 0 {
		return err
	}
	plain, err := plainCopy(batch, size, b.engine.MemoryLimit)
	if err != nil {
		return fmt.Errorf("a file in memory to compare with: %w", err)
	}
	defer plain.Close()
	var before, after fusefs.Stats
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
		r["finished_"+name+"_bytes_per_second"], r["finished_"+name+"_ratio"] = served, served/memory
	}
	err = m.Document(".batchfs/stats.json", &after)
	b.readPath, r["daemon_reads"] = after.ReadPath, float64(after.FUSE.Reads-before.FUSE.Reads)
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
func (b *bench) mounted(ctx context.Context, work func(m *daemon.Mount) error) error {
	// There is no next epoch to prefetch: every measurement ends with an idle engine.
	words := slices.Concat(b.flags, []string{"--epochs=1", "--log-file=" + os.DevNull, "--", b.path})
	m, err := daemon.NewMount(ctx, "", b.program, words...)
	if err != nil {
		return err
	}
	err = work(m)
	lines, _ := os.ReadFile(m.Dir + "/.batchfs/errors.jsonl") // only explains err
	if busy := m.Unmount(ctx); busy != nil {
		_, failed := fusefs.Unmount(m.Dir, true)
		err = errors.Join(err, busy, failed, m.Cmd.Process.Signal(syscall.SIGTERM), os.Remove(m.Dir))
	}
	return because(err, lines)
}

// because takes the reason why a batch could not be opened from the last line of
// errors.jsonl; the kernel reports only EIO.
func because(err error, lines []byte) error {
	lines = bytes.TrimSuffix(lines, []byte("\n"))
	line := lines[bytes.LastIndexByte(lines, '\n')+1:]
	var bad dataset.BadFile
	if !errors.Is(err, unix.EIO) || json.Unmarshal(line, &bad) != nil {
		return err
	}
	return &dataset.FileError{Path: bad.Path, Err: errors.New(bad.Reason)}
}

// benchReport is the JSON output of bench. Rates are medians over the rounds; ratios are
// medians of the per-round ratios.
type benchReport map[string]any

func (r benchReport) print(out io.Writer) {
	t := newTable(out)
	t.row("decoding alone, all CPUs", "%.0f images/s\tthe ceiling: %s", r["ceiling_images_per_second"], r["decoder"])
	t.row("one epoch, mapped", "%.0f images/s\t%.2f of the ceiling", r["mapped_images_per_second"], r["mapped_ratio"])
	t.row("one epoch, by read", "%.0f images/s\t%.2f of the ceiling", r["read_images_per_second"], r["read_ratio"])
	t.row("first batch after the mount", "%.3f s\t%.2f of decoding it alone", r["first_batch_seconds"], r["first_batch_ratio"])
	for _, how := range []struct{ name, key string }{{"mapped", "finished_mapped_"}, {"by read", "finished_read_"}} {
		if bytes, ok := r[how.key+"bytes_per_second"].(float64); ok { // not of an empty batch
			t.row("a finished batch, "+how.name, "%.1f GB/s\t%.2f of a plain file in memory", bytes/1e9, r[how.key+"ratio"])
		}
	}
	t.row("read path", "%s\t", r["read_path"])
	if r["read_path"] == "passthrough" {
		t.row("reads that reached the daemon", "%.0f\t", r["daemon_reads"])
	}
	t.Flush()
}
