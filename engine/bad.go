package engine

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/batchfs/batchfs/dataset"
)

// badFiles remembers which files could not be read, so that each is reported once
// and not read again until it changes.
type badFiles struct {
	mu     sync.Mutex
	files  map[int64]badFile
	mended map[int64]bool // what the index says against these no longer holds
}

type badFile struct {
	seen   dataset.Identity // the file that was found bad
	reason error
	// mendable: the file was the indexed one and is corrupt. When it changes, the new
	// one may take its place. A file that is bad because it changed is good again only
	// when it is the indexed one again.
	mendable bool
	// part: it was found while a random crop of it was decoded. That of another epoch may
	// show other pixels, and whether it does must not depend on what was read before:
	// the file is reported once, but tried every time.
	part bool
	// passing: nothing is wrong with the file as it lies there. Its storage failed, or it
	// was another one for just a moment. It is reported once, but tried every time, as no
	// change of the file will tell when it can be read.
	passing   bool
	recovered bool // it passed; what stays is that it was reported
}

func (f *badFiles) lookup(id int64) (badFile, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	bad, ok := f.files[id]
	return bad, ok
}

func (f *badFiles) isMended(id int64) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.mended[id]
}

func (f *badFiles) mend(id int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.files, id)
	f.mended[id] = true
}

// pass notes that a file which was bad in passing can be read again, and says whether
// there was one.
func (f *badFiles) pass(id int64) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	bad := f.files[id]
	if !bad.passing || bad.recovered {
		return false
	}
	bad.recovered = true
	f.files[id] = bad
	return true
}

// errPart is an error that another transform of the same sample might not have met.
var errPart = errors.New("in what is shown of it")

// stillBad returns why a sample is known to be unreadable, or nil when it is not,
// or when its file is another one by now.
func (e *Engine) stillBad(id int64) error {
	bad, known := e.bad.lookup(id)
	if !known {
		problem := e.ds.Problem(int(id))
		if problem == "" || e.bad.isMended(id) {
			return nil
		}
		bad = badFile{seen: e.ds.Stat(int(id)), reason: fmt.Errorf("%s", problem), mendable: true}
	}
	if now, there := e.identity(id); there && now != bad.seen && (bad.mendable || e.ds.Same(int(id), now)) {
		e.ds.Accept(int(id), now)
		e.bad.mend(id)
		e.documents.Clear() // they may name what replaced it
		return nil
	}
	if bad.part || bad.passing {
		return nil
	}
	if !known {
		e.remember(id, bad)
	}
	return e.badError(id, bad.reason)
}

// reportBad remembers that a sample could not be read, and says so once.
func (e *Engine) reportBad(id int64, reason error) error {
	reason = dataset.Reason(reason) // the path stands beside it
	now, there := e.identity(id)
	mendable := !changed(reason) || e.ds.Problem(int(id)) != "" // of that one, no image was ever indexed
	passing := ofStorage(reason) || there && e.ds.Same(int(id), now) && wasAnother(reason)
	e.remember(id, badFile{seen: now, reason: reason, mendable: mendable && !passing, part: errors.Is(reason, errPart), passing: passing})
	return e.badError(id, reason)
}

// ofStorage tells an error of the system from one about what a file holds.
func ofStorage(err error) bool {
	var errno unix.Errno
	return errors.As(err, &errno)
}

// wasAnother tells whether a read found the file to be another than the indexed one.
func wasAnother(err error) bool {
	return errors.Is(err, dataset.ErrChanged) || errors.Is(err, dataset.ErrMissing)
}

// recovered notes that what was wrong has passed: the sample could be read.
func (e *Engine) recovered(id int64) {
	if e.bad.pass(id) {
		e.documents.Clear() // they may name what replaced it
	}
}

// identity is that of a sample's file as it is now, whether it is the indexed one
// or not.
func (e *Engine) identity(id int64) (now dataset.Identity, there bool) {
	now, err := e.ds.Check(int(id))
	return now, err == nil || errors.Is(err, dataset.ErrChanged) && now.Known()
}

func (e *Engine) remember(id int64, bad badFile) {
	e.bad.mu.Lock()
	before, known := e.bad.files[id]
	e.bad.files[id] = bad
	e.bad.mu.Unlock()
	told := known && before.seen == bad.seen && before.passing == bad.passing
	if told && !before.recovered {
		return
	}
	e.documents.Clear() // they may say that it is fine
	if told {
		return
	}
	path := e.ds.Path(int(id))
	e.log.Error("cannot read a sample", "path", path, "id", id, "reason", bad.reason.Error())
	e.errors.add(errorLine{Time: time.Now(), Path: path, ID: id, Reason: bad.reason.Error()})
}

// failsAgain fails a batch before it takes memory or time, if all of it was tried
// before and a sample that was bad then still is.
func (e *Engine) failsAgain(b *batch) error {
	e.mu.Lock()
	tried := e.tried[b.key]
	e.mu.Unlock()
	if !tried {
		return nil
	}
	for _, s := range b.slots[:b.items] {
		if err := e.stillBad(s.ID); err != nil {
			return err
		}
	}
	return nil
}

func (e *Engine) badError(id int64, reason error) error {
	return fmt.Errorf("%w: %s: %w", ErrBad, e.ds.Path(int(id)), reason)
}
