package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"

	"github.com/batchfs/batchfs/dataset"
	"github.com/batchfs/batchfs/engine"
)

// An imageSet is a dataset of images of one kind, made on first use.
type imageSet struct {
	kind   string
	images int
	*dataset.Dataset
	files []string // in the order of the samples
}

// need makes the dataset and its index, once.
func (s *setup) need(ctx context.Context, d *imageSet) (err error) {
	if d.Dataset != nil {
		return nil
	}
	s.progress.step("drawing "+d.kind+" images", 0, 1)
	dir := filepath.Join(s.work, d.kind)
	if _, err := s.command(ctx, "gen", "--out", dir, "--kind", d.kind, "--images", strconv.Itoa(d.images), "--classes", strconv.Itoa(min(16, d.images))); err != nil {
		return err
	}
	options := dataset.Options{CacheDir: filepath.Join(s.cache(), "batchfs"), Prober: engine.Probe}
	if d.Dataset, err = dataset.Open(ctx, dir, options); err != nil {
		return err
	}
	for i := range d.images {
		d.files = append(d.files, filepath.Join(dir, d.Path(i)))
	}
	return nil
}

// command runs a command of batchfs and returns what it prints.
func (s *setup) command(ctx context.Context, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, s.batchfs, args...)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("batchfs %s: %w", args[0], err)
	}
	return out, nil
}

// c decodes files with the bare C program. Its figures are images per second.
func (s *setup) c(threads int, files []string) side {
	return func(ctx context.Context) (float64, error) {
		args := append([]string{strconv.Itoa(threads), "1"}, files...)
		out, err := exec.CommandContext(ctx, s.ceiling, args...).Output()
		if err != nil {
			return 0, fmt.Errorf("ceiling: %w", err)
		}
		var images, seconds float64
		_, err = fmt.Sscan(string(out), &images, &seconds)
		return images / seconds, err
	}
}
