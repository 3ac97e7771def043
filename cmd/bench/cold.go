package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"

	"github.com/batchfs/batchfs/internal/daemon"
	"github.com/batchfs/batchfs/internal/throughput"
)

// This file measures epochs of a dataset that fits neither into the page cache nor into the
// cache of the mount: every sample is read from the disk in every epoch. Such an epoch should be
// as fast as the disk or the processors allow, whichever is slower.

// cold makes a mount read past the page cache and keep nothing.
func cold(flags ...string) []string {
	return append([]string{"--io", "direct", "--cache-size", "0"}, flags...)
}

// fromDisk is a side that finds nothing of a dataset in the page cache, where even cold mounts look first.
func fromDisk(root string, of side) side {
	return func(ctx context.Context) (float64, error) {
		if err := dropPages(root); err != nil {
			return 0, err
		}
		return of(ctx)
	}
}

// intoPages is a side that finds all of a dataset in the page cache.
func intoPages(root string, of side) side {
	return func(ctx context.Context) (float64, error) {
		files, err := filesBelow(root)
		if err != nil {
			return 0, err
		}
		for _, name := range files {
			if _, err := os.ReadFile(name); err != nil {
				return 0, err
			}
		}
		return of(ctx)
	}
}

// readsUnderWay is how many reads keep a disk busy when its own rate is measured.
const readsUnderWay = 16

// coldEpochs compares cold epochs with the lesser of two rates: that of the same epochs from the
// page cache, and that of the disk.
func coldEpochs(ctx context.Context, s *setup) (rows []row, err error) {
	mixed, err := s.mixedPhotos(ctx)
	if err != nil {
		return nil, err
	}
	if err := s.need(ctx, &s.cityscapes); err != nil {
		return nil, err
	}
	photoFiles, cityFiles := s.photos.files, s.cityscapes.files
	mixedFiles, err := filesBelow(mixed)
	if err != nil {
		return nil, err
	}
	for _, c := range []struct {
		what, root string
		files      []string
		flags      []string
	}{
		{"JPEG, random-resized-crop 224", s.photos.Root(), photoFiles, shuffled(64, trainingCrop...)},
		{"JPEG in its own size", s.photos.Root(), photoFiles, shuffled(64, "--resize", "none")},
		{"PNG 2048x1024 in its own size", s.cityscapes.Root(), cityFiles, shuffled(8, "--resize", "none")},
		{"JPEG, 4 of 10 raw, in its own size", mixed, mixedFiles, shuffled(64, "--resize", "none")},
	} {
		r, err := s.coldEpoch(ctx, c.what, c.root, c.files, c.flags)
		if err != nil {
			return rows, fmt.Errorf("%s: %w", c.what, err)
		}
		rows = append(rows, r)
	}
	return rows, nil
}

func (s *setup) coldEpoch(ctx context.Context, what, root string, files, flags []string) (row, error) {
	var sides []side
	for _, flags := range [][]string{cold(flags...), warm(flags...)} {
		t, err := s.train(ctx, root, flags, throughput.Mapped)
		if err != nil {
			return row{}, err
		}
		defer t.Mount.Unmount(ctx)
		sides = append(sides, t.Epoch)
	}
	sides[0], sides[1] = fromDisk(root, sides[0]), intoPages(root, sides[1])
	rates, err := s.turns(ctx, what, s.rounds, append(sides, s.disk(files))...)
	if err != nil {
		return row{}, err
	}
	limits := make([]float64, len(rates[0]))
	for i := range limits {
		limits[i] = min(rates[1][i], rates[2][i])
	}
	note := fmt.Sprintf("%.0f images/s; from the page cache %.0f, the disk alone %.0f", median(rates[0]), median(rates[1]), median(rates[2]))
	return measured("cold / lesser of page cache and disk: "+what, "x", ratios(rates[0], limits), note).atLeast(0.95), nil
}

// disk reads files past the page cache, with as many reads under way as keep a disk busy, while
// the bare C program keeps all processors busy, as decoding would. Its figures are files per second.
func (s *setup) disk(files []string) side {
	return func(ctx context.Context) (float64, error) {
		busy, stop := context.WithCancel(ctx)
		defer stop()
		args := append([]string{strconv.Itoa(runtime.NumCPU()), "1000000"}, s.photos.files[:min(64, len(s.photos.files))]...)
		load := exec.CommandContext(busy, s.ceiling, args...)
		if err := load.Start(); err != nil {
			return 0, err
		}
		defer func() {
			stop()
			_ = load.Wait() // it was killed
		}()
		var next atomic.Int64
		began := time.Now()
		group, ctx := errgroup.WithContext(ctx)
		for range readsUnderWay {
			group.Go(func() error {
				buf, err := unix.Mmap(-1, 0, 1<<20, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
				if err != nil {
					return err
				}
				defer unix.Munmap(buf)
				for i := next.Add(1) - 1; i < int64(len(files)) && ctx.Err() == nil; i = next.Add(1) - 1 {
					if err := readDirect(files[i], buf); err != nil {
						return err
					}
				}
				return ctx.Err()
			})
		}
		err := group.Wait()
		return float64(len(files)) / time.Since(began).Seconds(), err
	}
}

// readDirect reads a file past the page cache. buf is aligned as the disk wants it.
func readDirect(path string, buf []byte) error {
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_DIRECT|unix.O_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("open %s past the page cache: %w", path, err)
	}
	defer unix.Close(fd)
	for at := int64(0); ; {
		n, err := unix.Pread(fd, buf, at)
		if err != nil {
			return fmt.Errorf("read %s: %w", path, err)
		}
		if at += int64(n); n < len(buf) {
			return nil
		}
	}
}

