package dataset

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"slices"
	"strings"

	"github.com/batchfs/batchfs/internal/option"
	"github.com/batchfs/batchfs/internal/promptly"
	"github.com/batchfs/batchfs/internal/store"
)

// Options say how to open a dataset. Prober is required.
type Options struct {
	// CacheDir is where index files are kept; it is created if needed. "": no index is kept. A
	// CacheDir inside the dataset is not used.
	CacheDir string
	// IndexAt is where the index is kept instead: a directory, or a file whose name ends in .parquet. If
	// it is a URL, the index there has to be one of this dataset, and a copy of it is used. Unless Rescan
	// is set, what is in a store is not listed then.
	IndexAt string
	// Part, if not zero, has only that part of the index made and stored, for Merge. The dataset that is
	// opened has its samples in no particular order, and without their classes' labels.
	Part Share
	// Merge makes the index of its parts, instead of the dataset. The error is a [PartsError] if one is
	// missing or the dataset has changed since.
	Merge bool
	// Workers is how many files are scanned at once; below 1: one per usable CPU. A store gets at least so many requests at once, now
	// and later.
	Workers int
	// Memory is how many bytes Open may hold of what it reads while it looks for samples and their headers, however
	// many Workers there are: 96 MiB at most, also if it is below 1. What needs more is read alone. Samples take up to
	// 200 bytes each besides.
	Memory int64
	// AsClasses takes folders as classes even if they are named like parts of a dataset; see
	// FoldersError.
	AsClasses bool
	// Classes are the classes in label order: a dataset with others is ErrClasses. nil: those
	// of the dataset.
	Classes []string
	// IgnoreMetadata reads a directory's folders even if a metadata.csv, metadata.jsonl or
	// metadata.parquet in it could be its manifest.
	IgnoreMetadata bool
	// LabelColumn is the column of labels of the manifest, or of archives of the kinds parquet and mds.
	// "": the one with a usual name, if there is one.
	LabelColumn string
	// AllowOutside lets a manifest's paths leave its directory.
	AllowOutside bool
	// Rescan compares every file with the index even if nothing suggests a change. It finds
	// files that were rewritten in place, which leave no other trace.
	Rescan bool
	// Storage says how files are read.
	Storage Storage
	// Store says how a store is reached, if the dataset is in one.
	Store store.Options
	// Prober reads image headers.
	Prober Prober

	opened map[string]store.Store // by the beginnings of their URLs
	// Progress, if not nil, reports how many of the files to scan are done. Calls do not
	// overlap, done never decreases, and the last call has done == total. There is no call if
	// there is nothing to scan.
	Progress func(done, total int64)
	// Listing, if not nil, reports how many bytes of the archives were searched for samples, before
	// Progress is called. It is called like that.
	Listing func(done, total int64)
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
	if err := option.AtLeast("max read bandwidth", o.Storage.MaxBandwidth, 0); err != nil {
		return nil, err
	}
	o.Logger = cmp.Or(o.Logger, slog.New(slog.DiscardHandler))
	var stop func()
	o.Progress, stop = promptly.Progress(o.Progress)
	defer stop()
	o.Listing, stop = promptly.Progress(o.Listing)
	defer stop()
	return promptly.Do(ctx, func() (*Dataset, error) { return open(ctx, path, o) }, func(d *Dataset) { d.Close() })
}

func open(ctx context.Context, path string, o Options) (*Dataset, error) {
	o.Store.Logger, o.Store.MaxRequests = cmp.Or(o.Store.Logger, o.Logger), max(o.Store.MaxRequests, o.Workers, asked)
	src, err := locate(ctx, strings.TrimPrefix(path, "file://"), &o)
	if err != nil {
		return nil, err
	}
	p := &opening{Options: o, ctx: ctx, src: src, storage: newStorage(o.Storage, src, o.Logger)}
	if o.Memory < 1 || o.Memory > usualMemory {
		p.Memory = usualMemory
	}
	p.memory = newAllowance(p.Memory)
	err = p.openTier()
	var x *index
	switch {
	case err != nil:
	case src.entries != nil:
		x, err = p.runEntries()
	default:
		x, err = p.run()
	}
	if err != nil {
		_ = src.close()
		return nil, err
	}
	indexed := x.Digest
	switch {
	case src.entries != nil:
		x.Digest = digest(x.table, x.classes)
	case o.Classes != nil && o.Part.N == 0:
		p.fix(x)
	}
	p.report.count(x)
	var origins []origin
	for _, e := range src.entries {
		origins = append(origins, origin{e, p.entryStorage(e)})
	}
	d := &Dataset{
		source: src, storage: p.storage, origins: origins, table: x.table, classes: x.classes,
		digest: x.Digest, indexed: indexed, modTime: x.ModTime, report: p.report, indexFile: p.indexFile,
		ordered: src.manifest != "" || x.Ordered,
	}
	if err := d.chooseLocal(o.Storage.LocalCache.Samples); err != nil {
		_ = d.Close()
		return nil, err
	}
	return d, nil
}

