package annotation

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"path"
	"path/filepath"
	"strings"

	"github.com/batchfs/batchfs/internal/archive"
	"github.com/batchfs/batchfs/internal/store"
)

// object returns the object at a URL: its listed version, or else the present one.
func (p *places) object(url string) (remote store.Store, o store.Object, err error) {
	remote, name, err := p.source.OpenStore(p.ctx, url)
	if err != nil {
		return nil, o, err
	}
	o, known := p.objects[url]
	if !known {
		o, err = remote.Stat(p.ctx, name)
	}
	return remote, o, err
}

// statURL says what a URL leads to. A name that other names begin with is a folder.
func (p *places) statURL(url string) (is placed, err error) {
	if _, name := store.Split(url); name == "" {
		return placed{kind: aFolder}, nil
	}
	remote, o, err := p.object(url)
	if err == nil {
		return placed{aFile, o.Size, fmt.Sprintf(" %d %s %d", o.Size, o.Version, o.ModTime)}, nil
	}
	if remote == nil || !errors.Is(err, store.ErrNotExist) {
		return is, err
	}
	_, name := store.Split(url)
	found := errors.New("found")
	name = strings.TrimRight(name, "/") + "/"
	switch e := remote.List(p.ctx, name, func(store.Object) error { return found }); {
	case errors.Is(e, found):
		return placed{kind: aFolder}, nil
	case e == nil || errors.Is(e, store.ErrNoList):
		return placed{kind: nothing}, err
	default:
		return is, e
	}
}

// listURL lists what is below a URL.
func (p *places) listURL(url string) (names []string, err error) {
	remote, prefix, err := p.source.OpenStore(p.ctx, url)
	if err != nil {
		return nil, err
	}
	if prefix = strings.TrimRight(prefix, "/"); prefix != "" {
		prefix += "/"
	}
	err = remote.List(p.ctx, prefix, func(o store.Object) error {
		name := strings.TrimPrefix(o.Name, prefix)
		for part := range strings.SplitSeq(name, "/") {
			if part == "" || archive.Hidden(part) {
				return nil
			}
		}
		names = append(names, name)
		p.objects[join(url, name)] = o
		return nil
	})
	return names, err
}

// openURL opens the object at a URL.
func (p *places) openURL(url string) (io.ReadCloser, int64, error) {
	remote, o, err := p.object(url)
	if err != nil {
		return nil, 0, err
	}
	const request = 8 << 20 // bytes
	at := readerAt(func(to []byte, offset int64) (int, error) {
		return remote.ReadAt(p.ctx, o, to, offset)
	})
	in := bufio.NewReaderSize(io.NewSectionReader(at, 0, o.Size), int(min(request, max(o.Size, 1))))
	return io.NopCloser(in), o.Size, nil
}

// readerAt is an io.ReaderAt.
type readerAt func(p []byte, offset int64) (int, error)

func (f readerAt) ReadAt(p []byte, offset int64) (int, error) { return f(p, offset) }

// join is filepath.Join, also for URLs.
func join(dir string, names ...string) string {
	if !store.IsURL(dir) {
		return filepath.Join(append([]string{dir}, names...)...)
	}
	place, name := store.Split(dir)
	return strings.TrimRight(place, "/") + "/" + path.Join(append([]string{name}, names...)...)
}

// dirOf is filepath.Dir, also for URLs; the directory of a store is the store itself.
func dirOf(name string) string {
	if !store.IsURL(name) {
		return filepath.Dir(name)
	}
	place, within := store.Split(name)
	if within = path.Dir(strings.TrimRight(within, "/")); within == "." {
		within = ""
	}
	return strings.TrimRight(place, "/") + "/" + within
}
