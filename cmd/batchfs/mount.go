package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/urfave/cli/v2"
	"golang.org/x/sys/unix"

	"github.com/batchfs/batchfs/fusefs"
	"github.com/batchfs/batchfs/internal/annotation"
	"github.com/batchfs/batchfs/internal/dataset"
	"github.com/batchfs/batchfs/internal/engine"
	"github.com/batchfs/batchfs/internal/gpu"
	"github.com/batchfs/batchfs/internal/machine"
	"github.com/batchfs/batchfs/internal/store"
	"github.com/batchfs/batchfs/layout"
	"github.com/batchfs/batchfs/shard"
)

func mountCommand(c *console) *cli.Command {
	return command("mount DATASET MOUNTPOINT", func(f *flagSet) runner {
		r := newMountRequest(c, f)
		return func(ctx context.Context, args []string) error {
			switch {
			case r.daemon:
				return c.spawn(ctx, r.owner, f.spelled(), args)
			case r.owner != nil:
				c.signals.follow(r.owner)
			}
			var err error
			if r.log, err = c.openLog(r.logs); err != nil {
				return err
			}
			r.engine.Logger, r.tree.Logger, r.source.Logger = r.log.Logger, r.log.Logger, r.log.Logger
			r.engine.Remedy = remedy
			return r.mount(ctx)
		}
	})
}

// mountRequest is one mount as requested.
type mountRequest struct {
	*console
	dataset, mountpoint string // as given
	engine              engine.Options
	tree                fusefs.Options
	source              dataset.Options
	targets             annotation.Options
	annotated           string // in words
	gpu                 gpuRequest
	settings            map[string]any // content of config.json
	logs                logOptions
	log                 *mountLog
	shares              bool // no flag sets the memory limit, so it is shared with other mounts
	daemon              bool
	child               bool     // a process waits until the mount is live
	ownerFD             int      // -1: it has no owner
	owner               *os.File // when it ends, the mount is asked to end; nil: it has no owner
	temporary           bool     // remove the mountpoint with the mount
}

// newMountRequest defines the flags of a mount.
func newMountRequest(c *console, f *flagSet) *mountRequest {
	r := &mountRequest{console: c}
	f.check(func() error { return c.remoteReaders(f, &r.engine, &r.source) })
	batchFlags(c, f, &r.engine, &r.source, &r.gpu, &r.tree.ReadPath)
	datasetFlags(f, &r.source)
	targetFlags(f, &r.targets, &r.source)
	treeFlags(f, &r.tree)
	logFlags(f, &r.logs)
	f.toggle(&r.daemon, "daemon", false, "return once the mount is live").everyday()
	f.flags = append(f.flags, &cli.GenericFlag{Name: optionFlag, Aliases: []string{"o"}, Value: expanded{},
		Usage: "flags as in fstab, `LIST`: KEY=VALUE,KEY,...", Category: f.group})
	f.group = internal
	f.toggle(&r.child, childFlag, false, "")
	f.add(ownerFlag, "-1", "`FD`", number(&r.ownerFD, -1, math.MaxInt32))
	f.toggle(&r.temporary, temporaryFlag, false, "")
	f.check(func() error { return r.complete(f) })
	return r
}

// complete derives settings that depend on several flags.
func (r *mountRequest) complete(f *flagSet) error {
	r.dataset, r.mountpoint = f.args[0], f.args[1]
	r.shares, r.engine.StrictEntries = !f.Changed("memory-limit"), f.Changed(entryFlag)
	if r.ownerFD >= 0 {
		unix.CloseOnExec(r.ownerFD)
		r.owner = os.NewFile(uintptr(r.ownerFD), "owner")
	}
	r.source.Memory = r.engine.MemoryLimit / 4
	policy := f.text("cache-policy")
	r.source.Storage.LocalCache.Samples = policy == "constant" || policy == "none"
	if !f.Changed("list") { // the tensor whose shape is that of .json
		f.setting("list").store(f.text("layout") + ",labels.npy,json")
		r.tree.ListTargets = true
	}
	if names := r.tree.ListNames; names != nil && !r.targets.Kinds.Any("arrays") {
		return usage("--list: batches have no .%s.npy; an array of this name needs --targets arrays", names[0])
	}
	r.tree.OnlyLocal = f.Changed("rank")
	r.settings = r.described(f)
	return nil
}

