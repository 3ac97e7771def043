package main

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// An imageSet is a directory of images of one kind, made on first use.
type imageSet struct {
	kind   string
	images int
	dir    string // given, or made
	files  []string
}

// need makes the dataset and its index, once.
func (s *setup) need(ctx context.Context, d *imageSet) error {
	if d.files != nil {
		return nil
	}
	if d.dir == "" {
		s.progress.step("drawing "+d.kind+" images", 0, 1)
		dir := filepath.Join(s.work, d.kind)
		if err := s.command(ctx, "gen", "--out", dir, "--kind", d.kind, "--images", strconv.Itoa(d.images), "--classes", "16"); err != nil {
			return err
		}
		d.dir = dir
	}
	if err := s.command(ctx, "index", d.dir); err != nil {
		return err
	}
	var err error
	d.files, err = imageFiles(d.dir)
	d.images = len(d.files)
	if err == nil && d.images == 0 {
		err = fmt.Errorf("%s has no images", d.dir)
	}
	return err
}

// imageFiles lists the images of a directory in the order of a dataset's samples. It
// handles only directories as batchfs gen makes them.
func imageFiles(dir string) (files []string, err error) {
	err = filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err == nil && entry.Type().IsRegular() && slices.Contains([]string{".jpg", ".jpeg", ".png"}, strings.ToLower(filepath.Ext(path))) {
			files = append(files, path)
		}
		return err
	})
	return files, err
}

// command runs a command of batchfs to its end.
func (s *setup) command(ctx context.Context, args ...string) error {
	cmd := exec.CommandContext(ctx, s.batchfs, args...)
	cmd.Stderr = os.Stderr
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("batchfs %s: %w", args[0], err)
	}
	return nil
}

// runCeiling decodes files with the bare C program and returns images per second.
func (s *setup) runCeiling(ctx context.Context, threads int, files []string) (float64, error) {
	args := append([]string{strconv.Itoa(threads), "1"}, files...)
	out, err := exec.CommandContext(ctx, s.ceiling, args...).Output()
	if err != nil {
		return 0, fmt.Errorf("ceiling: %w", err)
	}
	var images, seconds float64
	if _, err := fmt.Sscan(string(out), &images, &seconds); err != nil {
		return 0, err
	}
	return images / seconds, nil
}
