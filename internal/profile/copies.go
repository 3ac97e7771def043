package profile

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"golang.org/x/sys/unix"

	"github.com/batchfs/batchfs/decode"
	"github.com/batchfs/batchfs/internal/convert"
	"github.com/batchfs/batchfs/internal/fault"
	"github.com/batchfs/batchfs/internal/owned"
	"github.com/batchfs/batchfs/internal/parallel"
	"github.com/batchfs/batchfs/internal/resolve"
	"github.com/batchfs/batchfs/internal/sample"
	"github.com/batchfs/batchfs/shard"
)

// picture is a sample of the dataset used for measuring.
type picture struct {
	is    shard.Cost
	files [shard.NumCosts]file // the original in its own form, and its copies in other forms
}

type file struct {
	path string // absolute; "": no file
	size int64
}

// A workspace is the directory for all files of a profiler. It is locked while the profiler lives,
// so that a later one can tell what a killed one has left behind.
type workspace struct {
	dir  string
	lock *os.File
}

// workspaceName begins the name of a workspace; a dataset scan ignores it.
const workspaceName = ".batchfs-profile-"

// makeWorkspace makes a workspace, and removes those of killed profilers beside it. root is empty
// if there is no directory of the dataset's files.
func makeWorkspace(parent, root string) (w workspace, err error) {
	if parent == "" {
		parent = beside(root)
	}
	if parent, err = filepath.Abs(parent); err != nil {
		return w, err
	}
	if parent, err = filepath.EvalSymlinks(parent); err != nil {
		return w, err
	}
	if root != "" && resolve.Within(parent, root) {
		return w, fmt.Errorf("%s %w", parent, convert.ErrInside)
	}
	removeAbandoned(parent)
	for {
		if w.dir, err = os.MkdirTemp(parent, workspaceName); err != nil {
			return w, err
		}
		if w.lock, err = os.Open(w.dir); err == nil {
			_ = owned.Lock(w.lock, unix.LOCK_EX) // where nothing can be locked, nothing is taken for abandoned
			if _, err = os.Lstat(w.dir); err == nil {
				return w, nil
			}
			w.lock.Close()
		}
		if !errors.Is(err, fs.ErrNotExist) { // another profiler took it for abandoned
			return w, errors.Join(err, os.RemoveAll(w.dir))
		}
	}
}

// removeAbandoned removes the workspaces in a directory that no living profiler has locked.
func removeAbandoned(parent string) {
	entries, _ := os.ReadDir(parent)
	for _, e := range entries {
		if !strings.HasPrefix(e.Name(), workspaceName) {
			continue
		}
		dir := filepath.Join(parent, e.Name())
		lock, err := os.OpenFile(dir, os.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW, 0)
		if err != nil {
			continue
		}
		if owned.Lock(lock, unix.LOCK_EX|unix.LOCK_NB) == nil {
			_ = os.RemoveAll(dir) // it may be another user's
		}
		lock.Close()
	}
}

// remove removes the workspace.
func (w workspace) remove() error { return errors.Join(os.RemoveAll(w.dir), w.lock.Close()) }

// beside returns the dataset's parent directory, which is most likely on the same storage,
// or else the directory for temporary files.
func beside(root string) string {
	parent := filepath.Dir(root)
	if root == "" || parent == root || !sameDevice(parent, root) || unix.Access(parent, unix.W_OK|unix.X_OK) != nil {
		return os.TempDir()
	}
	return parent
}

func sameDevice(a, b string) bool {
	var first, second unix.Stat_t
	return unix.Stat(a, &first) == nil && unix.Stat(b, &second) == nil && first.Dev == second.Dev
}

// choose takes samples evenly from the whole dataset: the number requested, or as many as take
// reasonable space. It shuffles them, so that any prefix is representative. space is how much their
// copies take, an estimate for packed ones.
func (p *profiler) choose() (chosen []int, space int64) {
	evenly := func(n int) (bytes int64) {
		chosen = make([]int, min(n, p.ds.Len()))
		for k := range chosen {
			chosen[k] = k * p.ds.Len() / len(chosen)
			if rootOf(p.ds) == "" {
				bytes += p.ds.Stat(chosen[k]).Size
			}
			h, w := p.ds.Size(chosen[k], p.o.Raw.IgnoreOrientation)
			if sample.CostOf(p.ds, chosen[k]) != shard.Encoded || h == 0 {
				continue
			}
			if p.may(shard.Raw) {
				bytes += p.o.Raw.FileBytes(h, w)
			}
			if p.may(shard.Packed) {
				bytes += convert.LikelyPacked(p.ds, chosen[k])
			}
		}
		return bytes
	}
	space = evenly(cmp.Or(p.o.Images, max(defaultImages, 4*p.o.Engine.BatchSize)))
	if p.o.Images == 0 && space > defaultCopyBytes {
		space = evenly(max(leastImages, int(defaultCopyBytes*int64(len(chosen))/space)))
	}
	r := rand.New(rand.NewPCG(p.o.Engine.Seed, 11))
	r.Shuffle(len(chosen), func(i, j int) { chosen[i], chosen[j] = chosen[j], chosen[i] })
	return chosen, space
}

