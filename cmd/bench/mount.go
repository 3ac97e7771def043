package main

import (
	"cmp"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"

	"github.com/batchfs/batchfs/internal/daemon"
	"github.com/batchfs/batchfs/internal/machine"
	"github.com/batchfs/batchfs/internal/throughput"
)

const batchSize = 32

// shuffled are the flags of every mount whose throughput is measured.
func shuffled(batch int, more ...string) []string {
	return append([]string{"--shuffle", "--batch-size", strconv.Itoa(batch)}, more...)
}

var (
	// trainingCrop is the transform most classifiers are trained with.
	trainingCrop = []string{"--resize", "random-resized-crop", "--size", "224x224", "--flip", "0.5"}
	ownSize      = []string{"--resize", "none"}
	// asHalf makes a mount serve its pixels in the form that many models take, and asFloats in the
	// form that all of them take.
	asHalf   = []string{"--dtype", "float16", "--layout", "nchw", "--normalize", "imagenet"}
	asFloats = []string{"--dtype", "float32", "--layout", "nchw", "--normalize", "imagenet"}
	// withoutEntries makes a mount neither use nor make entry points. Other mounts have made
	// them in the epoch that warms up.
	withoutEntries = []string{"--entry-points", "off"}

	own, crops = shuffled(batchSize, ownSize...), shuffled(batchSize, trainingCrop...)
	crops64    = shuffled(64, trainingCrop...)
	large      = shuffled(8, ownSize...) // batches of the usual number of bytes
	byRead     = throughput.Reading(true)
)

// warm makes a mount read files through the page cache, as C does, without keeping a second
// copy of them.
func warm(flags ...[]string) []string {
	return append([]string{"--io", "buffered", "--cache-size", "0"}, slices.Concat(flags...)...)
}

// cold makes a mount read past the page cache and keep nothing.
func cold(flags ...[]string) []string {
	return append([]string{"--io", "direct", "--cache-size", "0"}, slices.Concat(flags...)...)
}

// kept returns flags that make a mount keep all of a dataset in memory, in one form.
func kept(p *pictures, form string, flags []string) []string {
	size := fmt.Sprint(3 * p.Report.Bytes)
	return slices.Concat([]string{"--io", "buffered", "--cache-size", size, "--cache-form", form}, flags)
}

// A mount is a contender that mounts and reads the first epoch when it gets ready; this warms up
// memory, and finds all caches empty. In each turn it reads one more epoch. When it is not its
// turn, its daemon is stopped.
type mount struct {
	dataset string
	flags   []string
	read    throughput.Reader // throughput.Mapped if nil
	form    string            // of the files that are read; nhwc if empty
	further []string          // forms that are read after it
	program string            // that of this commit if empty
	limit   func(*cgroup) error
	pin     machine.CPUs  // the daemon's processors; all if empty
	warmup  int           // epochs before the first turn; 1 if 0
	ahead   int           // batches read before the clock starts, besides Ahead
	time    time.Duration // how long a turn takes at least, instead of an epoch
	process int           // another process whose processor time is measured
	// also measures more at the end of each turn.
	also func(*throughput.Training, figures)
}

// other is the figure of mount.process, like cost.
var other = figure{"other", "us", 1e6}

// training returns the mount as a contender. Its figures are rate, cost, other, peak and slow.
func (b *bench) training(m mount) contender {
	if m.read == nil {
		m.read = throughput.Mapped
	}
	return contender{start: func() turn {
		t := b.train(&m)
		t.Mount.Pause()
		var waits []float64 // for all batches
		return func() (f figures) {
			check(t.Turn(b.ctx, func() error { return catch(func() { f = b.turn(&m, t, &waits) }) }))
			return f
		}
	}}
}

// train mounts and reads the first epoch.
func (b *bench) train(m *mount) *throughput.Training {
	program := cmp.Or(m.program, b.batchfs)
	if m.limit != nil {
		var group *cgroup
		group, program = inGroup(b, program)
		check(m.limit(group))
	}
	var d *daemon.Mount
	onCPUs(m.pin, func() { d = b.mount(program, m.dataset, m.flags) })
	d.Form = cmp.Or(m.form, d.Form)
	t := must(throughput.NewTraining(d, 0, m.read))
	t.Also = m.further
	must(t.Take(b.ctx, t.Batches*max(1, m.warmup)))
	return t
}

// turn reads and measures. It adds how long each batch took, in seconds, to waits.
func (b *bench) turn(m *mount, t *throughput.Training, waits *[]float64) figures {
	must(t.Take(b.ctx, m.ahead))
	var before, after [2]float64 // processor times of the daemon and of the other process
	clocks := func(now *[2]float64) {
		now[0] = clock(t.Mount.Cmd.Process.Pid)
		if m.process != 0 {
			now[1] = clock(m.process)
		}
	}
	clocks(&before)
	r := &reader{Training: t}
	took := b.readAtOnce([]*reader{r}, func(batches int, took time.Duration) bool {
		if m.time == 0 {
			return batches >= t.Batches
		}
		return batches >= throughput.Ahead && took >= m.time
	})
	clocks(&after)
	*waits = append(*waits, r.waits...)
	images := r.images()
	f := figures{
		rate: images / took.Seconds(), cost: (after[0] - before[0]) / images, other: (after[1] - before[1]) / images,
		peak: peakOf(t.Mount), slow: quantile(*waits, .99),
	}
	if m.also != nil {
		m.also(t, f)
	}
	return f
}