// mount runs one mount, from checking its mountpoint to its end.
func (r *mountRequest) mount(ctx context.Context) error {
	defer r.log.close()
	if r.temporary { // a daemon leaves the directory that the path may be relative to
		defer os.Remove(absolute(r.mountpoint))
	}
	r.signals.serve(syscall.SIGHUP, r.log.reopen)
	r.signals.serve(syscall.SIGPIPE, func() {}) // the reader of the log may be gone

	if err := r.prepareMountpoint(r.mountpoint, r.dataset); err != nil {
		return err
	}
	var opened []func() error
	end := func(err error) error {
		for _, closeIt := range slices.Backward(opened) {
			failed := closeIt()
			if errors.Is(failed, engine.ErrLeftBehind) {
				// The reads left behind end with this process; until then they use the dataset.
				r.log.Warn("storage or the GPU does not answer; not waiting for it any longer", "reason", failed)
				return err
			}
			err = errors.Join(err, failed)
		}
		return err
	}
	a, err := r.openTargets(ctx)
	if err != nil {
		return err
	}
	ds := a.Images
	opened = append(opened, a.Close)
	apart := ds.Entries
	if m := r.engine.Masks; m != nil && m.Dataset != nil {
		apart = append(apart, m.Dataset.Name)
	}
	for _, name := range apart {
		if err := fusefs.CheckApart(r.mountpoint, name); err != nil {
			return end(mountpointError(r.mountpoint, err))
		}
	}
	if r.settings[gpuFlag], err = r.gpu.open(&r.engine, r.tree.List); err != nil {
		return end(err)
	}
	opened = append(opened, func() error {
		closeDevice(&r.engine)
		return nil
	})
	machine.LimitHeap(ds.MemoryBytes()+ds.RequestBytes()+r.engine.Options.MemoryBytes(), r.engine.MemoryLimit, ds.Remote)
	e, err := engine.New(ds, r.engine)
	if err != nil {
		return end(unfit(r.dataset, err))
	}
	opened = append(opened, e.Close)
	if err := r.checkRoom(e); err != nil {
		return end(err)
	}
	signals := r.signals.forward() // from here on, the mount must be unmounted
	r.warnOfNothing(ds.Len(), e)
	r.warnOfRepeats(e.Budget().Repeats())
	stopWatching := r.watchMemory(e)
	opened = append(opened, func() error { stopWatching(); return nil })
	m, err := r.serve(e)
	if err != nil {
		return end(err)
	}
	r.log.tell(slog.LevelInfo, summary(r.dataset, ds)+r.annotated+padding(e.Catalog().Plan), "")
	if d := r.engine.Device; d != nil && r.gpu.which == gpuAuto && gpu.Given() > 1 {
		r.log.tell(slog.LevelInfo, fmt.Sprintf("batches can be read on one of %d GPUs, %s; for a rank that trains on "+
			"another one, make another mount with --%s N", gpu.Given(), d.UUID(), gpuFlag), "")
	}
	r.prepareThreads(ds.Remote)
	if err := r.announce(m); err != nil {
		return end(errors.Join(err, m.Unmount()))
	}
	closed, err := r.attend(m, signals)
	r.env.notify("STOPPING=1")
	r.suggestHints(e.Stats().Hints)
	if !closed || err != nil {
		// Readers may still hold batches or wait for them. The end of the process frees
		// memory and files.
		return err
	}
	return end(nil)
}

// prepareThreads sets up the threads of this process for a mount. It does not change a GOMAXPROCS
// that the user set.
func (r *mountRequest) prepareThreads(remote bool) {
	if os.Getenv("GOMAXPROCS") == "" {
		runtime.GOMAXPROCS(machine.GoProcessors(r.engine.CPUs, r.engine.Workers, remote))
	}
	if err := machine.FinishSlices(); err != nil {
		r.log.Debug("answers of the storage interrupt the decoders", "reason", err)
	}
}

