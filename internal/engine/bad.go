package engine

import (
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/batchfs/batchfs/internal/dataset"
	"github.com/batchfs/batchfs/internal/fault"
	"github.com/batchfs/batchfs/internal/sample"
	"github.com/batchfs/batchfs/shard"
)

// A BadSample is a sample that could not be read, or a batch that could not be put on the GPU, and
// why.
type BadSample struct {
	Time   time.Time `json:"time"`
	Path   string    `json:"path"`
	ID     int64     `json:"id"` // -1: this is about a batch
	Reason string    `json:"reason"`
}

// badReports lists the files that could not be read, each once, in the order of discovery.
type badReports struct {
	ledger *ledger

	mu       sync.Mutex
	reported []BadSample
	count    int64 // number of reports, including those for which there was no room
}

// add adds a report, if there is room.
func (r *badReports) add(b BadSample) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.count++
	if r.count <= maxBadSamples && r.ledger.reserve(useIndex, int64(reportBytes+len(b.Reason))) {
		r.reported = append(r.reported, b)
	}
}

func (r *badReports) all() []BadSample {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.reported)
}

func (r *badReports) total() int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.count
}

// badSamples remembers which files of a dataset could not be read, so that each is reported once
// and is not read again until it changes. It is safe for concurrent use.
type badSamples struct {
	*badReports
	ds   *dataset.Dataset
	log  *slog.Logger
	look func(i int) (dataset.Identity, error) // Dataset.Check
	// condemned are samples that are bad whatever their files hold, and why.
	condemned map[int64]string
	// rows, unless nil, maps a sample to the number in ds of a file beside its image. All numbers
	// here are then numbers of such files, except those shown to users.
	rows []int32

	mu    sync.Mutex
	files map[int64]badFile
	// repaired are samples in whose place another file was accepted, and not read yet, and those
	// whose problem in the index no longer applies.
	repaired map[int64]bool
}

// A badFile is reported once; one that is part or transient may still be tried.
type badFile struct {
	seen   dataset.Identity // the file that was found bad
	reason error
	// repairable: the file was the indexed one and is corrupt, so a changed file may take
	// its place. A file that is bad because it changed is good again only once it is the
	// indexed one again.
	repairable bool
	// part: the error was found while decoding the random crop of one epoch. Another epoch's crop
	// may show other pixels, and whether that fails must not depend on what was read before.
	part  bool
	epoch int
	// transient: the file could not be opened, or was briefly a different file. No change of the
	// file signals when it is readable again; over says that it was read since.
	transient, over bool
}

// A badError is the error of a bad sample. It wraps ErrBad and the reason.
type badError struct {
	path   string
	reason error
}

func (e *badError) Error() string   { return fmt.Sprintf("%v: %s: %v", ErrBad, e.path, e.reason) }
func (e *badError) Unwrap() []error { return []error{ErrBad, e.reason} }

const (
	// maxBadSamples bounds both lists. A bad file that does not fit, or for which the memory
	// limit leaves no room, is detected again at every open.
	maxBadSamples = 100_000
	badFileBytes  = 512 // of an entry, including its error and text
	reportBytes   = 80  // of a report, excluding its reason
)

func newBadSamples(ds *dataset.Dataset, r *badReports, log *slog.Logger) *badSamples {
	return &badSamples{badReports: r, ds: ds, log: log, look: ds.Check, files: map[int64]badFile{}, repaired: map[int64]bool{}}
}

// newBadBeside is newBadSamples for files beside images.
func newBadBeside(ds *dataset.Dataset, rows []int32, r *badReports, log *slog.Logger) *badSamples {
	f := newBadSamples(ds, r, log)
	f.rows = rows
	return f
}

// check returns why a slot's sample is known to be unreadable, or nil if it is not, or if its file
// has changed since. A machine error leaves that open and is returned as it is.
func (f *badSamples) check(s shard.Slot) error {
	id := s.ID
	bad, known := f.lookup(id)
	if bad.reason == nil {
		return nil
	}
	if f.condemned[id] == "" {
		now, err := f.look(int(id))
		if err != nil && fault.Of(err) != fault.File {
			return err
		}
		there := err == nil || errors.Is(err, dataset.ErrChanged) && now.Known()
		switch {
		case bad.transient:
			if !errors.Is(err, bad.reason) { // such as a file that is still missing
				return nil
			}
		case there && now != bad.seen && (bad.repairable || f.ds.Same(int(id), now)):
			f.ds.Accept(int(id), now)
			f.markRepaired(id, bad.repairable)
			return nil
		case bad.part && bad.epoch != s.Epoch:
			return nil
		}
	}
	if known { // the list may have changed since lookup
		return f.errorOf(id, bad)
	}
	return f.remember(id, bad)
}