// mixedPhotos is a dataset of the photos of which 4 of 10 are stored raw.
func (s *setup) mixedPhotos(ctx context.Context) (dir string, err error) {
	dir = filepath.Join(s.work, "mixed")
	if _, err := os.Stat(dir); err == nil {
		return dir, nil
	}
	s.progress.step("making raw copies", 0, 1)
	if _, err := s.command(ctx, "convert", "--raw-ratio", "0.4", s.photos.Root(), dir); err != nil {
		return "", err
	}
	_, err = s.command(ctx, "index", dir)
	return dir, err
}

// filesBelow lists the regular files below a directory.
func filesBelow(dir string) (files []string, err error) {
	err = filepath.WalkDir(dir, func(path string, entry os.DirEntry, err error) error {
		if err == nil && entry.Type().IsRegular() {
			files = append(files, path)
		}
		return err
	})
	return files, err
}

// coldWorkers compares mounts that differ only in --workers: more than there are processors
// should change nothing.
func coldWorkers(ctx context.Context, s *setup) (rows []row, err error) {
	for _, io := range []struct {
		name  string
		flags []string
	}{{"page cache", warm(shuffled(64, trainingCrop...)...)}, {"disk", cold(shuffled(64, trainingCrop...)...)}} {
		r, err := s.byWorkers(ctx, io.name, io.flags)
		if err != nil {
			return rows, fmt.Errorf("%s: %w", io.name, err)
		}
		rows = append(rows, r)
	}
	return rows, nil
}

func (s *setup) byWorkers(ctx context.Context, name string, flags []string) (row, error) {
	var sides []side
	counts := []int{2, 4, 8, 16, 32}
	for _, n := range counts {
		t, err := s.train(ctx, s.photos.Root(), append(slices.Clone(flags), "--workers", strconv.Itoa(n)), throughput.Mapped)
		if err != nil {
			return row{}, err
		}
		defer t.Mount.Unmount(ctx)
		where := intoPages
		if slices.Contains(flags, "direct") {
			where = fromDisk
		}
		sides = append(sides, where(s.photos.Root(), t.Epoch))
	}
	rates, err := s.turns(ctx, "workers, "+name, s.rounds, sides...)
	if err != nil {
		return row{}, err
	}
	note, medians := "", make([]float64, len(counts))
	for i, n := range counts {
		medians[i] = median(rates[i])
		note += fmt.Sprintf(" %d: %.0f;", n, medians[i])
	}
	worst, best := slices.Index(medians, slices.Min(medians)), slices.Index(medians, slices.Max(medians))
	what := "--workers 2 to 32, slowest / fastest, from the " + name
	return measured(what, "x", ratios(rates[worst], rates[best]), "images/s"+note[:len(note)-1]).atLeast(0.97), nil
}

// coldThrottled compares cold epochs from a disk of limited bandwidth with the lesser of that and
// the rate from the page cache. The mount limits itself, or a control group limits it.
func coldThrottled(ctx context.Context, s *setup) (rows []row, err error) {
	flags := shuffled(64, trainingCrop...)
	plain, err := s.train(ctx, s.photos.Root(), warm(flags...), throughput.Mapped)
	if err != nil {
		return nil, err
	}
	defer plain.Mount.Unmount(ctx)
	perImage := float64(s.photos.Report().Bytes) / float64(s.photos.images)
	for _, mb := range []int{50, 150, 600} {
		for _, by := range []string{"--max-read-bandwidth", "io.max"} {
			what := fmt.Sprintf("a disk of %d MB/s (%s) / lesser of that and page cache", mb, by)
			t, end, err := s.throttled(ctx, mb, by == "io.max", flags)
			if err != nil {
				rows = append(rows, row{what: what, skipped: err.Error()})
				continue
			}
			rates, err := s.turns(ctx, what, s.rounds, fromDisk(s.photos.Root(), t.Epoch), intoPages(s.photos.Root(), plain.Epoch))
			if err = errors.Join(err, end()); err != nil {
				return rows, err
			}
			limits := make([]float64, len(rates[0]))
			for i, rate := range rates[1] {
				limits[i] = min(rate, float64(mb)*1e6/perImage)
			}
			note := fmt.Sprintf("%.0f images/s; page cache %.0f, bandwidth %.0f", median(rates[0]), median(rates[1]), float64(mb)*1e6/perImage)
			rows = append(rows, measured(what, "x", ratios(rates[0], limits), note).atLeast(0.97))
		}
	}
	return rows, nil
}

