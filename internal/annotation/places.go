package annotation

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"

	"github.com/cespare/xxhash/v2"
	"golang.org/x/sys/unix"

	"github.com/batchfs/batchfs/internal/archive"
	"github.com/batchfs/batchfs/internal/dataset"
	"github.com/batchfs/batchfs/internal/store"
)

// places looks for annotations, here and in stores. It remembers everything that was examined, and
// its state: while all of it stays the same, so does the result.
type places struct {
	ctx     context.Context
	source  dataset.Options          // of the images
	found   map[string]*dataset.Rows // of datasets, by path
	objects map[string]store.Object  // that were listed in stores, by URL
	failed  error                    // error of a store during a search
	marks   []mark
	// unsettled: a file was modified so recently that another change may leave the same time.
	unsettled atomic.Bool
	listed    map[string][]string // files below a folder
	bytes     map[string]int64    // of the files below a folder whose contents matter
	report    func(done, total int64)
	done      int64 // bytes read, and bytes known so far that will be read
	total     int64
}

func newPlaces(ctx context.Context, o *Options) *places {
	return &places{
		ctx: ctx, source: o.Source, report: o.Progress,
		found: map[string]*dataset.Rows{}, listed: map[string][]string{}, bytes: map[string]int64{},
		objects: map[string]store.Object{},
	}
}

// close closes everything that was opened.
func (p *places) close() {
	for _, rows := range p.found {
		if rows != nil {
			_ = rows.Close()
		}
	}
}

// A mark is one thing that was examined.
type mark struct {
	How    looking
	Path   string
	Ending string `json:",omitempty"` // of files below Path
	Value  string
}

// looking is the aspect that a mark covers.
type looking string

const (
	whatItIs   looking = "is"    // a folder, nothing, or a file with its size and time
	namesBelow looking = "names" // names of the files below a folder
	filesBelow looking = "files" // names, sizes and times of the files below a folder
	columns    looking = "rows"  // the files with columns of a dataset
)

// mark records the state of something before it is used, and returns that state.
func (p *places) mark(how looking, path, ending string) (string, error) {
	for _, m := range p.marks {
		if m.How == how && m.Path == path && m.Ending == ending {
			return m.Value, nil
		}
	}
	value, err := p.value(how, path, ending)
	if err == nil {
		p.marks = append(p.marks, mark{how, path, ending, value})
	}
	return value, err
}

// same reports whether all states are the same as before.
func (p *places) same(marks []mark) (bool, error) {
	for _, m := range marks {
		if value, err := p.value(m.How, m.Path, m.Ending); err != nil || value != m.Value {
			return false, err
		}
	}
	return !p.unsettled.Load(), nil
}

// value returns the state of something.
func (p *places) value(how looking, path, ending string) (string, error) {
	switch how {
	case whatItIs:
		is, err := p.stat(path)
		if err != nil && store.IsURL(path) && !errors.Is(err, store.ErrNotExist) {
			p.failed = cmp.Or(p.failed, err)
			return "", err
		}
		if err != nil {
			return nothing, nil // reading it reports the problem
		}
		return is.kind + is.version, nil
	case columns:
		rows, err := p.rows(path)
		if rows == nil {
			return "", err
		}
		return rows.Version, nil
	}
	files, err := p.walk(path, ending)
	if err != nil {
		return "", err
	}
	sum, size := xxhash.New(), int64(0)
	err = inOrder(p.ctx, p.source.Workers, len(files), func(_ context.Context, k int) (is placed, err error) {
		if how == filesBelow {
			is, err = p.stat(join(path, files[k]))
		}
		return is, err
	}, func(k int, is placed) {
		fmt.Fprintf(sum, "%q %s\n", files[k], is.version)
		size += is.size
	})
	p.bytes[path] = size
	return fmt.Sprintf("%016x", sum.Sum64()), err
}

// rows returns the rows of a dataset; nil: it has none.
func (p *places) rows(path string) (rows *dataset.Rows, err error) {
	rows, known := p.found[path]
	if !known {
		if rows, err = dataset.FindRows(p.ctx, path, p.source); err != nil {
			return nil, err
		}
		p.found[path] = rows
	}
	if rows != nil && rows.Unsettled {
		p.unsettled.Store(true)
	}
	return rows, nil
}

// Kinds of things at a path.
const (
	nothing  = "nothing"
	aFolder  = "a folder"
	aFile    = "a file"
	anything = "something else"
)

// placed is the thing at a path.
type placed struct {
	kind    string
	size    int64
	version string // size and time of a file
}

