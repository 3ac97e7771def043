package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"os"
	"path/filepath"
	"runtime/debug"
	"syscall"
	"time"

	"github.com/urfave/cli/v2"
	"golang.org/x/sys/unix"

	"github.com/batchfs/batchfs/dataset"
	"github.com/batchfs/batchfs/engine"
	"github.com/batchfs/batchfs/fusefs"
)

func mountCommand(c *console) *cli.Command {
	return command(cli.Command{
		Name:      "mount",
		Usage:     "mount a dataset's batches as files",
		ArgsUsage: "DATASET MOUNTPOINT",
		Description: "Shows every batch of every epoch as a file, whose bytes are a tensor. DATASET is a folder of class folders of\n" +
			"images, a flat folder of images, or a manifest (.csv, .jsonl, .parquet). Runs until it is unmounted or gets SIGINT\n" +
			"or SIGTERM. A mount that is in use then ends as soon as nobody uses it; a second signal detaches it at once.\n" +
			"Without --memory-limit a mount uses half of the memory that its control group or the machine has, divided by the\n" +
			"number of mounts there, and at most half of what is free when it starts. Whatever its limit, it gives way while\n" +
			"memory is short.",
		Flags: join(orderFlags(), pixelFlags(), pipelineFlags(), treeFlags(), datasetFlags(), logFlags(), []cli.Flag{
			switchFlag(aboutProcess, "daemon", false, "return once the mount is live"),
			&cli.StringSliceFlag{Category: aboutProcess, Name: optionFlagName, Usage: "flags as fstab writes them: `KEY=VALUE,KEY,...`"},
			&cli.IntFlag{Name: readyFlag, Value: -1, Hidden: true},
		}),
		Action: func(ctx *cli.Context) error {
			r, err := c.mountRequest(ctx)
			if err != nil {
				return err
			}
			if r.daemon {
				return c.spawn(ctx.Context)
			}
			return c.mount(ctx.Context, r)
		},
	}, "batchfs mount --batch-size 32 --shards 4 --shuffle --seed 7 photos/ mnt/ &\n"+
		"   python3 -c \"import numpy as np; print(np.load('mnt/shard-0/epoch-0/batch-00000.npy', mmap_mode='r').shape)\"")
}

// mountRequest is one mount as requested, with all flags checked.
type mountRequest struct {
	dataset, mountpoint string // as given
	engine              engine.Options
	tree                fusefs.Options
	source              datasetOptions
	settings            map[string]any // for config.json
	log                 *mountLog
	watched             bool // the log goes to a person at a terminal
	shares              bool // the memory limit is shared with other mounts, since no flag sets it
	daemon              bool
	readyFD             int // -1: no parent waits
}

func (c *console) mountRequest(ctx *cli.Context) (mountRequest, error) {
	v := &flagValues{flags: ctx}
	args := v.arguments("DATASET", "MOUNTPOINT")
	logs := v.logOptions()
	r := mountRequest{
		dataset: args[0], mountpoint: args[1],
		engine: v.engineOptions(c.machine, nil), tree: v.treeOptions(nil),
		shares: !v.given("memory-limit"), daemon: v.on("daemon"), readyFD: ctx.Int(readyFlag),
	}
	r.engine.Epochs = v.epochs()
	c.place(v, &r.engine)
	r.source = v.datasetOptions(r.engine.Workers, nil)
	if v.err != nil {
		return r, v.err
	}
	r.settings = mountSettings(v, r)
	if r.readyFD >= 0 {
		unix.CloseOnExec(r.readyFD)
	}
	if r.daemon {
		return r, nil // the child opens the log
	}
	log, err := c.openLog(logs)
	if err != nil {
		return r, err
	}
	r.log = log
	r.engine.Logger, r.tree.Logger, r.source.log = log.Logger, log.Logger, log.Logger
	r.watched = c.watched(logs)
	return r, nil
}

// mount runs one mount, from checking its mountpoint to its end.
func (c *console) mount(ctx context.Context, r mountRequest) error {
	defer r.log.close()
	c.signals.serve(syscall.SIGHUP, r.log.reopen)
	c.signals.serve(syscall.SIGPIPE, func() {}) // the reader of the log may be gone

	if err := c.prepareMountpoint(r.mountpoint, r.dataset); err != nil {
		return err
	}
	ds, err := c.openDataset(ctx, r.dataset, r.source)
	if err != nil {
		return err
	}
	limitHeap(ds.MemoryBytes(), r.engine.MemoryLimit)
	e, err := engine.New(ds, r.engine)
	if err != nil {
		return errors.Join(optionError(r.dataset, err), ds.Close())
	}
	signals := c.signals.take() // from here on, the mount must be unmounted
	c.warnOfNothing(r, ds.Len(), e)
	sayIgnored(ds, c.tell(r))
	c.warnOfLimit(r)
	stopWatching := c.watchMemory(r, e)
	end := func() error {
		stopWatching()
		err := e.Close()
		if errors.Is(err, engine.ErrLeftBehind) {
			// The reads left behind end with this process; until then they use the dataset.
			r.engine.Logger.Warn("storage does not answer; not waiting for it any longer", "reason", err)
			return nil
		}
		return errors.Join(err, ds.Close())
	}
	m, err := c.serve(r, e)
	if err != nil {
		return errors.Join(err, end())
	}
	c.machine.addProcessors(r.engine.Workers)
	if err := c.announce(r, ds, m); err != nil {
		return errors.Join(err, m.Unmount(), end())
	}
	closed, err := attend(m, signals, c.tell(r))
	c.env.notify("STOPPING=1")
	c.sayHint(r, e.Stats().Buffers)
	if !closed || err != nil {
		// Readers may still hold batches or wait for some being decoded. Memory and files
		// are freed when the process ends.
		return err
	}
	return c.finish(r, end, signals)
}

