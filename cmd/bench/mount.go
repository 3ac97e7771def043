package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"syscall"

	"github.com/batchfs/batchfs/internal/daemon"
	"github.com/batchfs/batchfs/internal/throughput"
)

const batchSize = 32

// shuffled are the flags of every mount whose throughput is measured.
func shuffled(batch int, more ...string) []string {
	return append([]string{"--shuffle", "--batch-size", strconv.Itoa(batch)}, more...)
}

// trainingCrop is the transform most classifiers are trained with.
var trainingCrop = []string{"--resize", "random-resized-crop", "--size", "224x224", "--flip", "0.5"}

// warm makes a mount read files through the page cache, as C does, without keeping a second
// copy of them.
func warm(flags ...string) []string {
	return append([]string{"--io", "buffered", "--cache-size", "0"}, flags...)
}

// start starts a daemon.
func (s *setup) start(ctx context.Context, dataset string, flags []string) (*daemon.Mount, error) {
	return daemon.NewMount(ctx, s.work, s.batchfs, append(slices.Clone(flags), dataset)...)
}

// mounted runs work with a mount of its own.
func mounted[T any](ctx context.Context, s *setup, dataset string, flags []string, work func(m *daemon.Mount) (T, error)) (result T, err error) {
	m, err := s.start(ctx, dataset, flags)
	if err != nil {
		return result, err
	}
	result, err = work(m)
	return result, errors.Join(err, m.Unmount(ctx))
}

// train starts a daemon and reads the first epoch, which warms up memory and finds all caches
// empty. The daemon is paused.
func (s *setup) train(ctx context.Context, dataset string, flags []string, read throughput.Reader) (*throughput.Training, error) {
	m, err := s.start(ctx, dataset, flags)
	if err != nil {
		return nil, err
	}
	t, err := trainOn(ctx, m, read)
	if err != nil {
		return nil, errors.Join(err, m.Unmount(ctx))
	}
	return t, nil
}

// trainOn does that with a daemon that was started.
func trainOn(ctx context.Context, m *daemon.Mount, read throughput.Reader) (*throughput.Training, error) {
	t, err := throughput.NewTraining(m, 0, read)
	if err != nil {
		return nil, err
	}
	_, err = t.Take(ctx, t.Batches)
	m.Pause()
	return t, err
}

// peak is a daemon's peak memory so far: RSS, including shared pages.
func peak(m *daemon.Mount) (float64, error) {
	kb, err := number(fmt.Sprintf("/proc/%d/status", m.Cmd.Process.Pid), "VmHWM:")
	return float64(kb << 10), err
}

// tmpfs mounts a tmpfs with the given huge page option: as for batches, or a plain one.
func (s *setup) tmpfs(huge string) (dir string, unmount func(), err error) {
	if dir, err = os.MkdirTemp(s.work, "tmpfs-"); err != nil {
		return "", nil, err
	}
	if err = syscall.Mount("bench", dir, "tmpfs", 0, "huge="+huge); err != nil {
		return "", nil, fmt.Errorf("mount a tmpfs: %w", err)
	}
	return dir, func() { _ = syscall.Unmount(dir, syscall.MNT_DETACH) }, nil
}
