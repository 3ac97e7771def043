package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"

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
	// asHalf makes a mount serve its pixels as many models take them.
	asHalf = []string{"--dtype", "float16", "--layout", "nchw", "--normalize", "imagenet"}
	// withoutEntries makes a mount neither use nor make entry points. Others have made them in the
	// epoch that warms up.
	withoutEntries = []string{"--entry-points", "off"}
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

// A mount is a contender that is mounted while it gets ready, and reads the first epoch then,
// which warms up memory and finds all caches empty. It reads one more epoch in each turn, and is
// stopped when it is not its turn.
type mount struct {
	dataset string
	flags   []string
	read    throughput.Reader // throughput.Mapped if nil
	form    string            // of the files that are read; nhwc if empty
	further []string          // forms that are read after it
	program string            // that of this commit if empty
	limit   func(*cgroup) error
	pin     machine.CPUs  // the daemon's processors; all if empty
	ahead   int           // batches read before the clock starts, besides Ahead
	time    time.Duration // how long a turn takes at least, instead of an epoch
	process int           // another process whose processor time is measured
	// trained is called after the first epoch; also measures more at the end of each turn.
	trained func(*throughput.Training) error
	also    func(*throughput.Training, figures) error
}

// other is the figure of mount.process, like cost.
var other = figure{"other", "us", 1e6}

// training is the contender. Its figures are rate, cost, peak and slow.
func (b *bench) training(m mount) contender {
	if m.read == nil {
		m.read = throughput.Mapped
	}
	var times []float64 // of all batches
	return contender{start: func(ctx context.Context) (turn, error) {
		t, err := b.train(ctx, m)
		if err != nil {
			return nil, err
		}
		t.Mount.Pause()
		return func(ctx context.Context) (f figures, err error) {
			err = t.Turn(ctx, func() error {
				if f, err = m.turn(ctx, t, &times); err != nil || m.also == nil {
					return err
				}
				return m.also(t, f)
			})
			return f, err
		}, nil
	}}
}

// train mounts and reads the first epoch.
func (b *bench) train(ctx context.Context, m mount) (*throughput.Training, error) {
	program := cmp.Or(m.program, b.batchfs)
	if m.limit != nil {
		group, inside, err := inGroup(b, program)
		if err == nil {
			err = m.limit(group)
		}
		if err != nil {
			return nil, err
		}
		program = inside
	}
	var d *daemon.Mount
	err := onCPUs(m.pin, func() (err error) {
		d, err = b.start(ctx, program, m.dataset, m.flags)
		return err
	})
	if err != nil {
		return nil, err
	}
	d.Form = cmp.Or(m.form, d.Form)
	t, err := throughput.NewTraining(d, 0, m.read)
	if err == nil {
		t.Also = m.further
		_, err = t.Take(ctx, t.Batches)
	}
	if err == nil && m.trained != nil {
		err = m.trained(t)
	}
	return t, err
}

// start mounts a dataset until the end of the contest.
func (b *bench) start(ctx context.Context, program, dataset string, flags []string) (*daemon.Mount, error) {
	m, err := daemon.NewMount(ctx, b.work, program, append(slices.Clone(flags), dataset)...)
	if err == nil {
		b.later(func() error { return m.Unmount(ctx) })
	}
	return m, err
}

// turn reads and measures. It adds how long each batch took, in seconds, to times.
func (m *mount) turn(ctx context.Context, t *throughput.Training, times *[]float64) (figures, error) {
	if _, err := t.Take(ctx, m.ahead); err != nil {
		return nil, err
	}
	own, others, err := m.clocks(t)
	if err != nil {
		return nil, err
	}
	r := &reader{Training: t}
	took, err := readAtOnce(ctx, []*reader{r}, func(batches int, took time.Duration) bool {
		if m.time == 0 {
			return batches >= t.Batches
		}
		return batches >= throughput.Ahead && took >= m.time
	})
	if err != nil {
		return nil, err
	}
	*times = append(*times, r.waits...)
	images := r.images()
	ownNow, othersNow, err := m.clocks(t)
	high, err1 := peakOf(t.Mount)
	return figures{
		rate: images / took.Seconds(), cost: (ownNow - own) / images, other: (othersNow - others) / images,
		peak: high, slow: quantile(*times, .99),
	}, errors.Join(err, err1)
}

