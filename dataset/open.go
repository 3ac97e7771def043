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
	// CacheDir is where index files are kept, made if need be; "": no index is
	// kept. One inside the dataset is not used.
	CacheDir string
	// Workers is how many files are looked at at a time; below 1: one a CPU that
	// may be used.
	Workers int
	// AllowOutside lets a manifest's paths leave its directory.
	AllowOutside bool
	// Rescan compares every file with the index even where nothing suggests that
	// one changed. A file that was rewritten in place leaves no other trace.
	Rescan bool
	// Storage says how files are read.
	Storage Storage
	// Prober reads image headers.
	Prober Prober
	// Progress, if not nil, is told how many of the files to be looked at are
	// done. Calls do not overlap, done never falls, and the last call has
	// done == total. Where nothing has to be looked at there is no call.
	Progress func(done, total int64)
	// Logger, if not nil, is told why an index was not used or not written, and where
	// files cannot be read as Storage says.
	Logger *slog.Logger
}

// Open opens the dataset at path: from its index while that is current, else by
// listing it and reading the headers of the files the index does not know. The
// caller closes it. When ctx is done Open returns its error within a moment, also where
// the storage hangs: the calls that wait for it are then left behind, and what they
// return is closed.
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
	roots     *roots // the source's directory, or what took its place
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

// load returns the index that is kept of the dataset, nil if there is none.
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
		return nil // reading the manifest again gives the error its words
	}
	return x
}

// retry looks again at the files that could not be opened or read when the
// index was made: whether they can be now shows in no timestamp.
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

// emptyError says what there was instead of images.
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
