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
	"github.com/batchfs/batchfs/internal/owned"
	"github.com/batchfs/batchfs/internal/parallel"
	"github.com/batchfs/batchfs/internal/store"
)

// Options say how to open a dataset. Prober is required.
type Options struct {
	// CacheDir is where index files are kept; it is created if needed. "": no index is kept. A
	// CacheDir inside the dataset is not used.
	CacheDir string
	// IndexAt is the directory where the index is kept instead. If it is a URL, of a folder or of
	// the index itself, that has to be one of this dataset, and a copy of it is used. Unless Rescan
	// is set, what is in a store is not listed then.
	IndexAt string
	// Part, if not zero, makes and stores only that part of the index, for Merge. The opened
	// dataset then has no defined order, and no labels from classes.
	Part Share
	// Merge joins the parts of the index instead of reading the dataset. The error is a
	// [PartsError] if a part is missing, or if the dataset has changed since.
	Merge bool
	// Workers is how many files are scanned at once; below 1: one per usable CPU. A store gets at
	// least as many requests at once, also after opening.
	Workers int
	// Memory is how many bytes of input Open may hold, whatever the number of Workers; 96 MiB if it
	// is below 1 or larger. An input that exceeds it is read alone. In addition, each sample takes
	// up to 200 bytes.
	Memory int64
	// AsClasses accepts folders as classes even if they are named like parts of a dataset; see
	// AmbiguousError.
	AsClasses bool
	// Classes are the classes in label order. A dataset with other classes fails with ErrClasses.
	// nil: the classes of the dataset.
	Classes []string
	// IgnoreMetadata makes a directory's folders its classes even if it has a metadata.csv,
	// metadata.jsonl or metadata.parquet.
	IgnoreMetadata bool
	// LabelColumn is the column of labels in a manifest, or in archives of kind parquet or mds. "":
	// the one with a usual name, if there is one; [archive.NoLabel]: there are no labels.
	LabelColumn string
	// PathColumn is the manifest's column of paths. If it is set, other columns are ignored, and
	// rows without a path are left out. "": path or file_name.
	PathColumn string
	// Field is the extension of the tar members that are the samples, if several members form one
	// record as in a WebDataset. They need not be images. "": extensions of images.
	Field string
	// AllowOutside lets a manifest's paths leave its directory.
	AllowOutside bool
	// Only, if not nil, says which paths are samples. It must not retain the path. The index has
	// all samples in any case.
	Only func(path string) bool
	// Rescan compares every file with the index even if nothing suggests a change. It finds
	// files that were rewritten in place, which leave no other trace.
	Rescan bool
	// Storage says how files are read.
	Storage Storage
	// Store says how a store is reached, if the dataset is in one.
	Store store.Options
	// Prober reads image headers.
	Prober Prober

	stores *sharedStores // nil: those of this dataset alone
	// Progress, if not nil, reports how many of the files to scan are done. Calls do not
	// overlap, done never decreases, and the last call has done == total. There is no call if
	// there is nothing to scan.
	Progress func(done, total int64)
	// Listing, if not nil, reports how many bytes of the archives were searched for samples. It is
	// called like Progress, but earlier.
	Listing func(done, total int64)
	// Logger, if not nil, is told why an index was not used or not written, and why files
	// cannot be read as Storage says.
	Logger *slog.Logger
}

// Open opens the dataset at path: from its index if that is current, else by listing it and reading
// the headers that the index lacks. The caller closes the dataset. When ctx is done, Open returns
// its error promptly, even if the storage hangs: it abandons the blocked calls, and closes what
// they return later.
func Open(ctx context.Context, path string, o Options) (*Dataset, error) {
	if o.Prober == nil {
		return nil, errors.New("dataset: Options.Prober is nil")
	}
	if err := option.AtLeast("max read bandwidth", o.Storage.MaxBandwidth, 0); err != nil {
		return nil, err
	}
	o.Logger = cmp.Or(o.Logger, slog.New(slog.DiscardHandler))
	var stop func()
	o.Progress, stop = parallel.Progress(o.Progress)
	defer stop()
	o.Listing, stop = parallel.Progress(o.Listing)
	defer stop()
	return parallel.Promptly(ctx, func() (*Dataset, error) { return open(ctx, path, o) }, func(d *Dataset) { d.Close() })
}

func open(ctx context.Context, path string, o Options) (*Dataset, error) {
	o.shareStores()
	src, err := locate(ctx, strings.TrimPrefix(path, "file://"), &o)
	if err != nil {
		return nil, err
	}
	limit := newLimiter(o.Storage.MaxBandwidth)
	p := &opening{Options: o, ctx: ctx, src: src, storage: newStorage(o.Storage, src, limit, o.Logger)}
	storages := []*storage{p.storage}
	if src.entries != nil {
		storages = nil
		for _, e := range src.entries {
			storages = append(storages, newStorage(o.Storage, e, limit, o.Logger))
		}
	}
	if o.Memory < 1 || o.Memory > usualMemory {
		p.Memory = usualMemory
	}
	p.memory = newAllowance(p.Memory)
	err = p.openTier()
	var x *index
	switch {
	case err != nil:
	case src.entries != nil:
		x, err = p.runEntries(storages)
	default:
		x, err = p.run()
	}
	if err == nil {
		err = p.files.renewEntries(ctx, x.table)
	}
	if err == nil && src.entries == nil && o.Classes != nil && o.Part.N == 0 {
		p.fix(x)
	}
	left := 0
	if err == nil && o.Only != nil && o.Part.N == 0 {
		left, err = x.keepOnly(o.Only, src)
	}
	if err != nil {
		_ = src.close()
		return nil, err
	}
	if src.entries != nil {
		x.Digest = digest(x.table, x.classes)
	}
	p.report.count(x)
	p.report.IndexProblem = p.files.problem
	d := &Dataset{Description: p.describe(x), source: src, reader: newReader(x.table, storages), indexFile: p.files.target}
	d.Left = left
	if d.localSamples, err = chooseLocal(d.reader, src, o.Storage.LocalCache.Samples); err != nil {
		_ = d.Close()
		return nil, err
	}
	return d, nil
}