// clocks are the processor times so far of the daemon and of the other process.
func (m *mount) clocks(t *throughput.Training) (own, others float64, err error) {
	if m.process != 0 {
		others, err = clock(m.process)
	}
	own, err1 := clock(t.Mount.Cmd.Process.Pid)
	return own, others, errors.Join(err, err1)
}

// Figures of fresh, since the mount began.
var mounted, ended = figure{"mounted", "s", 1}, figure{"ended", "ms", 1e3}

// fresh is a contender that mounts anew in each turn, works with the mount, which adds figures, and
// ends it. Its own figures are mounted, ended and peak.
func (b *bench) fresh(
	dataset string, flags []string, work func(ctx context.Context, m *daemon.Mount, f figures) error,
) contender {
	return ready(func(ctx context.Context) (figures, error) {
		f, began := figures{}, time.Now()
		return f, b.mounting(ctx, b.batchfs, dataset, flags, func(m *daemon.Mount) error {
			f[mounted] = time.Since(began).Seconds()
			err := work(ctx, m, f)
			f[ended] = time.Since(began).Seconds()
			high, err1 := peakOf(m)
			f[peak] = high
			return errors.Join(err, err1)
		})
	})
}

// mounting mounts a dataset for some work.
func (b *bench) mounting(
	ctx context.Context, program, dataset string, flags []string, work func(m *daemon.Mount) error,
) error {
	m, err := daemon.NewMount(ctx, b.work, program, append(slices.Clone(flags), dataset)...)
	if err != nil {
		return err
	}
	return errors.Join(work(m), m.Unmount(ctx))
}

// readEpochs reads some epochs, one way or another.
func readEpochs(ctx context.Context, m *daemon.Mount, n int, read throughput.Reader) error {
	t, err := throughput.NewTraining(m, 0, read)
	if err == nil {
		_, err = t.Take(ctx, n*t.Batches)
	}
	return err
}

// oneEpoch reads an epoch.
func oneEpoch(ctx context.Context, m *daemon.Mount, _ figures) error {
	return readEpochs(ctx, m, 1, throughput.Mapped)
}

// opened is how long the open of the first batch took: it returns when the batch is complete.
var opened = figure{"opened", "ms", 1e3}

// openFirst opens the first batch.
func openFirst(_ context.Context, m *daemon.Mount, f figures) error {
	began := time.Now()
	first, err := os.Open(m.Batch(0, 0, 0))
	if err != nil {
		return err
	}
	f[opened] = time.Since(began).Seconds()
	return first.Close()
}

// peakOf is a daemon's peak memory so far: RSS, including shared pages.
func peakOf(m *daemon.Mount) (float64, error) {
	kb, err := number(fmt.Sprintf("/proc/%d/status", m.Cmd.Process.Pid), "VmHWM:")
	return float64(kb << 10), err
}

// clock is a process's processor time so far, in seconds, over all threads, including those
// that have ended.
func clock(pid int) (float64, error) {
	const scheduled = 2 // the process CPU clock that does not count in ticks (CPUCLOCK_SCHED)
	var now unix.Timespec
	if err := unix.ClockGettime(int32(^pid<<3|scheduled), &now); err != nil {
		return 0, fmt.Errorf("processor time of process %d: %w", pid, err)
	}
	return float64(now.Sec) + float64(now.Nsec)/1e9, nil
}

// fromDisk is a mount that finds nothing of its dataset in the page cache, where even cold mounts
// look first.
func (b *bench) fromDisk(m mount) contender {
	return b.training(m).before(func(context.Context) error { return dropPages(m.dataset) })
}

// fromPages is a mount that finds all of its dataset in the page cache.
func (b *bench) fromPages(m mount) contender {
	return b.training(m).before(func(context.Context) error {
		return eachFile(m.dataset, func(path string) error {
			_, err := os.ReadFile(path)
			return err
		})
	})
}

// dropPages empties the page cache of all files below a directory.
func dropPages(dir string) error {
	unix.Sync() // unwritten pages cannot be dropped
	return eachFile(dir, func(path string) error {
		f, err := os.Open(path)
		if err != nil {
			return err
		}
		defer f.Close()
		return unix.Fadvise(int(f.Fd()), 0, 0, unix.FADV_DONTNEED)
	})
}

// eachFile calls do for the regular files below a directory.
func eachFile(dir string, do func(path string) error) error {
	return filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.Type().IsRegular() {
			return err
		}
		return do(path)
	})
}
