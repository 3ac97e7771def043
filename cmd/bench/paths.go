package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"
)

// readPaths compares reading a finished batch with reading the same bytes from a tmpfs,
// with the same code.
func readPaths(ctx context.Context, s *setup) ([]row, error) {
	if err := s.need(ctx, &s.photos); err != nil {
		return nil, err
	}
	var rows []row
	for _, c := range []struct {
		path, huge, what string
		wanted           float64
		read             reader
	}{
		{"passthrough", "within_size", "finished batch, read into a reused buffer / tmpfs", 0.95, reading(0, false)},
		{"passthrough", "within_size", "finished batch, mmap / tmpfs", 0.95, mapped},
		{"direct", "never", "direct I/O, read, 16 MiB buffer / plain tmpfs", 0.5, reading(16<<20, false)},
	} {
		r, err := s.readPath(ctx, c.path, c.huge, c.read)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", c.path, err)
		}
		r[0].What = c.what
		rows = append(append(rows, r[0].atLeast(c.wanted)), r[1:]...)
	}
	return rows, nil
}

// readPath measures one way of reading. The second row counts the requests that reached the
// daemon; passthrough should cause none.
func (s *setup) readPath(ctx context.Context, path, huge string, read reader) ([]row, error) {
	m, err := s.mount(ctx, s.photos.dir, "--batch-size", "32", "--read-path", path)
	if err != nil {
		return nil, err
	}
	defer m.unmount(s)
	plainDir, unmount, err := s.tmpfs(huge)
	if err != nil {
		return nil, err
	}
	defer unmount()
	served, plain := m.batch(0, 0, 0, "nhwc"), filepath.Join(plainDir, "batch")
	hold, err := os.Open(served) // keeps the finished batch
	if err != nil {
		return nil, err
	}
	defer hold.Close()
	bytes, err := os.ReadFile(served)
	if err != nil {
		return nil, err
	}
	if err := os.WriteFile(plain, bytes, 0o600); err != nil {
		return nil, err
	}
	before, err := m.stats()
	if err != nil {
		return nil, err
	}
	ratios, rate, err := s.compare(read, served, plain)
	if err != nil {
		return nil, err
	}
	after, err := m.stats()
	if err != nil {
		return nil, err
	}
	rows := []row{{Unit: "x", figure: figureOf(ratios), Note: fmt.Sprintf("%.1f GB/s", rate/1e9)}}
	if path == "passthrough" {
		micros, err := openClose(served)
		if err != nil {
			return nil, err
		}
		rows[0].Note += fmt.Sprintf(", to open and close it once: %.0f us", micros)
		seen := row{What: "    READ requests that the daemon saw", figure: exactly(float64(after.FUSE.Reads - before.FUSE.Reads))}
		rows = append(rows, seen.atMost(0))
	}
	return rows, nil
}

// compare reads two open files in turns and returns the ratios of their speeds, and the
// speed of the first in bytes per second.
func (s *setup) compare(read reader, a, b string) (ratios []float64, rate float64, err error) {
	const passes = 50
	speed := func(f *os.File) (float64, error) {
		began, total := time.Now(), int64(0)
		for range passes {
			n, err := read(f)
			if err != nil {
				return 0, err
			}
			total += n
		}
		return float64(total) / time.Since(began).Seconds(), nil
	}
	var open [2]*os.File
	for i, path := range []string{a, b} {
		if open[i], err = os.Open(path); err != nil {
			return nil, 0, err
		}
		defer open[i].Close()
	}
	for i := range 3*s.rounds + 1 {
		s.progress.step(filepath.Base(a), i, 3*s.rounds+1)
		x, err := speed(open[0])
		if err != nil {
			return nil, 0, err
		}
		y, err := speed(open[1])
		if err != nil {
			return nil, 0, err
		}
		ratios, rate = append(ratios, x/y), x
	}
	return ratios[1:], rate, nil // the first is a warm-up
}

// openClose is the time to open and close a finished batch, in microseconds.
func openClose(path string) (float64, error) {
	const times = 500
	began := time.Now()
	for range times {
		f, err := os.Open(path)
		if err != nil {
			return 0, err
		}
		f.Close()
	}
	return float64(time.Since(began).Microseconds()) / times, nil
}
