package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"image/jpeg"
	"image/png"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"

	"github.com/batchfs/batchfs/dataset"
	"github.com/batchfs/batchfs/internal/sample"
)

// pictures are a dataset of images of one kind, made when it is needed first.
type pictures struct {
	kind   string
	format string // that of the kind if empty
	images int
	*dataset.Dataset
	files []string // in the order of the samples
	masks string   // a folder, if annotate was called
	boxes string   // a file, likewise
}

// some are the first files, at most n.
func (p *pictures) some(n int) []string { return p.files[:min(n, p.images)] }

// Root is the directory that they are in.
func (p *pictures) Root() string { return p.Dataset.Root }

// bytes is the mean size of a file.
func (p *pictures) bytes() float64 { return float64(p.Report.Bytes) / float64(p.images) }

// need makes pictures and their index, once.
func (b *bench) need(ctx context.Context, p *pictures) (err error) {
	if p.Dataset != nil {
		return nil
	}
	b.progress.step("drawing "+p.kind+" images", 0, 1)
	dir, n, classes := filepath.Join(b.work, p.kind+p.format), strconv.Itoa(p.images), strconv.Itoa(min(16, p.images))
	args := []string{"gen", "--out", dir, "--kind", p.kind, "--images", n, "--classes", classes}
	if p.format != "" {
		args = append(args, "--format", p.format)
	}
	if p == &b.real {
		err = drawReal(b.realPhotos, dir, p.images)
	} else {
		_, err = b.command(ctx, args...)
	}
	if err != nil {
		return err
	}
	options := dataset.Options{CacheDir: filepath.Join(b.cache(), "batchfs"), Prober: sample.Probe}
	if p.Dataset, err = dataset.Open(ctx, dir, options); err != nil {
		return err
	}
	for i := range p.images {
		p.files = append(p.files, filepath.Join(dir, p.Path(i)))
	}
	return nil
}

// errNoPhotos means that there are no real photos.
var errNoPhotos = errors.New("the packages that have real photos could not be installed")

// drawReal stores n real photos as PNG files, each several times if there are fewer.
func drawReal(photos, dir string, n int) error {
	files, err := filepath.Glob(filepath.Join(photos, "97", "*.jpg"))
	if err == nil && len(files) == 0 {
		err = errNoPhotos
	}
	if err != nil {
		return err
	}
	var encoded [][]byte
	for _, name := range files[:min(len(files), n)] {
		data, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		photo, err := jpeg.Decode(bytes.NewReader(data))
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		var file bytes.Buffer
		if err := png.Encode(&file, photo); err != nil {
			return err
		}
		encoded = append(encoded, file.Bytes())
	}
	class := filepath.Join(dir, "real")
	if err := os.MkdirAll(class, 0o755); err != nil {
		return err
	}
	for i := range n {
		if err := os.WriteFile(filepath.Join(class, fmt.Sprintf("%04d.png", i)), encoded[i%len(encoded)], 0o644); err != nil {
			return err
		}
	}
	return nil
}

// manifestOf writes a manifest, and its index.
func (b *bench) manifestOf(ctx context.Context, path, header string, rows int, row func(i int) string) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	w := bufio.NewWriter(f)
	fmt.Fprintln(w, header)
	for i := range rows {
		fmt.Fprintln(w, row(i))
	}
	if err := errors.Join(w.Flush(), f.Close()); err != nil {
		return err
	}
	_, err = b.command(ctx, "index", path)
	return err
}

// command runs a command of batchfs and returns what it prints.
func (b *bench) command(ctx context.Context, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, b.batchfs, args...)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("batchfs %s: %w", args[0], err)
	}
	return out, nil
}