// throttled starts a cold mount whose reads are limited, by itself or by a control group.
func (s *setup) throttled(ctx context.Context, mb int, byGroup bool, flags []string) (t *throughput.Training, end func() error, err error) {
	if byGroup {
		return inGroup(ctx, s, func(g *cgroup) error { return g.limitReads(s.photos.Root(), int64(mb)*1e6) }, cold(flags...))
	}
	t, err = s.train(ctx, s.photos.Root(), append(cold(flags...), "--max-read-bandwidth", fmt.Sprintf("%dMB", mb)), throughput.Mapped)
	return t, func() error { return t.Mount.Unmount(ctx) }, err
}

// inGroup starts a mount of the photos in a control group with a limit.
func inGroup(ctx context.Context, s *setup, limit func(*cgroup) error, flags []string) (t *throughput.Training, end func() error, err error) {
	group, err := newCgroup("batchfs-bench-" + strconv.Itoa(os.Getpid()))
	if err != nil {
		return nil, nil, err
	}
	inside := *s
	inside.batchfs = filepath.Join(s.work, "batchfs-in-group")
	if err = errors.Join(group.wrap(s.batchfs, inside.batchfs), limit(group)); err == nil {
		t, err = inside.train(ctx, s.photos.Root(), flags, throughput.Mapped)
	}
	if err != nil {
		return nil, nil, errors.Join(err, group.remove())
	}
	return t, func() error { return errors.Join(t.Mount.Unmount(ctx), group.remove()) }, nil
}

// coldQuota compares epochs with a part of the processors, by the quota of a control group, with
// that part of the rate with all of them.
func coldQuota(ctx context.Context, s *setup) ([]row, error) {
	flags, all := warm(shuffled(64, trainingCrop...)...), float64(runtime.NumCPU())
	quota := 0.75 * all
	what := fmt.Sprintf("a quota of %v of %v processors / that part of the rate", quota, all)
	plain, err := s.train(ctx, s.photos.Root(), flags, throughput.Mapped)
	if err != nil {
		return nil, err
	}
	defer plain.Mount.Unmount(ctx)
	t, end, err := inGroup(ctx, s, func(g *cgroup) error { return g.limitCPU(quota) }, flags)
	if err != nil {
		return []row{{what: what, skipped: err.Error()}}, nil
	}
	rates, err := s.turns(ctx, what, s.rounds, intoPages(s.photos.Root(), t.Epoch), intoPages(s.photos.Root(), plain.Epoch))
	if err = errors.Join(err, end()); err != nil {
		return nil, err
	}
	parts := make([]float64, len(rates[1]))
	for i, rate := range rates[1] {
		parts[i] = rate * quota / all
	}
	note := fmt.Sprintf("%.0f and %.0f images/s", median(rates[0]), median(rates[1]))
	return []row{measured(what, "x", ratios(rates[0], parts), note).atLeast(0.95)}, nil
}

// coldMemory compares the peak memory of cold epochs with 32 workers and with 1, for batches of
// several sizes.
func coldMemory(ctx context.Context, s *setup) (rows []row, err error) {
	for _, batch := range []int{1, 4, 32, 256} {
		var peaks [2]float64
		for i, workers := range []int{1, 32} {
			s.progress.step(fmt.Sprintf("batches of %d", batch), i, 2)
			flags := append(cold(shuffled(batch, trainingCrop...)...), "--workers", strconv.Itoa(workers))
			if peaks[i], err = mounted(ctx, s, s.photos.Root(), flags, func(m *daemon.Mount) (float64, error) { return epochPeak(ctx, m) }); err != nil {
				return rows, err
			}
		}
		note := fmt.Sprintf("%.1f and %.1f MiB", peaks[1]/(1<<20), peaks[0]/(1<<20))
		rows = append(rows, once(fmt.Sprintf("peak memory, batches of %d: 32 workers / 1", batch), "x", peaks[1]/peaks[0], note).atMost(1.05))
	}
	return rows, nil
}

// epochPeak reads an epoch and returns the daemon's peak memory.
func epochPeak(ctx context.Context, m *daemon.Mount) (float64, error) {
	t, err := throughput.NewTraining(m, 0, throughput.Mapped)
	if err == nil {
		_, err = t.Take(ctx, t.Batches)
	}
	if err != nil {
		return 0, err
	}
	return peak(m)
}