// warnOfNothing warns that every epoch is empty: no shard has a full batch, and partial
// ones are dropped.
func (r *mountRequest) warnOfNothing(samples int, e *engine.Engine) {
	if e.Catalog().MaxBatches > 0 {
		return
	}
	who, has, flag, size := "a shard", samples/r.engine.Shards, "--batch-size", r.engine.BatchSize
	if r.engine.Partition != shard.Ranges {
		who, has, flag, size = "the dataset", samples, "--global-batch", r.engine.BatchSize*r.engine.Shards
	}
	r.log.warn(fmt.Sprintf("every epoch has 0 batches: %s has %s, fewer than %s %d, and --last-batch drop drops them",
		who, count(has, "sample"), flag, size), fmt.Sprintf("use a smaller %s, or --last-batch fill", flag))
}

// padding says how much of an epoch repeats samples, which must not be counted; "" for nothing.
// Without padding, slots that repeat samples are valid, and nothing else shows them.
func padding(p *shard.Plan) string {
	c := p.Config()
	inBatches := c.Samples%int64(c.Shards) == 0 && c.Samples/int64(c.Shards)%int64(c.BatchSize) == 0
	if !c.PadLastBatch && c.Partition == shard.Ranges && !inBatches {
		return "; without padding, batches read on into the next epoch: an epoch may have samples twice, and lack others"
	}
	var batches int
	var slots, valid int64
	for s := range c.Shards {
		inShard, validInShard := p.Samples(s, 0)
		batches, slots, valid = batches+p.Batches(s, 0), slots+inShard, valid+validInShard
	}
	if slots == valid {
		return ""
	}
	return fmt.Sprintf("; %s, %d of %d slots are padding", count(batches, "batch"), slots-valid, slots)
}

// warnOfRepeats warns that there is too little memory to keep compressed pages, so that they are
// read repeatedly.
func (r *mountRequest) warnOfRepeats(p engine.Repeats) {
	if p.Factor <= 1.1 {
		return
	}
	advice := "convert the dataset once (batchfs convert)"
	if w := fmt.Sprintf("--%s window=%d", "shuffle", p.Window); p.Window > 0 {
		advice += ", or use " + w + ", whose pages fit"
	}
	r.log.warn(fmt.Sprintf("an epoch may read the compressed pages of the dataset %.0f times over: unpacked, those in use take %s, and the memory limit leaves %s for them",
		max(2, p.Factor), formatBytes(p.Needs), formatBytes(p.Memory)), advice)
}

// serve makes the mount live.
func (r *mountRequest) serve(e *engine.Engine) (*fusefs.Session, error) {
	r.settings["flags"].(map[string]any)["cache-size"] = e.Budget().CacheLimit()
	config, err := json.MarshalIndent(r.settings, "", "  ")
	if err != nil {
		return nil, err
	}
	r.tree.Config, r.tree.FsName = append(config, '\n'), absolute(r.dataset)
	m, err := fusefs.Mount(r.mountpoint, e, r.tree)
	return m, mountError(r.tree.ReadPath, err)
}

// announce reports that the mount is live: to a person at a terminal, to systemd, and to
// the process that started this daemon.
func (r *mountRequest) announce(m *fusefs.Session) error {
	if interactive(r.out) {
		r.welcome(m.ReadPath())
	}
	if r.child {
		if err := detach(r.log); err != nil {
			return err
		}
	}
	if heard := r.env.notify("READY=1"); !heard && r.child {
		return errors.New("the command that waited for the mount was killed")
	}
	return nil // a mount does not depend on systemd
}

