package dataset

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
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

// packedKinds are extensions of files that may hold many images and are not read.
var packedKinds = strings.Fields("tgz gz bz2 xz zst 7z rar rec lmdb h5 hdf5 arrow")

// manifests are the names that a directory's manifest may have, as in Hugging Face's image folders.
var manifests = []string{"metadata.csv", "metadata.jsonl", "metadata.parquet"}

// locate determines what path is. The caller closes the stores, if there are any.
func locate(ctx context.Context, path string, o *Options) (src *source, err error) {
	src, o.opened = &source{labels: o.LabelColumn}, map[string]store.Store{}
	if store.IsURL(path) {
		err = src.locateObject(ctx, path, o)
	} else {
		err = src.locateFile(ctx, path, o)
	}
	columns := src.folder() || src.hasColumns() || slices.ContainsFunc(src.entries, (*source).hasColumns)
	if err == nil && o.LabelColumn != "" && !columns {
		err = errNoColumns(o.LabelColumn)
	}
	src.stores = slices.Collect(maps.Values(o.opened))
	if err != nil {
		_ = src.close()
	}
	return src, err
}

// hasColumns says whether there are columns to choose from. Those of a folder show when it is
// listed.
func (s *source) hasColumns() bool {
	return s.manifest != "" || slices.ContainsFunc(s.archives, isTable)
}

// isTable says whether a name, or a pattern, is that of an archive with columns.
func isTable(name string) bool {
	kind := archive.ExtensionKey(strings.TrimSuffix(strings.ToLower(name), ".zstd"))
	return kind == "parquet" || kind == "mds"
}

func errNoColumns(label string) error {
	return &option.Error{Field: "label column", Rule: "left out: the dataset has no columns", Value: label}
}

// openStore is store.Open, which it calls once for each store.
func (o *Options) openStore(ctx context.Context, url string) (remote store.Store, name string, err error) {
	place, name := store.Split(url)
	if remote = o.opened[place]; remote != nil {
		return remote, name, nil
	}
	if remote, name, err = store.Open(ctx, url, o.Store); err == nil {
		o.opened[place] = remote
	}
	return remote, name, err
}

func (s *source) locateFile(ctx context.Context, path string, o *Options) error {
	abs, err := filepath.Abs(path)
	if err != nil {
		return err
	}
	info, err := os.Stat(abs)
	if errors.Is(err, unix.ENOTDIR) {
		file, within := splitArchive(abs)
		if known, e := os.Stat(file); e == nil && known.Mode().IsRegular() {
			abs, s.within, info, err = file, within, known, nil
		}
	}
	missing := errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENOTDIR)
	dir := abs
	switch {
	case missing && isPattern(abs):
		dir, s.archives = splitPattern(abs)
	case missing:
		return fmt.Errorf("%s: %w", path, ErrNotExist)
	case err != nil:
		return err
	case info.IsDir():
		if s.manifest, err = metadata(abs, o); err != nil {
			return err
		}
	case !info.Mode().IsRegular():
		return fmt.Errorf("%s: %w", path, ErrKind)
	case isList(abs):
		text, err := readListFile(abs)
		if err == nil {
			s.list = abs
			err = s.takeList(ctx, "", filepath.Dir(abs)+"/", text, o)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		return nil
	default:
		// Resolve only the directory: paths are relative to the directory of the given name,
		// even if that name is a link.
		dir = filepath.Dir(abs)
		err := s.takeFile(filepath.Base(abs), func() (bool, error) {
			f, err := os.Open(abs)
			if err != nil {
				return false, err
			}
			defer f.Close()
			return holdsImages(f, info.Size()), nil
		})
		if err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
	}
	return s.setDirectory(dir)
}