// report remembers that a sample's file is bad under the identity that was read, and logs it
// once. It does not ask the file system: a file that was repaired since has another identity
// and will be tried.
func (f *badSamples) report(id int64, reason error, seen dataset.Identity) error {
	reason = dataset.Reason(reason) // the path is logged beside it
	unfit := errors.Is(reason, sample.ErrUnfit)
	changed := unfit || errors.Is(reason, dataset.ErrChanged) || errors.Is(reason, dataset.ErrMissing)
	repairable := !changed || f.ds.Problem(int(id)) != "" // no image was ever indexed for such a file
	transient := !seen.Known() || changed && !unfit && f.ds.Same(int(id), seen)
	inEpoch, part := errors.AsType[partError](reason)
	return f.remember(id, badFile{
		seen: seen, reason: reason, repairable: repairable && !transient, part: part, epoch: inEpoch.epoch, transient: transient,
	})
}

// known returns why a sample could not be read the last time, for the crop of its epoch, or else
// what the index has against it; "" if nothing. It does not ask the file system.
func (f *badSamples) known(s shard.Slot) string {
	bad, _ := f.lookup(s.ID)
	if bad.reason == nil || bad.over || bad.part && bad.epoch != s.Epoch {
		return ""
	}
	return bad.reason.Error()
}

// wasRead notes that a sample could be read, from a file that may be another one by now. A file
// that is bad until it changes stays bad.
func (f *badSamples) wasRead(id int64, seen dataset.Identity) {
	f.mu.Lock()
	defer f.mu.Unlock()
	bad := f.files[id]
	if !bad.transient && !f.repaired[id] || !f.ds.Same(int(id), seen) {
		return
	}
	if bad.transient {
		bad.over = true
		f.files[id] = bad
	}
	if f.ds.Problem(int(id)) == "" {
		delete(f.repaired, id)
	}
}

// lookup finds what is known about a sample: from reading it, if known is true, or else from the
// index. A file that is not known to be bad has no reason.
func (f *badSamples) lookup(id int64) (bad badFile, known bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	bad, known = f.files[id]
	if why := f.condemned[id]; why != "" && !known {
		return badFile{seen: f.ds.Stat(int(id)), reason: fault.New(fault.File, why)}, false
	}
	if problem := f.ds.Problem(int(id)); problem != "" && !known && !f.repaired[id] {
		bad = badFile{seen: f.ds.Stat(int(id)), reason: fault.New(fault.File, problem), repairable: true}
	}
	return bad, known
}

// markRepaired forgets a bad file, as another one has taken its place: any other, or only the one
// that was indexed.
func (f *badSamples) markRepaired(id int64, byAny bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if now, known := f.files[id]; known && (byAny || !now.repairable) { // otherwise it was found corrupt meanwhile
		delete(f.files, id)
		f.ledger.release(useIndex, badFileBytes)
	}
	if byAny {
		f.repaired[id] = true
	}
}

// remember enters a bad file, reports it if that was not done before, and returns its error.
func (f *badSamples) remember(id int64, bad badFile) error {
	if f.enter(id, bad) {
		r := BadSample{time.Now(), f.ds.Path(int(id)), id, bad.reason.Error()}
		if f.rows != nil {
			r.ID = int64(slices.Index(f.rows, int32(id)))
		}
		f.add(r)
		f.log.Error("cannot read a sample", "path", r.Path, "id", r.ID, "reason", r.Reason)
	}
	return f.errorOf(id, bad)
}

func (f *badSamples) errorOf(id int64, bad badFile) error {
	return &badError{f.ds.Path(int(id)), bad.reason}
}

// enter enters a bad file, and returns whether that is new. If there is no room, another file is
// forgotten instead.
func (f *badSamples) enter(id int64, bad badFile) (isNew bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	before, known := f.files[id]
	// Any file may take the place of a corrupt one, until one was read.
	if (f.repaired[id] || before.repairable) && !bad.repairable {
		if bad.repairable = true; !bad.transient && !errors.Is(bad.reason, sample.ErrUnfit) {
			bad.seen = unknownIdentity // this one may still be being written
		}
	}
	room := known || len(f.files) < maxBadSamples && f.ledger.reserve(useIndex, badFileBytes)
	for other := range f.files {
		if room {
			break
		}
		delete(f.files, other)
		room = true
	}
	if room {
		f.files[id] = bad
	}
	return !known || before.seen != bad.seen || before.transient != bad.transient
}
