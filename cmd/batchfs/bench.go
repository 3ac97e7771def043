package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/urfave/cli/v2"
	"golang.org/x/sys/unix"

	"github.com/batchfs/batchfs/dataset"
	"github.com/batchfs/batchfs/dataset/sample"
	"github.com/batchfs/batchfs/decode"
	"github.com/batchfs/batchfs/engine"
	"github.com/batchfs/batchfs/fusefs"
)

func benchCommand(c *console) *cli.Command {
	return command(cli.Command{
		Name:      "bench",
		Usage:     "read an epoch from another process and compare with what the machine could do at best",
		ArgsUsage: "DATASET",
		Description: "Mounts the dataset in a temporary directory and reads one epoch of every shard from another process, mapped and\n" +
			"by read, touching every byte. Beside it, in the same rounds: the same files decoded by all CPUs into one reused\n" +
			"buffer each and nothing else, and a finished batch's bytes in an ordinary file in memory. Medians are printed.",
		Flags: join(orderFlags(), pixelFlags(), pipelineFlags(), datasetFlags(), []cli.Flag{
			setting("", "rounds", "3", "measure everything `N` times"),
			setting("", "batches", "0", "read only the first `N` batches of each shard; 0: the whole epoch"),
			jsonFlag("print one JSON object"),
		}),
		Action: func(ctx *cli.Context) error {
			v := &flagValues{flags: ctx}
			args := v.arguments("DATASET")
			b := bench{
				c: c, path: args[0], engine: v.engineOptions(c.machine, discardLog()), readPath: v.readPath(),
				rounds: int(v.number("rounds", 1, 1000)), batches: int(v.number("batches", 0, 1<<30)),
			}
			c.place(v, &b.engine)
			b.engine.Epochs = 1 // no next epoch to prefetch: every measurement ends with an idle engine
			b.source = v.datasetOptions(b.engine.Workers, discardLog())
			if v.err != nil {
				return v.err
			}
			report, err := b.run(ctx.Context)
			if err != nil {
				return err
			}
			return show(c.out, report, v.on("json"))
		},
	}, "batchfs bench --batch-size 64 photos/")
}

// bench is one comparison. Each round takes every figure once, one after the other, so that
// a slowdown of the machine affects all of them.
type bench struct {
	c        *console
	path     string
	engine   engine.Options
	readPath string
	source   datasetOptions
	rounds   int
	batches  int // of each shard; 0: all

	ds      *dataset.Dataset
	program string // this program, which also runs as the reading process
	ceiling *decodeCeiling
	rounded []round
}

// round holds the figures of one pass over all measurements.
type round struct {
	ceiling        float64 // images/s
	mapped, read   readReport
	finishedMapped float64 // bytes/s
	finishedRead   float64
	plainMapped    float64
	plainRead      float64
	readPath       string
	daemonReads    int64
}

func (b *bench) run(ctx context.Context) (benchReport, error) {
	var err error
	if b.program, err = os.Executable(); err != nil {
		return benchReport{}, err
	}
	if b.ds, err = b.c.openDataset(ctx, b.path, b.source); err != nil {
		return benchReport{}, err
	}
	defer b.ds.Close()
	b.ceiling, err = loadCeiling(ctx, b.ds, decode.Options{
		Color: b.engine.Decoding.Color, IgnoreOrientation: b.engine.Decoding.IgnoreOrientation, MaxPixels: b.engine.Decoding.MaxPixels,
	}, sample.NewMemory(b.engine.MemoryLimit, b.c.machine.cpus))
	if err != nil {
		return benchReport{}, b.withVerify(err)
	}
	bar := b.c.progress("measuring", "rounds")
	defer bar.close()
	for i := range b.rounds {
		bar.report(int64(i), int64(b.rounds))
		r, err := b.round(ctx)
		if ctx.Err() != nil {
			return benchReport{}, errInterrupted
		}
		if err != nil {
			return benchReport{}, b.withVerify(err)
		}
		b.rounded = append(b.rounded, r)
	}
	return b.report(), nil
}

func (b *bench) round(ctx context.Context) (r round, err error) {
	if r.ceiling, err = b.ceiling.measure(ctx, b.c.machine.cpus); err != nil {
		return r, err
	}
	if r.mapped, err = b.epoch(ctx, "map"); err != nil {
		return r, err
	}
	if r.read, err = b.epoch(ctx, "read"); err != nil {
		return r, err
	}
	return r, b.finished(ctx, &r)
}