// setDirectory sets the directory that paths are relative to.
func (s *source) setDirectory(dir string) (err error) {
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

// setURL sets it for a store.
func (s *source) setURL() {
	s.dir = strings.TrimRight(s.remote.URL(s.prefix), "/") + "/"
	s.lead = s.dir
}

// splitArchive divides the path of a folder in an archive into that of the archive and that in it.
func splitArchive(name string) (file, within string) {
	for i, c := range []byte(name) {
		if c == '/' && i < len(name)-1 && archive.Is(name[:i]) {
			return name[:i], strings.Trim(name[i:], "/") + "/"
		}
	}
	return name, ""
}

// takeFile decides whether a file is a manifest or an archive. images says which of them a Parquet
// file is.
func (s *source) takeFile(name string, images func() (bool, error)) error {
	packed := archive.Is(name)
	if manifestReader(name) != nil {
		var err error
		if packed = packed && archive.ExtensionKey(name) == "parquet"; packed {
			packed, err = images()
		}
		if err != nil {
			return err
		}
		if !packed {
			s.manifest = name
			return nil
		}
	}
	if !packed && slices.Contains(packedKinds, archive.ExtensionKey(name)) {
		return fmt.Errorf("%w: files of this kind are not supported", ErrArchive)
	}
	if !packed {
		return ErrKind
	}
	s.archives = []string{escapePattern(name)}
	return nil
}

// metadata finds the manifest in a directory; "" if it has none.
func metadata(dir string, o *Options) (name string, err error) {
	return o.manifestIn(dir, func(name string) (bool, error) {
		info, err := os.Stat(filepath.Join(dir, name))
		return err == nil && info.Mode().IsRegular(), err
	})
}

// manifestIn finds the manifest in a folder; "" if it has none. find looks for a file there; a
// store is asked in one round trip.
func (o *Options) manifestIn(folder string, find func(name string) (is bool, err error)) (found string, err error) {
	if o.IgnoreMetadata {
		return "", nil
	}
	there, errs := make([]bool, len(manifests)), make([]error, len(manifests))
	var asked sync.WaitGroup
	for i, name := range manifests {
		asked.Go(func() { there[i], errs[i] = find(name) })
	}
	asked.Wait()
	for i, name := range manifests {
		switch err := errs[i]; {
		case errors.Is(err, fs.ErrNotExist), errors.Is(err, store.ErrNotExist):
		case err != nil:
			return "", err
		case there[i] && found != "":
			return "", fmt.Errorf("%s: %w: %s and %s", folder, ErrManifests, found, name)
		case there[i]:
			found = name
		}
	}
	return found, nil
}

// locateObject is locate for a URL.
func (s *source) locateObject(ctx context.Context, url string, o *Options) error {
	remote, name, err := o.openStore(ctx, url)
	if err != nil {
		return err
	}
	return s.locateIn(ctx, remote, name, url, o)
}

// locateIn is locate for a name in a store, of which url has the beginning.
func (s *source) locateIn(ctx context.Context, remote store.Store, name, url string, o *Options) (err error) {
	s.remote, s.store = remote, o.Store.Endpoint
	name, s.within = splitArchive(name)
	base := path.Base(name)
	switch {
	case isList(name):
		var text []byte
		object, err := remote.Stat(ctx, name)
		if err == nil {
			text, err = readList(&objectAt{ctx, remote, object}, object.Size)
		}
		if errors.Is(err, store.ErrNotExist) {
			err = fmt.Errorf("%w: %w", ErrNotExist, err)
		}
		if err == nil {
			s.list = remote.URL(name)
			place, _ := store.Split(url)
			err = s.takeList(ctx, place, name[:len(name)-len(base)], text, o)
		}
		if err != nil {
			err = fmt.Errorf("%s: %w", remote.URL(name), err)
		}
		return err
	case isPattern(name):
		s.prefix, s.archives = splitPattern(name)
	case strings.HasSuffix(name, "/") || manifestReader(base) == nil && !archive.Is(base) && !slices.Contains(packedKinds, archive.ExtensionKey(base)):
		if s.prefix = strings.TrimRight(name, "/"); s.prefix != "" {
			s.prefix += "/"
		}
		s.manifest, err = o.manifestIn(remote.URL(s.prefix), func(name string) (bool, error) {
			_, err := remote.Stat(ctx, s.prefix+name)
			return err == nil, err
		})
		if err != nil {
			return err
		}
	default:
		s.prefix = name[:len(name)-len(base)]
		err = s.takeFile(base, func() (bool, error) {
			o, err := remote.Stat(ctx, name)
			return err == nil && holdsImages(&objectAt{ctx, remote, o}, o.Size), err
		})
		if err != nil {
			return err
		}
	}
	s.setURL()
	return nil
}