func (r *mountRequest) welcome(readPath string) {
	stop := ", or Ctrl-C"
	if r.child {
		stop = ""
	}
	first := filepath.Join(r.mountpoint, fmt.Sprintf("shard-%d", r.engine.LocalFrom), "epoch-0")
	device, _, _ := strings.Cut(fmt.Sprint(r.settings[gpuFlag]), ":") // without the reason why it is not used, or not for everything
	r.printf(`mounted at %s, read path: %s, GPU: %s
try    ls %s
       python3 -c "import numpy as np; print(np.load('%s', mmap_mode='r').shape)"
stop   batchfs umount %s%s
`, r.mountpoint, readPath, device, shellWord(first), filepath.Join(first, "batch-00000.npy"), shellWord(r.mountpoint), stop)
}

// described returns the content of config.json: the settings that were given or derived and, in
// words, those that depend on others. The size of the cache is known once there is an engine.
func (r *mountRequest) described(f *flagSet) map[string]any {
	flags := map[string]any{}
	for _, name := range flagNames(f.flags) {
		s := f.setting(name)
		if s == nil || name == "daemon" {
			continue
		}
		flags[name] = cmp.Or(s.text, s.fallback)
		if on, err := strconv.ParseBool(s.text); err == nil && s.isSwitch {
			flags[name] = on
		}
		if s.value == nil {
			continue
		}
		if v := s.value(); v != nil {
			flags[name] = v
		}
	}
	return map[string]any{
		"version": version(), "pid": os.Getpid(),
		"dataset": absolute(r.dataset), "mountpoint": absolute(r.mountpoint), "flags": flags,
	}
}

func absolute(path string) string {
	if store.IsURL(path) {
		return store.Public(path)
	}
	if abs, err := filepath.Abs(path); err == nil {
		return abs
	}
	return path
}

// checkRoom refuses a --memory-limit without room for the first batch beside the mount itself. If
// the limit was not given, it depends on the machine, and checkRoom only warns.
func (r *mountRequest) checkRoom(e *engine.Engine) error {
	memory := e.Stats().Memory
	room, batch := e.RoomForBatches(), e.Catalog().Size(engine.Key{}, layout.NHWCForm)
	itself := memory.Limit - room
	if batch <= room || batch > math.MaxInt64/2 { // a batch beyond all limits is EFBIG
		return nil
	}
	const decoding = 8 << 20 // scratch memory of a few workers
	enough, advice := itself+batch+batch/4+decoding, "a smaller --batch-size or --size"
	if enough <= r.machine.memory().Lowest().Total {
		advice = fmt.Sprintf("--memory-limit %dMiB, or %s", enough>>20, advice)
	}
	if !r.shares {
		rule := fmt.Sprintf("enough for the mount and for decoding (%s), and one batch (%s)", formatBytes(itself), formatBytes(batch))
		return hint(badValue("memory-limit", rule, formatBytes(memory.Limit)), "%s", advice)
	}
	r.log.warn("the memory limit, "+formatBytes(memory.Limit)+", leaves no room for the first batch, "+formatBytes(batch)+": opening it will fail", advice)
	return nil
}

// watchMemory keeps a mount within the available memory until stop is called.
func (r *mountRequest) watchMemory(e *engine.Engine) (stop func()) {
	w := machine.Watch{Memory: r.machine.memory(), SetLimit: e.SetMemoryLimit, Limit: r.engine.MemoryLimit, Shared: r.shares, Logger: r.log.Logger}
	w.Used = func() int64 {
		_, _, used := e.Usage()
		return used
	}
	return w.Start()
}

// suggestHints suggests buffer sizes for the next mount, so that none has to grow.
func (r *mountRequest) suggestHints(h engine.Hints) {
	var parts []string
	for _, of := range []struct {
		buffer string
		size   int64
	}{{"batch", h.Batch}, {"input", h.Input}, {"scratch", h.Scratch}} {
		if of.size > 0 {
			parts = append(parts, fmt.Sprintf("%s=%d", of.buffer, of.size))
		}
	}
	if parts != nil {
		r.log.tell(slog.LevelInfo, fmt.Sprintf("so that no buffer has to grow next time: --%s=%s", hintsFlag, strings.Join(parts, ",")), "")
	}
}
