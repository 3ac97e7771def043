package engine

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/batchfs/batchfs/dataset"
	"github.com/batchfs/batchfs/dataset/sample"
	"github.com/batchfs/batchfs/shard"
)

// badFiles remembers which files could not be read, so that each is reported once and is
// not read again until it changes.
type badFiles struct {
	mu       sync.Mutex
	files    map[int64]badFile
	repaired map[int64]bool // samples whose problem in the index no longer applies
}

type badFile struct {
	seen   dataset.Identity // the file that was found bad
	reason error
	// repairable: the file was the indexed one and is corrupt, so a changed file may take
	// its place. A file that is bad because it changed is good again only once it is the
	// indexed one again.
	repairable bool
	// part: the error was found while decoding a random crop. The crop of another epoch may
	// show other pixels, and whether that fails must not depend on what was read before.
	// Such a file is reported once, but tried every time.
	part bool
	// transient: the file could not be opened, or was briefly another one. It is reported
	// once, but tried every time, because no change of the file signals when it is readable
	// again.
	transient bool
}

func (f *badFiles) lookup(id int64) (badFile, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	bad, ok := f.files[id]
	return bad, ok
}

func (f *badFiles) isRepaired(id int64) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.repaired[id]
}

func (f *badFiles) repair(id int64, l *Ledger) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if _, known := f.files[id]; known {
		delete(f.files, id)
		l.release(useIndex, badFileBytes)
	}
	f.repaired[id] = true
}

const (
	// maxBadFiles bounds the entries. A bad file that does not fit, or for which the memory
	// limit leaves no room, is detected again at every open.
	maxBadFiles = maxBadSamples
	// badFileBytes is the approximate size of an entry, with its error and text.
	badFileBytes = 512
)

// put remembers a bad file and returns the previous entry for it. The memory is charged to
// the ledger; if there is none, another file is forgotten instead.
func (f *badFiles) put(id int64, bad badFile, l *Ledger) (before badFile, known bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	before, known = f.files[id]
	if !known && (len(f.files) == maxBadFiles || !l.reserve(useIndex, badFileBytes)) {
		if len(f.files) == 0 {
			return before, false
		}
		for other := range f.files {
			delete(f.files, other)
			break
		}
	}
	f.files[id] = bad
	return before, known
}

// errPart marks an error that another transform of the same sample might not hit.
var errPart = errors.New("in what is shown of it")

// stillBad returns why a sample is known to be unreadable, or nil if it is not, or if its
// file has changed since. A machine error leaves that open and is returned as it is.
func (e *Engine) stillBad(id int64) error {
	bad, known := e.bad.lookup(id)
	if !known {
		problem := e.ds.Problem(int(id))
		if problem == "" || e.bad.isRepaired(id) {
			return nil
		}
		bad = badFile{seen: e.ds.Stat(int(id)), reason: sample.Problem(problem), repairable: true}
	}
	if bad.transient {
		return nil
	}
	now, err := e.look(int(id))
	if err != nil && causeOf(err) != ofFile {
		return err
	}
	there := err == nil || errors.Is(err, dataset.ErrChanged) && now.Known()
	if there && now != bad.seen && (bad.repairable || e.ds.Same(int(id), now)) {
		e.ds.Accept(int(id), now)
		e.bad.repair(id, e.ledger)
		return nil
	}
	if bad.part {
		return nil
	}
	if !known {
		e.remember(id, bad)
	}
	return e.badError(id, bad.reason)
}

// reportBad remembers that a sample's file is bad under the identity that was read, and
// reports it once. It does not ask the file system: a file that was repaired since has
// another identity and will be tried.
func (e *Engine) reportBad(id int64, reason error, seen dataset.Identity) error {
	reason = dataset.Reason(reason) // the path is logged beside it
	changed := changed(reason)
	repairable := !changed || e.ds.Problem(int(id)) != "" // no image was ever indexed for such a file
	transient := !seen.Known() || changed && e.ds.Same(int(id), seen) && !errors.Is(reason, errUnfit)
	e.remember(id, badFile{seen: seen, reason: reason, repairable: repairable && !transient, part: errors.Is(reason, errPart), transient: transient})
	return e.badError(id, reason)
}

func (e *Engine) remember(id int64, bad badFile) {
	before, known := e.bad.put(id, bad, e.ledger)
	if known && before.seen == bad.seen && before.transient == bad.transient {
		return // it was reported
	}
	path := e.ds.Path(int(id))
	e.log.Error("cannot read a sample", "path", path, "id", id, "reason", bad.reason.Error())
	e.errors.add(BadSample{time.Now(), path, id, bad.reason.Error()}, e.ledger)
}

// failsAgain fails a batch of which all was tried before, before it takes memory or a
// worker's time, if a sample that was bad then still is.
func (e *Engine) failsAgain(k Key) error {
	slots, valid := e.catalog.Plan.Batch(k.Shard, k.Epoch, k.Batch, make([]shard.Slot, 0, e.opts.BatchSize))
	for _, s := range slots[:min(max(valid, 1), len(slots))] {
		if err := e.stillBad(s.ID); err != nil {
			return err
		}
	}
	return nil
}

func (e *Engine) badError(id int64, reason error) error {
	return fmt.Errorf("%w: %s: %w", ErrBad, e.ds.Path(int(id)), reason)
}