// stat returns what is at a path.
func (p *places) stat(path string) (is placed, err error) {
	if store.IsURL(path) {
		return p.statURL(path)
	}
	now := time.Now()
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return placed{kind: nothing}, err
	case err != nil:
		return is, err
	case info.IsDir():
		return placed{kind: aFolder}, nil
	case !info.Mode().IsRegular():
		return placed{kind: anything}, nil
	}
	if dataset.Unsettled(info.ModTime(), now) {
		p.unsettled.Store(true)
	}
	version := fmt.Sprintf(" %d %d", info.Size(), info.ModTime().UnixNano())
	return placed{aFile, info.Size(), version}, nil
}

func (p *places) isDir(path string) bool { return p.is(path, aFolder) }

func (p *places) isFile(path string) bool { return p.is(path, aFile) }

func (p *places) is(path, kind string) bool {
	value, err := p.mark(whatItIs, path, "")
	return err == nil && strings.HasPrefix(value, kind)
}

// files lists, in order, the files below a folder whose names have an ending. matter says whether
// only their names matter, or also their contents.
func (p *places) files(dir, ending string, matter looking) ([]string, error) {
	if _, err := p.mark(matter, dir, ending); err != nil {
		return nil, err
	}
	return p.walk(dir, ending)
}

// walk is files for a folder that no result depends on yet.
func (p *places) walk(dir, ending string) (some []string, err error) {
	all, known := p.listed[dir]
	if !known {
		if store.IsURL(dir) {
			all, err = p.listURL(dir)
		} else {
			err = p.list(dir, "", 0, &all)
		}
		if err != nil {
			return nil, err
		}
		p.listed[dir] = all
	}
	for _, name := range all {
		if strings.HasSuffix(stored(name), ending) {
			some = append(some, name)
		}
	}
	return some, nil
}

// maxDepth ends a walk through links that lead back.
const maxDepth = 64

// list appends the files of the folder below in dir, and the files below that.
func (p *places) list(dir, below string, depth int, to *[]string) error {
	entries, err := os.ReadDir(filepath.Join(dir, below))
	if err == nil && depth > maxDepth {
		err = fmt.Errorf("%s: folders in folders, more than %d", filepath.Join(dir, below), maxDepth)
	}
	err = errors.Join(err, p.ctx.Err())
	for _, e := range entries {
		name := path.Join(below, e.Name())
		switch {
		case err != nil:
			return err
		case archive.Hidden(e.Name()):
		case isFolder(dir, name, e):
			err = p.list(dir, name, depth+1, to)
		default:
			*to = append(*to, name)
		}
	}
	return err
}

// isFolder reports whether an entry of a folder is a folder, or a link to one.
func isFolder(dir, name string, e fs.DirEntry) bool {
	if e.Type()&fs.ModeSymlink == 0 {
		return e.IsDir()
	}
	info, err := os.Stat(filepath.Join(dir, name))
	return err == nil && info.IsDir()
}

// open opens a file, and returns its size. The caller closes it.
func (p *places) open(path string) (io.ReadCloser, int64, error) {
	is, err := p.stat(path)
	switch {
	case err != nil:
		return nil, 0, err
	case is.kind != aFile:
		return nil, 0, fmt.Errorf("%s: not a regular file", path)
	case store.IsURL(path):
		return p.openURL(path)
	}
	// A FIFO that has replaced the file must not block.
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK, 0)
	return f, is.size, err
}

// readSmall reads a small file, and marks it, so that a later mount notices a change. readOne reads
// a file that is already marked.
func (p *places) readSmall(path string) ([]byte, error) {
	if _, err := p.mark(whatItIs, path, ""); err != nil {
		return nil, err
	}
	return p.readOne(path)
}

const maxFile = 16 << 20 // bytes of a file about one image

func (p *places) readOne(path string) ([]byte, error) {
	in, size, err := p.open(path)
	if err != nil {
		return nil, err
	}
	defer in.Close()
	if size > maxFile {
		return nil, fmt.Errorf("%s: it is longer than %d MiB", path, maxFile>>20)
	}
	text := make([]byte, size)
	if _, err = io.ReadFull(in, text); err != nil {
		err = fmt.Errorf("%s: %w", path, err)
	}
	return text, err
}

// progress reports that read more bytes were read, and that the total has grown by more bytes.
func (p *places) progress(read, more int64) {
	p.done += read
	p.total += more
	if p.report != nil {
		p.report(min(p.done, p.total), p.total)
	}
}
