package profile

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"time"
	"unicode/utf8"

	"golang.org/x/sys/unix"

	"github.com/batchfs/batchfs/dataset/convert"
	"github.com/batchfs/batchfs/dataset/sample"
	"github.com/batchfs/batchfs/internal/parallel"
)

// picture is a sample of the dataset used for measuring.
type picture struct {
	path    string // of the original, absolute
	size    int64
	raw     string // of the raw copy; the original if that is raw
	rawSize int64
	already bool // the original is raw
}

// workspace is the directory for all files of the profiler.
type workspace struct {
	dir   string
	other bool // on another device than the dataset
}

// openWorkspace makes the workspace, under a name that a dataset scan ignores. remove
// deletes it and its contents.
func openWorkspace(parent, root string) (w workspace, remove func() error, err error) {
	if parent == "" {
		parent = beside(root)
	}
	if parent, err = filepath.Abs(parent); err != nil {
		return w, nil, err
	}
	if parent, err = filepath.EvalSymlinks(parent); err != nil {
		return w, nil, err
	}
	if rel, err := filepath.Rel(root, parent); err == nil && filepath.IsLocal(rel) {
		return w, nil, fmt.Errorf("%s %w", parent, ErrInside)
	}
	if w.dir, err = os.MkdirTemp(parent, ".batchfs-profile-"); err != nil {
		return w, nil, err
	}
	w.other = !sameDevice(w.dir, root)
	return w, func() error { return os.RemoveAll(w.dir) }, nil
}

// beside returns the dataset's parent directory, which is most likely on the same storage,
// or else the directory for temporary files.
func beside(root string) string {
	parent := filepath.Dir(root)
	if parent == root || !sameDevice(parent, root) || unix.Access(parent, unix.W_OK|unix.X_OK) != nil {
		return os.TempDir()
	}
	return parent
}

func sameDevice(a, b string) bool {
	var first, second unix.Stat_t
	return unix.Stat(a, &first) == nil && unix.Stat(b, &second) == nil && first.Dev == second.Dev
}

// choose takes samples evenly from the whole dataset: the number requested, or as many as
// take reasonable space. It shuffles them, so that any prefix is representative.
func (p *profiler) choose() ([]int32, error) {
	var usable []int32
	for i := range p.ds.Len() {
		h, w := p.ds.Size(i, p.o.Engine.Decoding.IgnoreOrientation)
		if h == 0 || int64(h)*int64(w) > p.o.Engine.Decoding.MaxPixels || p.ds.Problem(i) != "" {
			p.result.Skipped++
		} else if utf8.ValidString(p.ds.Path(i)) { // else a manifest cannot name it
			usable = append(usable, int32(i))
		}
	}
	if len(usable) == 0 {
		return nil, ErrNoSample
	}
	chosen := evenly(usable, p.o.Images)
	if p.o.Images == 0 {
		chosen = evenly(usable, max(defaultImages, 4*p.o.Engine.BatchSize))
		mean := p.rawBytes(chosen) / int64(len(chosen))
		chosen = evenly(usable, min(len(chosen), max(leastImages, int(defaultRawBytes/max(mean, 1)))))
	}
	r := rand.New(rand.NewPCG(p.o.Engine.Seed, 11))
	r.Shuffle(len(chosen), func(i, j int) { chosen[i], chosen[j] = chosen[j], chosen[i] })
	return chosen, nil
}

func evenly(from []int32, n int) []int32 {
	some := make([]int32, min(n, len(from)))
	for k := range some {
		some[k] = from[int64(k)*int64(len(from))/int64(len(some))]
	}
	return some
}

func (p *profiler) rawBytes(samples []int32) (bytes int64) {
	for _, i := range samples {
		if !sample.IsRaw(p.ds, int(i)) {
			bytes += p.o.Raw.FileBytes(p.ds.Size(int(i), p.o.Engine.Decoding.IgnoreOrientation))
		}
	}
	return bytes
}

// makeCopies makes the raw copies. It returns the readable images and how many copies were
// made per second.
func (p *profiler) makeCopies(ctx context.Context) ([]picture, float64, error) {
	chosen, err := p.choose()
	if err != nil {
		return nil, 0, err
	}
	if err := hasSpace(p.work.dir, p.rawBytes(chosen)); err != nil {
		return nil, 0, err
	}
	images := make([]picture, len(chosen))
	workers := min(p.o.Engine.Workers, len(chosen))
	memory := sample.NewMemory(p.o.Engine.MemoryLimit, workers)
	progress := func(done, total int64) {
		if done > 0 {
			p.o.Progress(Copying, int(done), int(total))
		}
	}
	started := time.Now()
	err = parallel.Each(ctx, workers, len(chosen), progress, func(ctx context.Context, items iter.Seq[int]) (err error) {
		maker := convert.NewMaker(p.ds, p.o.Raw, memory)
		defer maker.Close()
		for k := range items {
			if images[k], err = p.makeCopy(ctx, maker, int(chosen[k]), k); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return nil, 0, err
	}
	took := time.Since(started).Seconds()
	readable := images[:0]
	for _, img := range images {
		if img.path != "" {
			readable = append(readable, img)
		}
	}
	if len(readable) == 0 {
		return nil, 0, ErrNoSample
	}
	p.result.Skipped += len(chosen) - len(readable)
	return readable, float64(len(readable)) / took, nil
}

// makeCopy makes the raw copy of sample i. For a bad sample it returns an empty picture.
func (p *profiler) makeCopy(ctx context.Context, maker *convert.Maker, i, number int) (picture, error) {
	img := picture{path: filepath.Join(p.ds.Root(), p.ds.Path(i)), already: sample.IsRaw(p.ds, i)}
	defer maker.Done()
	raw, err := maker.Make(ctx, i) // even if no copy is needed, to see if it is readable
	if sample.OfFile(err) {
		return picture{}, nil
	}
	if err != nil {
		return picture{}, err
	}
	img.size = p.ds.Stat(i).Size
	if img.already {
		img.raw, img.rawSize = img.path, img.size
		return img, nil
	}
	img.raw, img.rawSize = filepath.Join(p.work.dir, strconv.Itoa(number)+raw.Ext), raw.Size()
	err = writeThrough(img.raw, raw)
	if errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT) {
		err = fmt.Errorf("%w: %w", ErrSpace, err)
	}
	return img, err
}

// writeThrough writes a file to disk, so that no measurement waits for the write-back
// later.
func writeThrough(path string, raw *convert.Raw) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	if err = raw.Write(f); err == nil {
		err = unix.Fdatasync(int(f.Fd()))
	}
	return errors.Join(err, f.Close())
}

// hasSpace checks for free space and leaves a tenth of it to others.
func hasSpace(dir string, need int64) error {
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		return &fs.PathError{Op: "statfs", Path: dir, Err: err}
	}
	free := int64(st.Bavail) * int64(st.Frsize)
	if st.Blocks > 0 && need > free-free/10 {
		return fmt.Errorf("%w in %s: %d bytes are needed, %d are free", ErrSpace, dir, need, free)
	}
	return nil
}