// opening is the state of one Open.
type opening struct {
	Options
	ctx     context.Context
	src     *source
	storage *storage
	memory  *allowance
	files   factFiles
	journal *journal // lets the next opening continue if this one is interrupted
	marks   []string // names that the list of objects probably contains
	barred  error    // the error if a folder that is listed has images; nil: it may have some
	places  []int32
	report  Report
}

// run lists the dataset unless its index is current, looks up known facts about the files, reads
// the missing headers, and orders the rows.
func (p *opening) run() (x *index, err error) {
	if p.files, err = findFiles(&p.Options, p.src); err != nil {
		return nil, err
	}
	p.journal = &journal{files: &p.files}
	defer p.journal.close()
	if x, err = p.load(); err != nil {
		return nil, err
	}
	p.marks = marksOf(x, p.src)
	var rows []int
	var claims []claim
	current := p.Part.N == 0 && !p.Merge && x != nil && x.listed && (!p.Rescan || x.objects != nil) && p.current(x) // archives are always compared
	if current {
		rows = x.table.unsettled()
		p.report.Reused = x.table.rows() - len(rows)
	} else if x, claims, rows, err = p.list(x); err != nil {
		return nil, err
	}
	if p.Part.N == 0 {
		err = p.check(x) // before the scan, which may take long
	}
	if err == nil {
		err = p.scan(x, claims, rows)
	}
	if err != nil {
		return nil, err
	}
	return x, p.finish(x, !current || len(rows) > 0 && len(x.table.unsettled()) < len(rows))
}

// load returns the index of the last listing, nil if that is unusable or incomplete.
func (p *opening) load() (x *index, err error) {
	if store.IsURL(p.IndexAt) {
		return p.files.fetch(p.ctx, p.IndexAt, &p.Options)
	}
	if p.files.whole == "" {
		return nil, nil
	}
	x, err = loadFacts(p.ctx, p.files.whole, p.src)
	switch {
	case p.ctx.Err() != nil:
		return nil, p.ctx.Err()
	case errors.Is(err, fs.ErrNotExist):
		err = nil
	case err != nil:
		p.Logger.Warn("index not used", "index", p.files.whole, "reason", err)
	case x.Outside && !p.AllowOutside:
		return nil, nil // rereading the manifest produces the proper error
	}
	if x == nil && p.files.relied { // not after a scan that may take hours
		if err := owned.Try(p.files.target); err != nil {
			return nil, fmt.Errorf("%w: %w", ErrKeepIndex, err)
		}
	}
	return x, nil
}

// list lists the dataset, or a part of it, and fills in known facts. It also returns the rows whose
// headers are unknown or may have changed.
func (p *opening) list(old *index) (x *index, claims []claim, rows []int, err error) {
	if x, err = p.outline(); err != nil {
		return nil, nil, nil, err
	}
	known := p.files.known(p.ctx, old)
	if err := p.ctx.Err(); err != nil {
		return nil, nil, nil, err
	}
	if x.packed != nil {
		lo, hi := p.Part.Span(len(x.packed))
		err = p.addArchives(x, x.packed[lo:hi], known)
	} else if p.Part.N > 0 {
		err = p.check(x)
		lo, hi := p.Part.Span(x.table.rows())
		x.table = x.table.part(lo, hi)
	}
	if err == nil && p.Part.N == 0 {
		err = nonempty(x, p.src)
	}
	if err != nil {
		return nil, nil, nil, err
	}
	rows = x.table.unprobed()
	if x.packed != nil {
		return x, nil, rows, nil
	}
	claims, none := known.claims(x.table, rows, p.src.remote != nil)
	if p.Merge && len(none) > 0 {
		err = p.files.lacking(known, x.table.rows(), none)
	}
	return x, claims, rows, err
}

// finish completes the index, and stores it if it is new.
func (p *opening) finish(x *index, changed bool) error {
	part := p.Part.N > 0
	if changed {
		x.Digest = ""
	}
	if !part {
		x.derive()
	}
	if changed && p.files.target != "" {
		err := saveFacts(p.ctx, x, p.files.target, p.src, !part)
		switch {
		case err == nil:
			p.files.removeJournals()
		case err != nil && (part || p.Merge):
			return fmt.Errorf("%w: %w", ErrKeepIndex, err)
		case err != nil && p.ctx.Err() == nil:
			p.files.keepNone(err)
		}
	}
	return p.ctx.Err()
}

// outline lists the dataset without looking into archives.
func (p *opening) outline() (x *index, err error) {
	switch {
	case p.src.manifest != "":
		return p.listManifest()
	case p.src.archives != nil:
		x = &index{table: newTable(0, 0)}
		x.packed, err = p.storage.archives(p.ctx)
		return x, err
	case p.src.remote != nil:
		x, err = p.listPrefix()
	default:
		x, err = p.listDirectory()
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

// nonempty ends a listing. It fails if there are no samples.
func nonempty(x *index, src *source) error {
	x.table.clip()
	if x.table.rows() > 0 {
		return nil
	}
	err := fmt.Errorf("%s: %w", src.name(), ErrEmpty)
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