// epoch mounts the dataset and reads it once.
func (b *bench) epoch(ctx context.Context, how string) (report readReport, err error) {
	err = b.mounted(func(dir string) error {
		args := []string{"--how", how, "--batches", strconv.Itoa(b.batches)}
		for s := range b.engine.Shards {
			args = append(args, filepath.Join(dir, "shard-"+strconv.Itoa(s), "epoch-0"))
		}
		report, err = b.reader(ctx, nil, args...)
		return err
	})
	return report, err
}

// finished compares reading a finished batch with reading the same bytes from a plain file.
func (b *bench) finished(ctx context.Context, r *round) error {
	return b.mounted(func(dir string) error {
		batch := filepath.Join(dir, "shard-0", "epoch-0", "batch-00000.nhwc")
		warm, err := b.reader(ctx, nil, batch)
		if err != nil || warm.Bytes == 0 {
			return err
		}
		plain, err := plainFile(warm.Bytes, b.engine.MemoryLimit)
		if err != nil {
			return err
		}
		defer plain.Close()
		const inherited = "/proc/self/fd/3"
		var before, after fusefs.Stats
		if err := b.child(ctx, nil, &before, "stats", "--json", dir); err != nil {
			return err
		}
		repeat := strconv.FormatInt(max(4, finishedBytes/warm.Bytes), 10)
		for _, one := range []struct {
			how, path string
			into      *float64
		}{
			{"map", batch, &r.finishedMapped}, {"map", inherited, &r.plainMapped},
			{"read", batch, &r.finishedRead}, {"read", inherited, &r.plainRead},
		} {
			report, err := b.reader(ctx, plain, "--how", one.how, "--repeat", repeat, one.path)
			if err != nil {
				return err
			}
			*one.into = report.BytesPerSecond
		}
		err = b.child(ctx, nil, &after, "stats", "--json", dir)
		r.readPath, r.daemonReads = after.ReadPath, after.FUSE.Reads-before.FUSE.Reads
		return err
	})
}

// finishedBytes is the number of bytes of a finished batch read for one figure.
const finishedBytes = 2 << 30

// mounted runs work on a fresh mount in its own directory.
func (b *bench) mounted(work func(dir string) error) (err error) {
	dir, err := os.MkdirTemp("", "batchfs-bench-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.Remove(dir)) }()
	e, err := engine.New(b.ds, b.engine)
	if err != nil {
		return optionError(b.path, err)
	}
	defer func() { err = errors.Join(err, e.Close()) }()
	m, err := fusefs.Mount(dir, e, temporaryTree(b.readPath))
	if err != nil {
		return mountError(b.readPath, err)
	}
	defer b.c.signals.own(m)()
	defer func() {
		if busy := m.Unmount(); busy != nil {
			err = errors.Join(err, busy, m.Detach())
		}
	}()
	return because(work(dir), e.Errors())
}

// errBadSample means that a sample cannot be read, so the dataset cannot be measured.
var errBadSample = errors.New("cannot read")

func badSample(path string, reason error) error {
	return fmt.Errorf("%w %s: %s", errBadSample, shown(path), reasonOf(reason))
}

// because takes the reason why the reading process could not open a batch from the last
// sample found bad; the kernel reports only EIO.
func because(err error, found []engine.BadSample) error {
	if err == nil || len(found) == 0 || !strings.Contains(err.Error(), unix.EIO.Error()) {
		return err
	}
	last := found[len(found)-1]
	return badSample(last.Path, errors.New(last.Reason))
}

// withVerify adds a hint to an error about an unreadable image.
func (b *bench) withVerify(err error) error {
	if errors.Is(err, errBadSample) {
		return hint(err, "to list all such files: batchfs verify %s", shellWord(b.path))
	}
	return err
}

// reader runs the reading process, which inherits inherit as descriptor 3.
func (b *bench) reader(ctx context.Context, inherit *os.File, args ...string) (r readReport, err error) {
	err = b.child(ctx, inherit, &r, append([]string{"read", "--json"}, args...)...)
	return r, err
}

// child runs a command of this program that prints JSON. Everything that accesses the mount
// runs in such a child: a process that reads its own mount can deadlock.
func (b *bench) child(ctx context.Context, inherit *os.File, into any, args ...string) error {
	child := exec.CommandContext(ctx, b.program, args...)
	child.Args[0] = "batchfs"
	if inherit != nil {
		child.ExtraFiles = []*os.File{inherit}
	}
	text, err := child.Output()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		words, _, _ := strings.Cut(string(exit.Stderr), "\n") // drop the hint, which is not about this command
		return fmt.Errorf("batchfs %s failed: %s", args[0], strings.TrimPrefix(words, "batchfs: error: "))
	}
	if err != nil {
		return fmt.Errorf("run batchfs %s: %w", args[0], err)
	}
	return json.Unmarshal(text, into)
}
