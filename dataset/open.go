package dataset

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"

	"github.com/batchfs/batchfs/internal/promptly"
)

// Options say how to open a dataset. Prober is required.
type Options struct {
	// CacheDir is where index files are kept; it is created if needed. "": no index is kept. A
	// CacheDir inside the dataset is not used.
	CacheDir string
	// Workers is how many files are scanned at once; below 1: one per usable CPU.
	Workers int
	// AllowOutside lets a manifest's paths leave its directory.
	AllowOutside bool
	// Rescan compares every file with the index even if nothing suggests a change. It finds
	// files that were rewritten in place, which leave no other trace.
	Rescan bool
	// Storage says how files are read.
	Storage Storage
	// Prober reads image headers.
	Prober Prober
	// Progress, if not nil, reports how many of the files to scan are done. Calls do not
	// overlap, done never decreases, and the last call has done == total. There is no call if
	// there is nothing to scan.
	Progress func(done, total int64)
	// Logger, if not nil, is told why an index was not used or not written, and why files
	// cannot be read as Storage says.
	Logger *slog.Logger
}

// Open opens the dataset at path: from its index if that is current, else by listing it and
// reading the headers of files that the index does not know. The caller closes the dataset.
// When ctx is done, Open returns its error promptly, even if the storage hangs: it abandons the
// blocked calls, and what they return later is closed.
func Open(ctx context.Context, path string, o Options) (*Dataset, error) {
	if o.Prober == nil {
		return nil, errors.New("dataset: Options.Prober is nil")
	}
	if err := o.Storage.validate(); err != nil {
		return nil, fmt.Errorf("dataset: %w", err)
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	var stop func()
	o.Progress, stop = promptly.Progress(o.Progress)
	defer stop()
	return promptly.Do(ctx, func() (*Dataset, error) { return open(ctx, path, o) }, func(d *Dataset) { d.Close() })
}

func open(ctx context.Context, path string, o Options) (*Dataset, error) {
	src, err := locate(path)
	if err != nil {
		return nil, err
	}
	p := &opening{Options: o, ctx: ctx, src: src, roots: &roots{path: src.root}, storage: newStorage(o.Storage, o.Logger)}
	p.roots.current.Store(src.dir)
	x, err := p.run()
	if err != nil {
		p.roots.close()
		return nil, err
	}
	return newDataset(p, x), nil
}

// opening is the state of one Open.
type opening struct {
	Options
	ctx       context.Context
	src       *source
	roots     *roots // the source's directory, or its replacement
	storage   *storage
	indexFile string // "": none
	report    Report
}

func (p *opening) run() (*index, error) {
	old := p.load()
	if old != nil && !p.Rescan && old.current(p.ctx, p.src) {
		return old, p.retry(old)
	}
	if err := p.ctx.Err(); err != nil {
		return nil, err
	}
	l, err := p.list()
	if err != nil {
		return nil, err
	}
	if err := p.scan(l.table, old, l.table.unprobed()); err != nil {
		return nil, err
	}
	x := newIndex(p.src, l)
	p.save(x)
	return x, p.ctx.Err()
}

// load returns the dataset's stored index, nil if there is none to use.
func (p *opening) load() *index {
	if p.CacheDir == "" {
		return nil
	}
	var err error
	if p.indexFile, err = indexPath(p.CacheDir, p.src); err != nil {
		p.keepNone(err)
		return nil
	}
	if err := yourDirectory(p.indexFile); err != nil {
		p.keepNone(err)
		return nil
	}
	x, err := loadIndex(p.ctx, p.indexFile, p.src)
	switch {
	case errors.Is(err, fs.ErrNotExist), p.ctx.Err() != nil:
		return nil
	case err != nil:
		p.Logger.Warn("index not used", "index", p.indexFile, "reason", err)
		return nil
	case x.facts.Outside && !p.AllowOutside:
		return nil // rereading the manifest produces the proper error
	}
	return x
}

// retry rescans the files that could not be opened or read when the index was made. No
// timestamp shows whether they can be read now.
func (p *opening) retry(x *index) error {
	rows := x.table.unsettled()
	p.report.Reused = x.table.rows() - len(rows)
	if len(rows) == 0 {
		return nil
	}
	before := x.facts.Digest
	if err := p.scan(x.table, nil, rows); err != nil {
		return err
	}
	x.settle()
	if x.facts.Digest != before {
		p.save(x)
	}
	return nil
}

func (p *opening) list() (*listing, error) {
	var l *listing
	var err error
	if p.src.manifest == "" {
		l, err = listDirectory(p.ctx, p.src)
	} else {
		l, err = listManifest(p.ctx, p.src, p.storage, p.AllowOutside)
	}
	if err != nil {
		return nil, err
	}
	if l.table.rows() == 0 {
		return nil, emptyError(p.src, l)
	}
	l.table.clip()
	return l, nil
}

// emptyError names the kinds of files found instead of images.
func emptyError(src *source, l *listing) error {
	if len(l.ignored) == 0 {
		return fmt.Errorf("%s: %w", src.name(), ErrEmpty)
	}
	return fmt.Errorf("%s: %w (files of other kinds: %s)", src.name(), ErrEmpty, kindsOf(l.ignored))
}

func (p *opening) scan(t *store, old *index, rows []uint32) error {
	s := &scanner{roots: p.roots, storage: p.storage, table: t, prober: p.Prober, workers: p.Workers, progress: p.Progress}
	if old != nil {
		s.previous = &rowFinder{table: old.table}
	}
	if len(rows) == 0 {
		return nil
	}
	err := s.run(p.ctx, rows)
	p.report.Scanned += s.scanned
	p.report.Reused += s.reused
	return err
}

func (p *opening) save(x *index) {
	if p.indexFile == "" {
		return
	}
	if err := saveIndex(p.ctx, p.indexFile, x); err != nil && p.ctx.Err() == nil {
		p.keepNone(err)
	}
}

func (p *opening) keepNone(err error) {
	p.Logger.Warn("no index is kept", "reason", err)
	p.report.IndexProblem = err.Error()
	p.indexFile = ""
}
