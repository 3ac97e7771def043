package engine

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/batchfs/batchfs/dataset"
	"github.com/batchfs/batchfs/sample"
	"github.com/batchfs/batchfs/shard"
)

// badFiles remembers which files could not be read, so that each is reported once
// and not read again until it changes.
type badFiles struct {
	mu       sync.Mutex
	files    map[int64]badFile
	repaired map[int64]bool // what the index says against these no longer holds
}

type badFile struct {
	seen   dataset.Identity // the file that was found bad
	reason error
	// repairable: the file was the indexed one and is corrupt. When it changes, the new
	// one may take its place. A file that is bad because it changed is good again only
	// when it is the indexed one again.
	repairable bool
	// part: it was found while a random crop of it was decoded. That of another epoch may
	// show other pixels, and whether it does must not depend on what was read before:
	// the file is reported once, but tried every time.
	part bool
	// transient: it could not be opened, or was another one for just a moment. It is
	// reported once, but tried every time, as no change of the file tells when it can be
	// read.
	transient bool
	recovered bool // it was read since; what stays is that it was reported
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

// recover notes that a transient failure is over, and says whether there was one.
func (f *badFiles) recover(id int64) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	bad := f.files[id]
	if !bad.transient || bad.recovered {
		return false
	}
	bad.recovered = true
	f.files[id] = bad
	return true
}

const (
	// maxBadFiles bounds what is remembered: beyond it, and where the memory limit leaves
	// no room, a file that is bad is found to be so again at every open.
	maxBadFiles = maxErrorLines
	// badFileBytes is about what one takes: the entry, its error and its words.
	badFileBytes = 512
)

// put remembers a bad file and returns what was known of it before. The memory it takes
// is charged to the ledger; where there is none, another file is forgotten for it.
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

// errPart is an error that another transform of the same sample might not have met.
var errPart = errors.New("in what is shown of it")

// stillBad returns why a sample is known to be unreadable, or nil when it is not,
// or when its file is another one by now. An error of the machine leaves that open.
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
		e.documents.Clear() // they may name what replaced it
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
// says so once. Nothing is asked of the file system: a file that was repaired since it was
// read has another identity, and is tried.
func (e *Engine) reportBad(id int64, reason error, seen dataset.Identity) error {
	reason = dataset.Reason(reason) // the path stands beside it
	changed := changed(reason)
	repairable := !changed || e.ds.Problem(int(id)) != "" // of that one, no image was ever indexed
	transient := !seen.Known() || changed && e.ds.Same(int(id), seen) && !errors.Is(reason, errUnfit)
	e.remember(id, badFile{seen: seen, reason: reason, repairable: repairable && !transient, part: errors.Is(reason, errPart), transient: transient})
	return e.badError(id, reason)
}

// recovered notes that a sample could be read.
func (e *Engine) recovered(id int64) {
	if e.bad.recover(id) {
		e.documents.Clear() // they may name what replaced it
	}
}

func (e *Engine) remember(id int64, bad badFile) {
	before, known := e.bad.put(id, bad, e.ledger)
	told := known && before.seen == bad.seen && before.transient == bad.transient
	if told && !before.recovered {
		return
	}
	e.documents.Clear() // they may say that it is fine
	if told {
		return
	}
	path := e.ds.Path(int(id))
	e.log.Error("cannot read a sample", "path", path, "id", id, "reason", bad.reason.Error())
	e.errors.add(errorLine{Time: time.Now(), Path: path, ID: id, Reason: bad.reason.Error()}, e.ledger)
}

// failsAgain fails a batch of which all was tried before, before it takes memory or a
// worker's time, if a sample that was bad then still is.
func (e *Engine) failsAgain(k Key) error {
	slots, valid := e.plan.Batch(k.Shard, k.Epoch, k.Batch, make([]shard.Slot, 0, e.opts.BatchSize))
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