// finish releases a mount's resources but does not wait for storage that hangs: the mount
// is gone, and the rest ends with the process.
func (c *console) finish(r mountRequest, end func() error, signals <-chan os.Signal) error {
	const long = 5 * time.Second
	ended := make(chan error, 1)
	go func() { ended <- end() }()
	select {
	case err := <-ended:
		return err
	case <-signals:
	case <-time.After(long):
	}
	c.tell(r)("the mount has ended; reads for which the storage has no answer were left behind", "")
	return nil
}

// warnOfNothing warns that every epoch is empty: no shard has a full batch, and partial
// ones are dropped.
func (c *console) warnOfNothing(r mountRequest, samples int, e *engine.Engine) {
	if e.Catalog().MaxBatches > 0 {
		return
	}
	c.tell(r)(fmt.Sprintf("every epoch has 0 batches: a shard has %s, less than --batch-size %d, and --last-batch drop leaves them out",
		count(samples/r.engine.Shards, "sample"), r.engine.BatchSize), "a smaller --batch-size, or --last-batch fill")
}

// serve makes the mount live.
func (c *console) serve(r mountRequest, e *engine.Engine) (*fusefs.Session, error) {
	config, err := json.MarshalIndent(r.settings, "", "  ")
	if err != nil {
		return nil, err
	}
	r.tree.Config = append(config, '\n')
	r.tree.FsName = absolute(r.dataset)
	m, err := fusefs.Mount(r.mountpoint, e, r.tree)
	if err != nil {
		return nil, mountError(r.tree.ReadPath, err)
	}
	return m, nil
}

// announce reports that the mount is live: to a person at a terminal, to systemd, and to
// the process that started this daemon.
func (c *console) announce(r mountRequest, ds *dataset.Dataset, m *fusefs.Session) error {
	if interactive(c.out) {
		c.welcome(r, ds, m.ReadPath())
	}
	c.env.notify("READY=1")
	if r.readyFD < 0 {
		return nil
	}
	return detach(r.readyFD, r.log.file)
}

func (c *console) welcome(r mountRequest, ds *dataset.Dataset, readPath string) {
	report := ds.Report()
	c.printf("%s: %s", r.dataset, count(int64(ds.Len()), "image"))
	if n := len(ds.Classes()); n > 0 {
		c.printf(" in %s", count(int64(n), "class"))
	}
	if report.Unreadable > 0 {
		c.printf(", %d of them unreadable (batchfs verify %s)", report.Unreadable, shellWord(r.dataset))
	}
	c.printf("\nmounted at %s, read path: %s\n", r.mountpoint, readPath)
	first := filepath.Join(r.mountpoint, "shard-0", "epoch-0")
	c.printf("try    ls %s\n", shellWord(first))
	c.printf("       python3 -c \"import numpy as np; print(np.load('%s', mmap_mode='r').shape)\"\n", filepath.Join(first, "batch-00000.npy"))
	c.printf("stop   batchfs umount %s", shellWord(r.mountpoint))
	if r.readyFD < 0 {
		c.printf(", or Ctrl-C")
	}
	c.printf("\n")
}

// limitHeap bounds the garbage on the Go heap. Batches do not live there, but the index
// does; collecting only at twice its size would double it.
func limitHeap(index, limit int64) {
	// For requests, scratch memory of Go's own decoders, and documents. Below least, the
	// collector would run all the time.
	const least, most = 24 << 20, 96 << 20
	rest := min(max(limit/4, least), most)
	debug.SetMemoryLimit(min(math.MaxInt64/2, index+index/8+rest))
	debug.FreeOSMemory() // garbage from reading the index
}

// mountSettings is the content of config.json: the settings given and the ones derived.
func mountSettings(v *flagValues, r mountRequest) map[string]any {
	flags := map[string]any{}
	for _, f := range v.flags.Command.Flags {
		name := f.Names()[0]
		switch f.(type) {
		case *cli.BoolFlag:
			flags[name] = v.on(name)
		case *cli.StringFlag:
			flags[name] = v.text(name)
		}
	}
	delete(flags, "help")
	delete(flags, "daemon")
	flags["workers"], flags["batch-workers"] = r.engine.Workers, r.engine.BatchWorkers
	flags["memory-limit"] = r.engine.MemoryLimit
	flags["uid"], flags["gid"] = r.tree.UID, r.tree.GID
	return map[string]any{
		"version": version(), "pid": os.Getpid(),
		"dataset": absolute(r.dataset), "mountpoint": absolute(r.mountpoint), "flags": flags,
	}
}

func absolute(path string) string {
	if abs, err := filepath.Abs(path); err == nil {
		return abs
	}
	return path
}

// discardLog is for commands whose own output says everything.
func discardLog() *slog.Logger { return slog.New(slog.DiscardHandler) }