// mount mounts a dataset until the current work is over.
func (b *bench) mount(program, dataset string, flags []string) *daemon.Mount {
	m := must(daemon.NewMount(b.ctx, b.work, program, append(slices.Clone(flags), dataset)...))
	b.later(func() error { return m.Unmount(b.ctx) })
	return m
}

// Figures of fresh, since the mount began.
var mounted, ended = figure{"mounted", "s", 1}, figure{"ended", "ms", 1e3}

// fresh is a contender that, in each turn, mounts anew, works with the mount, and ends it. Its
// figures are mounted, ended, peak and those of the work.
func (b *bench) fresh(dataset string, flags []string, work func(m *daemon.Mount, f figures)) contender {
	return ready(func() figures {
		f, began := figures{}, time.Now()
		check(b.within(func() {
			m := b.mount(b.batchfs, dataset, flags)
			f[mounted] = time.Since(began).Seconds()
			work(m, f)
			f[ended] = time.Since(began).Seconds()
			f[peak] = peakOf(m)
		}))
		return f
	})
}

// readEpochs reads some epochs, one way or another.
func (b *bench) readEpochs(m *daemon.Mount, n int, read throughput.Reader) {
	t := must(throughput.NewTraining(m, 0, read))
	must(t.Take(b.ctx, n*t.Batches))
}

// oneEpoch reads an epoch.
func (b *bench) oneEpoch(m *daemon.Mount, _ figures) { b.readEpochs(m, 1, throughput.Mapped) }

// opened is how long the open of the first batch took: it returns when the batch is complete.
var opened = figure{"opened", "ms", 1e3}

// openFirst opens the first batch.
func openFirst(m *daemon.Mount, f figures) {
	began := time.Now()
	first := must(os.Open(m.Batch(0, 0, 0)))
	f[opened] = time.Since(began).Seconds()
	check(first.Close())
}

// fromDisk is a mount whose dataset is not in the page cache, where even cold mounts look first.
func (b *bench) fromDisk(m mount) contender {
	return b.training(m).before(func() { dropPages(m.dataset) })
}

// fromPages is a mount whose whole dataset is in the page cache.
func (b *bench) fromPages(m mount) contender {
	return b.training(m).before(func() {
		for _, path := range filesBelow(m.dataset) {
			must(os.ReadFile(path))
		}
	})
}

// dropPages empties the page cache of all files below a directory.
func dropPages(dir string) {
	unix.Sync() // unwritten pages cannot be dropped
	for _, path := range filesBelow(dir) {
		f := must(os.Open(path))
		err := unix.Fadvise(int(f.Fd()), 0, 0, unix.FADV_DONTNEED)
		f.Close()
		check(err)
	}
}

// filesBelow are the regular files below a directory.
func filesBelow(dir string) (files []string) {
	check(filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err == nil && entry.Type().IsRegular() {
			files = append(files, path)
		}
		return err
	}))
	return files
}

// A reader reads one shard of a mount, like a training program.
type reader struct {
	*throughput.Training
	pause time.Duration // what it does with each batch
	waits []float64     // for each batch, in seconds
}

// readersOf are readers of the first n shards.
func readersOf(m *daemon.Mount, n int) (all []*reader) {
	for shard := range n {
		all = append(all, &reader{Training: must(throughput.NewTraining(m, shard, throughput.Mapped))})
	}
	return all
}

// readAtOnce lets all readers read side by side until each has read and taken enough. It returns
// how long that took.
func (b *bench) readAtOnce(all []*reader, enough func(batches int, took time.Duration) bool) time.Duration {
	var group errgroup.Group
	began := time.Now()
	for _, r := range all {
		r.waits = nil
		group.Go(func() error {
			for !enough(len(r.waits), time.Since(began)) {
				asked := time.Now()
				if _, err := r.Take(b.ctx, 1); err != nil {
					return err
				}
				r.waits = append(r.waits, time.Since(asked).Seconds())
				time.Sleep(r.pause)
			}
			return nil
		})
	}
	check(group.Wait())
	return time.Since(began)
}

// images is how many it has read.
func (r *reader) images() float64 {
	return float64(len(r.waits)) * float64(r.Samples) / float64(r.Batches)
}

// busy is the part of its time in which it did not wait, without the first batches.
func (r *reader) busy(but int) float64 {
	waited, paused := 0., 0.
	for _, wait := range r.waits[min(but, len(r.waits)):] {
		waited, paused = waited+wait, paused+r.pause.Seconds()
	}
	return paused / max(waited+paused, 1e-9)
}
