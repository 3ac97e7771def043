package dataset

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/batchfs/batchfs/internal/archive"
	"github.com/batchfs/batchfs/internal/option"
	"github.com/batchfs/batchfs/internal/store"
)

// packedKinds are extensions of files that may hold many images and that batchfs does not read.
var packedKinds = strings.Fields("tgz gz bz2 xz zst 7z rar rec lmdb h5 hdf5 arrow")

// manifests are the names of a directory's manifest, as in Hugging Face's image folders.
var manifests = []string{"metadata.csv", "metadata.jsonl", "metadata.parquet"}

// locate determines what a path leads to. The caller closes the stores in the result.
func locate(ctx context.Context, path string, o *Options) (src *source, err error) {
	src = &source{labels: o.LabelColumn, stores: o.stores}
	name := path
	if store.IsURL(path) {
		src.remote, name, err = o.OpenStore(ctx, path)
	}
	if err == nil {
		err = src.find(ctx, path, name, o)
	}
	columns := src.folder() || src.hasColumns() || slices.ContainsFunc(src.entries, (*source).hasColumns)
	if err == nil && o.LabelColumn != "" && !columns {
		err = errNoColumns(o.LabelColumn)
	}
	if err != nil {
		_ = src.close()
	}
	return src, err
}

// hasColumns says whether the dataset has columns to choose from. For a folder, only a listing
// shows this.
func (s *source) hasColumns() bool {
	return s.manifest != "" || slices.ContainsFunc(s.archives, isTable)
}

// isTable says whether a name or pattern denotes archives with columns.
func isTable(name string) bool {
	kind := archive.ExtensionKey(strings.TrimSuffix(strings.ToLower(name), ".zstd"))
	return kind == "parquet" || kind == "mds"
}

func errNoColumns(label string) error {
	return &option.Error{Field: "label column", Rule: "left out: the dataset has no columns", Value: label}
}

// Kinds of things that a name can lead to.
const (
	aFile = iota
	aFolder
	aList
	aPattern
)

// find points the source at what a name leads to: in a store, whose URL url begins with, or on this
// machine.
func (s *source) find(ctx context.Context, url, name string, o *Options) (err error) {
	shown := name
	if s.remote != nil {
		s.store = o.Store.Endpoint
	} else if name, err = filepath.Abs(name); err != nil {
		return err
	}
	kind, err := s.kindOf(&name)
	dir, base := path.Split(name)
	switch {
	case err != nil:
	case kind == aList:
		if s.remote != nil {
			shown = s.remote.URL(name)
		}
		if err = s.takeList(ctx, url, name, o); err != nil {
			err = fmt.Errorf("%s: %w", shown, err)
		}
		return err
	case kind == aFolder:
		if dir = strings.TrimRight(name, "/"); dir != "" || s.remote == nil {
			dir += "/"
		}
		if err := s.takeMetadata(ctx, dir, o); err != nil {
			return err
		}
	case kind == aPattern:
		dir, s.archives = splitPattern(name)
	default:
		// Resolve only the directory: paths are relative to the directory of the given name, even
		// if the name itself is a link.
		err = s.takeFile(ctx, dir, base)
	}
	switch {
	case err == nil:
		return s.setDirectory(dir)
	case s.remote == nil && !errors.As(err, new(*fs.PathError)):
		err = fmt.Errorf("%s: %w", shown, err)
	}
	return err
}

// kindOf says what a name leads to. If that is a folder in an archive, kindOf removes the folder
// from the name. In a store, the name alone decides.
func (s *source) kindOf(name *string) (kind int, err error) {
	file, within := splitArchive(*name)
	if s.remote != nil {
		*name, s.within = file, within
		base := path.Base(file)
		switch {
		case isList(file):
			return aList, nil
		case isPattern(file):
			return aPattern, nil
		case strings.HasSuffix(file, "/") || manifestReader(base) == nil && !archive.Is(base) && !slices.Contains(packedKinds, archive.ExtensionKey(base)):
			return aFolder, nil
		}
		return aFile, nil
	}
	info, err := os.Stat(*name)
	if errors.Is(err, unix.ENOTDIR) {
		if known, e := os.Stat(file); e == nil && known.Mode().IsRegular() {
			*name, s.within, info, err = file, within, known, nil
		}
	}
	switch missing := errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENOTDIR); {
	case missing && isPattern(*name):
		return aPattern, nil
	case missing:
		return aFile, ErrNotExist
	case err != nil:
		return aFile, err
	case info.IsDir():
		return aFolder, nil
	case !info.Mode().IsRegular():
		return aFile, ErrKind
	case isList(*name):
		return aList, nil
	}
	return aFile, nil
}

