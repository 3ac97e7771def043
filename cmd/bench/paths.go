package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/batchfs/batchfs/fusefs"
	"github.com/batchfs/batchfs/internal/daemon"
	"github.com/batchfs/batchfs/internal/throughput"
)

// readPaths compares reading a finished batch with reading the same bytes from a tmpfs,
// with the same code.
func readPaths(ctx context.Context, s *setup) (rows []row, err error) {
	for _, p := range []pathCase{
		{"passthrough", "within_size", "finished batch, read into a reused buffer / tmpfs", 0.95, throughput.Reading(0, false)},
		{"passthrough", "within_size", "finished batch, mmap / tmpfs", 0.95, throughput.Mapped},
		{"direct", "never", "direct I/O, read, 16 MiB buffer / plain tmpfs", 0.5, throughput.Reading(16<<20, false)},
	} {
		flags := warm("--batch-size", "32", "--read-path", p.path)
		more, err := mounted(ctx, s, s.photos.Root(), flags, func(m *daemon.Mount) ([]row, error) { return s.readPath(ctx, m, p) })
		if err != nil {
			return rows, fmt.Errorf("%s: %w", p.path, err)
		}
		rows = append(rows, more...)
	}
	return rows, nil
}

// A pathCase is one way of reading, and what it is compared with.
type pathCase struct {
	path, huge, what string
	wanted           float64
	read             throughput.Reader
}

// readPath measures one way of reading. The second row counts the requests that reached the
// daemon; passthrough should cause none.
func (s *setup) readPath(ctx context.Context, m *daemon.Mount, p pathCase) ([]row, error) {
	plainDir, unmount, err := s.tmpfs(p.huge)
	if err != nil {
		return nil, err
	}
	defer unmount()
	served, plain := m.Batch(0, 0, 0), filepath.Join(plainDir, "batch")
	content, err := os.ReadFile(served)
	if err != nil {
		return nil, err
	}
	if err := os.WriteFile(plain, content, 0o600); err != nil {
		return nil, err
	}
	var sides []side
	for _, path := range []string{served, plain} {
		f, err := os.Open(path) // keeps the finished batch
		if err != nil {
			return nil, err
		}
		defer f.Close()
		sides = append(sides, func(ctx context.Context) (float64, error) { return p.read.Speed(ctx, f, 50) })
	}
	var before, after fusefs.Stats
	if err := m.Document(".batchfs/stats.json", &before); err != nil {
		return nil, err
	}
	rates, err := s.turns(ctx, p.path, 3*s.rounds+1, sides...)
	if err != nil {
		return nil, err
	}
	if err := m.Document(".batchfs/stats.json", &after); err != nil {
		return nil, err
	}
	note := fmt.Sprintf("%.1f GB/s", rates[0][len(rates[0])-1]/1e9)
	all := ratios(rates[0], rates[1])[1:] // the first is a warm-up
	rows := []row{measured(p.what, "x", all, note).atLeast(p.wanted)}
	if p.path == "passthrough" {
		rows = append(rows, once("    READ requests that the daemon saw", "", float64(after.FUSE.Reads-before.FUSE.Reads), "").atMost(0))
	}
	return rows, nil
}
