// Package gen makes synthetic datasets: pictures that look enough like photos to be shown, and have
// the file size and decoding cost of photos.
//
// [Photo] imitates ImageNet, [Cityscape] imitates Cityscapes, and [Mixed] has files of every format
// that batchfs can read. [Coco] has shapes that a small network learns in a minute. The annotations
// of [Coco], and those of [Cityscape] if requested, are written beside the pictures in the layouts
// of COCO and Cityscapes. The package is independent of the rest of batchfs.
//
// A picture is a pure function of the seed, the kind and the picture's index, and all arithmetic is
// on integers, so that its pixels are the same on every processor. The standard library and x/image
// encode pictures. For what these cannot write (WebP, progressive and CMYK JPEG, interlaced PNG,
// ...), [Mixed] has files in rare/.
//
// A dataset appears completely or not at all: it is made in a hidden directory inside its final
// place, which is removed if anything fails.
package gen

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"runtime"
	"strconv"

	"github.com/batchfs/batchfs/internal/option"
	"github.com/batchfs/batchfs/internal/parallel"
)

// Kind is the kind of pictures in a dataset.
type Kind uint8

const (
	Photo     Kind = iota // JPEG 500x375, quality 90, 4:2:0, about 100 KB each
	Cityscape             // PNG 2048x1024 RGB, about 2.3 MB each
	Mixed                 // every format and many sizes, small
	Coco                  // JPEG 160x120, discs, squares and triangles, with boxes and polygons
)

var kinds = []string{Photo: "photo", Cityscape: "cityscape", Mixed: "mixed", Coco: "coco"}

// String is the name of a kind.
func (k Kind) String() string { return kinds[k] }

// Set implements [flag.Value].
func (k *Kind) Set(name string) error {
	return option.Named(k, "kind", kinds, name)
}

// ErrNotEmpty is the error of Write for a directory that is not empty.
var ErrNotEmpty = errors.New("directory is not empty")

// Options say what to make.
type Options struct {
	Dir     string // must be missing or empty
	Images  int    // at least 1
	Kind    Kind
	Classes int    // class directories, at most as many as images; 0: none, all files in Dir
	Format  string // "" for the kind's own, or one of Formats; Mixed has all, and refuses one
	// Targets writes masks and the boxes of people beside a Cityscape, which has people only then,
	// and a directory for every city. Coco always has targets; the other kinds have none.
	Targets bool
	Seed    uint64
	Workers int // 0: one per processor

	// Progress, if not nil, is called with the number of images made, from 0. Calls do not overlap,
	// and done never decreases.
	Progress func(done, total int64)
}

// Annotated reports whether images have targets.
func (o Options) Annotated() bool { return o.Targets || o.Kind == Coco }

// Write makes a dataset. Image i belongs to class i mod Classes and its path is
// Dir/class-ccc/iiiiii.ext, with more digits if needed. With targets, every fifth image is in the
// split val, and the others are in train. The dataset becomes visible when it is complete; on an
// error, or when ctx is done, everything that was made is removed.
func Write(ctx context.Context, o Options) error {
	if o.Format != "" && o.Kind == Mixed {
		return &option.Error{Field: "format", Rule: "left out with kind mixed, which has every format", Value: o.Format}
	}
	if err := inStage(o.Dir, func(dir string) error { return makeAll(ctx, o, dir) }); err != nil {
		return fmt.Errorf("gen: %w", err)
	}
	return nil
}

// makeAll makes every file in dir.
func makeAll(ctx context.Context, o Options, dir string) error {
	tiles := newTiles(o.Seed)
	shown := make([][]shape, o.Images)
	workers := cmp.Or(o.Workers, runtime.GOMAXPROCS(0))
	err := parallel.Each(ctx, workers, o.Images, o.Progress, func(_ context.Context, items iter.Seq[int]) error {
		m := newMaker(o, tiles)
		for i := range items {
			var data bytes.Buffer
			ext, err := m.image(&data, i)
			if err == nil {
				err = write(filepath.Join(dir, o.path(i, ext)), data.Bytes())
			}
			if err == nil && m.truth != nil {
				err = m.truth.write(dir, i)
			}
			if err != nil {
				return err
			}
			shown[i] = m.shapes
		}
		return nil
	})
	if err == nil && o.Kind == Coco {
		err = o.writeInstances(dir, shown)
	}
	return err
}

// write writes a file, and makes its directory.
func write(name string, data []byte) error {
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		return err
	}
	return os.WriteFile(name, data, 0o644)
}

// path returns image i's path inside the dataset.
func (o Options) path(i int, ext string) string {
	switch {
	case o.Kind == Coco:
		return cocoPath(i, ext)
	case o.Targets:
		return cityPath("leftImg8bit", i, "leftImg8bit"+ext)
	}
	name := fmt.Sprintf("%0*d%s", max(6, len(strconv.Itoa(o.Images-1))), i, ext)
	classes := min(o.Classes, o.Images)
	if classes == 0 {
		return name
	}
	return filepath.Join(fmt.Sprintf("class-%0*d", max(3, len(strconv.Itoa(classes-1))), i%classes), name)
}

// inStage lets fill write into a hidden directory inside dir, and moves the result to dir. The
// hidden directory lies inside dir because only there a rename is certain to stay on one file
// system. On an error, inStage removes what was made, and dir if it did not exist before.
func inStage(dir string, fill func(hidden string) error) (err error) {
	entries, err := os.ReadDir(dir)
	missing := errors.Is(err, fs.ErrNotExist)
	if missing {
		err = os.MkdirAll(dir, 0o755)
	}
	if err != nil {
		return err
	}
	if len(entries) > 0 {
		return fmt.Errorf("%s: %w: it holds %s", dir, ErrNotEmpty, entries[0].Name())
	}
	hidden, err := os.MkdirTemp(dir, ".batchfs-gen-*")
	defer func() {
		os.RemoveAll(hidden)
		if missing && err != nil {
			os.Remove(dir)
		}
	}()
	if err != nil {
		return err
	}
	if err := fill(hidden); err != nil {
		return err
	}
	made, err := os.ReadDir(hidden)
	if err != nil {
		return err
	}
	for i, e := range made {
		if err := os.Rename(filepath.Join(hidden, e.Name()), filepath.Join(dir, e.Name())); err != nil {
			for _, moved := range made[:i] {
				os.RemoveAll(filepath.Join(dir, moved.Name()))
			}
			return err
		}
	}
	return nil
}