// may says whether images may get a form.
func (p *profiler) may(f shard.Cost) bool { return slices.Contains(p.o.Forms, f) }

// makeCopies makes the copies of the readable images. It returns how many were made per
// second.
func (p *profiler) makeCopies(ctx context.Context) (rate float64, err error) {
	chosen, space := p.choose()
	if err := hasSpace(p.work, space); err != nil {
		return 0, err
	}
	p.images = make([]picture, len(chosen))
	workers := min(p.o.Engine.Workers, len(chosen))
	memory := sample.NewMemory(p.o.Engine.MemoryLimit, workers)
	started := time.Now()
	err = parallel.Each(ctx, workers, len(chosen), p.o.Copied, func(ctx context.Context, items iter.Seq[int]) (err error) {
		maker := convert.NewMaker(p.ds, p.o.Raw, memory)
		defer maker.Close()
		for k := range items {
			if p.images[k], err = p.makeCopy(ctx, maker, chosen[k], k); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return 0, err
	}
	p.images = slices.DeleteFunc(p.images, func(img picture) bool { return img == picture{} })
	if len(p.images) == 0 {
		return 0, ErrNoSample
	}
	p.result.Skipped = len(chosen) - len(p.images)
	return float64(len(p.images)) / time.Since(started).Seconds(), nil
}

// makeCopy makes the copies of sample i. It returns an empty picture for a bad sample, or one that
// a manifest cannot name.
func (p *profiler) makeCopy(ctx context.Context, maker *convert.Maker, i, number int) (picture, error) {
	defer maker.Done()
	raw, err := maker.Make(ctx, i, shard.Raw) // always, to see whether it is readable
	if fault.Of(err) == fault.File || !utf8.ValidString(p.ds.Path(i)) {
		return picture{}, nil
	}
	if err != nil {
		return picture{}, err
	}
	img := picture{is: sample.CostOf(p.ds, i)}
	original := &img.files[img.is]
	*original = file{filepath.Join(p.ds.Root, p.ds.Path(i)), p.ds.Stat(i).Size}
	put := func(to *file, made convert.File) error {
		*to = file{filepath.Join(p.work, strconv.Itoa(number)+made.Ext), made.Size}
		return writeThrough(to.path, made.Write)
	}
	if img.is == shard.Encoded && p.may(shard.Raw) {
		err = put(&img.files[shard.Raw], raw)
	}
	if img.is == shard.Encoded && p.may(shard.Packed) && err == nil {
		packed, failed := maker.Make(ctx, i, shard.Packed)
		if err = failed; err == nil {
			err = put(&img.files[shard.Packed], packed)
		} else if errors.Is(err, decode.ErrNoPackedForm) {
			err = nil
		}
	}
	if rootOf(p.ds) == "" && err == nil {
		var data []byte
		if data, err = maker.Fetch(ctx, i); err == nil {
			err = put(original, convert.FileOf(".original", data))
		}
	}
	return img, err
}

// writeThrough writes a file to disk, so that no measurement waits for the write-back
// later.
func writeThrough(path string, write func(to io.Writer) error) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	if err = write(f); err == nil {
		err = unix.Fdatasync(int(f.Fd()))
	}
	if err = errors.Join(err, f.Close()); errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT) {
		err = fmt.Errorf("%w for copies: %w", convert.ErrSpace, err)
	}
	return err
}

// hasSpace checks for free space and leaves a tenth of it to others.
func hasSpace(dir string, need int64) error {
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		return &fs.PathError{Op: "statfs", Path: dir, Err: err}
	}
	free := int64(st.Bavail) * int64(st.Frsize)
	if st.Blocks > 0 && need > free-free/10 {
		return fmt.Errorf("%w for copies in %s: %d bytes are needed, %d are free", convert.ErrSpace, dir, need, free)
	}
	return nil
}