// setDirectory sets the directory, or the prefix of keys, that paths are relative to.
func (s *source) setDirectory(dir string) (err error) {
	if s.remote != nil {
		s.prefix = dir
		s.dir = strings.TrimRight(s.remote.URL(dir), "/") + "/"
		s.lead = s.dir
		return nil
	}
	s.lead = strings.TrimRight(dir, "/") + "/"
	if s.dir, err = filepath.EvalSymlinks(dir); err != nil {
		return err
	}
	info, err := os.Stat(s.dir)
	if err == nil {
		s.seen.Store(&info)
	}
	return err
}

// openFile opens a file or an object to determine what kind of source it is.
func (s *source) openFile(ctx context.Context, name string) (r *io.SectionReader, close func() error, err error) {
	if s.remote != nil {
		o, err := s.remote.Stat(ctx, name)
		if errors.Is(err, store.ErrNotExist) {
			err = fmt.Errorf("%w: %w", ErrNotExist, err)
		}
		return io.NewSectionReader(&objectAt{ctx, s.remote, o}, 0, o.Size), func() error { return nil }, err
	}
	f, err := os.OpenFile(name, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, nil, err
	}
	info, err := f.Stat()
	if err != nil {
		f.Close()
		return nil, nil, err
	}
	return io.NewSectionReader(f, 0, info.Size()), f.Close, nil
}

// splitArchive splits the path of a folder in an archive into the archive's path and the folder.
func splitArchive(name string) (file, within string) {
	for i, c := range []byte(name) {
		if c == '/' && i < len(name)-1 && archive.Is(name[:i]) {
			return name[:i], strings.Trim(name[i:], "/") + "/"
		}
	}
	return name, ""
}

// takeFile decides whether a file is a manifest or an archive. For Parquet, the columns decide.
func (s *source) takeFile(ctx context.Context, dir, name string) error {
	packed := archive.Is(name)
	switch {
	case !packed && manifestReader(name) == nil && slices.Contains(packedKinds, archive.ExtensionKey(name)):
		return fmt.Errorf("%w: files of this kind are not supported", ErrArchive)
	case !packed && manifestReader(name) == nil:
		return ErrKind
	case packed && manifestReader(name) != nil:
		f, close, err := s.openFile(ctx, dir+name)
		if err != nil {
			return err
		}
		defer close()
		packed = holdsImages(f, f.Size())
	}
	if packed {
		s.archives = []string{escapePattern(name)}
	} else {
		s.manifest = name
	}
	return nil
}

// takeMetadata looks for a manifest in a folder. In a store, this takes one round trip.
func (s *source) takeMetadata(ctx context.Context, folder string, o *Options) error {
	if o.IgnoreMetadata {
		return nil
	}
	there, errs := make([]bool, len(manifests)), make([]error, len(manifests))
	var asked sync.WaitGroup
	for i, name := range manifests {
		asked.Go(func() {
			if s.remote != nil {
				_, errs[i] = s.remote.Stat(ctx, folder+name)
				there[i] = errs[i] == nil
				return
			}
			info, err := os.Stat(folder + name)
			there[i], errs[i] = err == nil && info.Mode().IsRegular(), err
		})
	}
	asked.Wait()
	for i, name := range manifests {
		switch err := errs[i]; {
		case errors.Is(err, fs.ErrNotExist), errors.Is(err, store.ErrNotExist):
		case errors.Is(err, store.ErrDenied):
			// Amazon says so, too, of what is not there, if the folder may not be listed. The index
			// at a URL is refused if it is not that of the folder without a manifest.
			if store.IsURL(o.IndexAt) {
				continue
			}
			some := errors.New("it has an object")
			listed := s.remote.List(ctx, folder, func(store.Object) error { return some })
			if listed == nil || errors.Is(listed, some) {
				return err
			}
			return listed
		case err != nil:
			return err
		case there[i] && s.manifest != "":
			if s.remote != nil {
				folder = s.remote.URL(folder)
			} else {
				folder = filepath.Clean(folder)
			}
			return fmt.Errorf("%s: %w: %s and %s", folder, ErrManifests, s.manifest, name)
		case there[i]:
			s.manifest = name
		}
	}
	return nil
}
