package tier

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"sync/atomic"

	"github.com/batchfs/batchfs/internal/owned"
)

// Options say how to open a tier.
type Options struct {
	Limit   int64        // bytes, for the whole directory; 0: what is there and most of the free space
	Dataset string       // names the dataset among those that use the directory
	Logger  *slog.Logger // nil: none
}

// Tier holds the extents of one dataset. Its methods may be called concurrently, until Close.
type Tier struct {
	opts    Options
	shelf   shelf
	follows following
	filling
	counts
}

// Stats tells what a tier did. Counts are since it was opened.
type Stats struct {
	Limit     int64 `json:"limit"`      // bytes
	Used      int64 `json:"used"`       // bytes, by all datasets in the directory
	Hits      int64 `json:"hits"`       // reads that the tier served
	HitBytes  int64 `json:"hit_bytes"`  // bytes of these
	Misses    int64 `json:"misses"`     // reads that went to the store
	Kept      int64 `json:"kept"`       // extents added
	KeptBytes int64 `json:"kept_bytes"` // bytes of these
	NotKept   int64 `json:"not_kept"`   // extents without room, or objects that came faster than the disk writes
	Damaged   int64 `json:"damaged"`    // extents that failed their check, or that the disk did not deliver
}

type counts struct {
	hits, hitBytes, misses, kept, keptBytes, notKept, damaged atomic.Int64
}

// Open opens the tier of a dataset in a directory, which it makes if needed. The caller closes it.
func Open(dir string, o Options) (*Tier, error) {
	o.Logger = cmp.Or(o.Logger, slog.New(slog.DiscardHandler))
	sum := sha256.Sum256([]byte(o.Dataset))
	own := filepath.Join(dir, hex.EncodeToString(sum[:8]))
	if err := os.MkdirAll(own, 0o700); err != nil {
		return nil, err
	}
	info, err := os.Stat(dir)
	if err == nil {
		err = owned.Check(dir, info)
	}
	if err != nil {
		return nil, err
	}
	t := &Tier{opts: o}
	if t.shelf.room, err = openRoom(dir); err != nil {
		return nil, err
	}
	if o.Limit == 0 {
		t.opts.Limit, err = t.shelf.room.most()
	} else {
		t.shelf.room.shrink(o.Limit)
	}
	if err == nil {
		err = t.shelf.open(own)
	}
	if err != nil {
		t.shelf.close()
		return nil, err
	}
	t.start()
	return t, nil
}

// Close ends filling, and closes the tier.
func (t *Tier) Close() error {
	t.stop()
	t.follows.close()
	t.shelf.close()
	return nil
}

// Stats returns what the tier did.
func (t *Tier) Stats() Stats {
	return Stats{
		Limit: t.opts.Limit, Used: t.shelf.room.used(), Hits: t.hits.Load(), HitBytes: t.hitBytes.Load(), Misses: t.misses.Load(),
		Kept: t.kept.Load(), KeptBytes: t.keptBytes.Load(), NotKept: t.notKept.Load(), Damaged: t.damaged.Load(),
	}
}

// MemoryBytes is the most memory that filling and reading the tier takes.
func (t *Tier) MemoryBytes() int64 {
	return fillers*(ExtentBytes+2*unit) + mostWaiting + mostReaders*(readBytes+2*unit)
}

// get reads a part of an extent; false: the tier does not have it.
func (t *Tier) get(k key, p []byte, offset int64) bool {
	return t.look(k, offset, int64(len(p)), func(e *extent) error { return e.copy(p, offset) })
}

// look calls use with an extent. wanted bytes from offset on are read first; false: the tier lacks
// the extent.
func (t *Tier) look(k key, offset, wanted int64, use func(*extent) error) bool {
	// Another version stays until the store has shown which one is the present one.
	doomed := func(err error) bool { return err != nil && err != errVersion && err != errNoMemory }
	found, err := t.shelf.look(k, offset, wanted, doomed, use)
	if found && doomed(err) {
		t.damaged.Add(1)
		t.opts.Logger.Debug("extent removed", "extent", k.name(), "reason", err)
	}
	return found && err == nil
}

// errNoRoom means that the limit leaves no room for an extent.
var errNoRoom = errors.New("no room for an extent")

// put adds an extent of n bytes, which fill writes, replacing another version: the store has just
// delivered this one. The error may be errNoRoom.
func (t *Tier) put(k key, n int, fill func(p []byte) error) error {
	if t.shelf.has(k) {
		return nil
	}
	size := fileBytes(int64(n))
	if !t.shelf.room.makeRoom(size, t.opts.Limit, t.shelf.giveWay) {
		return errNoRoom
	}
	file := t.shelf.memory(int(size))
	defer t.shelf.files.Put(&file)
	err := fill(file[unit:][:n])
	if err == nil {
		seal(file, k, n)
		err = t.shelf.write(k, file)
	}
	if err != nil {
		t.shelf.room.give(size)
		if errors.Is(err, os.ErrExist) {
			return nil
		}
		return err
	}
	t.kept.Add(1)
	t.keptBytes.Add(int64(n))
	return nil
}