// opening is the state of one Open.
type opening struct {
	Options
	ctx       context.Context
	src       *source
	storage   *storage
	memory    *allowance
	indexFile string   // "": none
	marks     []string // names that are probably in the list of objects
	places    []int32
	report    Report
}

func (p *opening) run() (*index, error) {
	if err := p.findIndex(); err != nil {
		return nil, err
	}
	switch {
	case p.Merge:
		return p.merge()
	case p.Part.N > 0:
		return p.makePart()
	}
	old, part, err := p.load()
	if err != nil {
		return nil, err
	}
	p.marks = p.marksOf(old)
	if old != nil && (!p.Rescan || old.table.objects != nil) && p.current(old) { // archives are always compared
		if err := p.check(old); err != nil {
			return nil, err
		}
		return old, p.retry(old)
	}
	if err := p.ctx.Err(); err != nil {
		return nil, err
	}
	x, err := p.list(old, part)
	if err != nil {
		return nil, err
	}
	if err := p.check(x); err != nil { // before the scan, which may take long
		return nil, err
	}
	if err := p.scan(x, []*index{part, old}, x.table.unprobed()); err != nil {
		return nil, err
	}
	x.complete(p.src)
	if old != nil {
		p.carryEntries(old.table, old.Digest, x)
	}
	p.save(x)
	return x, p.ctx.Err()
}

// load returns the dataset's stored index, and the beginning of a later one that was not completed; nil if there
// is none to use.
func (p *opening) load() (x, begun *index, err error) {
	switch {
	case store.IsURL(p.IndexAt):
		x, err = p.fetchIndex()
	case p.indexFile == "":
		return nil, nil, nil
	default:
		x = p.loadFile(p.indexFile)
	}
	return x, p.loadFile(p.unfinished()), err
}

func indexBase(indexFile string) string { return strings.TrimSuffix(indexFile, indexExtension) }

func (p *opening) indexBase() string { return indexBase(p.indexFile) }

func (p *opening) loadFile(path string) *index {
	x, err := loadIndex(p.ctx, path, p.src)
	switch {
	case errors.Is(err, fs.ErrNotExist), p.ctx.Err() != nil:
		return nil
	case err != nil:
		p.Logger.Warn("index not used", "index", path, "reason", err)
		return nil
	case x.Part.N > 0 && p.Part.N == 0, x.Outside && !p.AllowOutside:
		return nil // rereading the manifest produces the proper error
	}
	return x
}

// retry rescans the files that could not be opened or read when the index was made. No
// timestamp shows whether they can be read now.
func (p *opening) retry(x *index) error {
	rows := x.table.unsettled()
	p.report.Reused = x.table.rows() - len(rows)
	before := x.Digest
	if err := p.scan(x, nil, rows); err != nil || len(rows) == 0 {
		return err
	}
	if x.settle(); x.Digest != before {
		p.carryEntries(x.table, before, x)
		p.save(x)
	}
	return nil
}

// list lists the dataset, in an index without headers, except for those that are met with in archives.
func (p *opening) list(earlier ...*index) (*index, error) {
	x, err := p.outline()
	if err == nil && x.packed != nil {
		err = p.addArchives(x, x.packed, earlier...)
	}
	if err == nil {
		err = p.nonempty(x)
	}
	return x, err
}

// outline lists the dataset without looking into archives.
func (p *opening) outline() (x *index, err error) {
	switch {
	case p.src.manifest != "":
		return p.listManifest()
	case p.src.archives != nil:
		x = &index{table: newTable(0, 0)}
		x.packed, err = p.archives()
		return x, err
	case p.src.remote != nil:
		x, err = p.listPrefix()
	default:
		x, err = listDirectory(p.ctx, p.src)
	}
	switch {
	case err != nil:
	case p.src.labels != "" && (x.packed == nil || !isTable(x.packed[0].name)):
		err = errNoColumns(p.src.labels)
	case x.packed != nil:
		err = p.lookAtPacked(x)
	}
	return x, err
}

// nonempty ends the listing of a dataset that has samples.
func (p *opening) nonempty(x *index) error {
	x.table.clip()
	if x.table.rows() > 0 {
		return nil
	}
	err := fmt.Errorf("%s: %w", p.src.name(), ErrEmpty)
	if kinds := kindsOf(x.Ignored); kinds != "" {
		err = fmt.Errorf("%w (files of other kinds: %s)", err, kinds)
	}
	most := 0
	for _, n := range x.Ignored {
		most = max(most, n)
	}
	for kind, n := range x.Ignored {
		if n == most && slices.Contains(packedKinds, kind) {
			return fmt.Errorf("%w: %w", err, ErrArchive)
		}
	}
	return err
}

func (p *opening) save(x *index) {
	if p.indexFile == "" {
		return
	}
	err := saveIndex(p.ctx, p.indexFile, x)
	switch {
	case err == nil:
		p.removeUnfinished()
	case p.ctx.Err() == nil:
		p.keepNone(err)
	}
}

func (p *opening) keepNone(err error) {
	p.Logger.Warn("no index is kept", "reason", err)
	p.report.IndexProblem = err.Error()
	p.indexFile = ""
}
