package tier

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/batchfs/batchfs/internal/owned"
)

// following is the plan that a tier's user follows.
type following struct {
	file  *os.File // locked while the plan is followed; nil: none
	bytes int64
	room  int64 // the last known PlanRoom
}

// Follow names the plan by which objects of the dataset are kept, and how many bytes all its
// candidates would take. All processes that follow the same plan share its room. It must not be
// called at the same time as PlanRoom.
func (t *Tier) Follow(plan string, bytes int64) error {
	t.follows.close()
	sum := sha256.Sum256([]byte(t.opts.Dataset + "\n" + plan))
	f, err := openShared(filepath.Join(t.shelf.room.plans(), hex.EncodeToString(sum[:8])))
	if err != nil {
		return err
	}
	t.follows = following{file: f, bytes: bytes}
	_, err = f.WriteAt(binary.NativeEndian.AppendUint64(nil, uint64(bytes)), 0)
	return err
}

func (f *following) close() {
	if f.file != nil {
		f.file.Close()
	}
}

// PlanRoom is the part of the limit for this plan: all active plans, for any dataset in the
// directory, can keep the same share of their candidates. If it has grown, another user is gone,
// and extents that nobody uses from now on give way.
func (t *Tier) PlanRoom() int64 {
	f := &t.follows
	if f.file == nil {
		return t.opts.Limit
	}
	all := float64(f.bytes)
	entries, _ := os.ReadDir(t.shelf.room.plans())
	for _, e := range entries {
		if path := filepath.Join(t.shelf.room.plans(), e.Name()); path != f.file.Name() {
			all += float64(followed(path))
		}
	}
	was := f.room
	if f.room = int64(float64(t.opts.Limit) * float64(f.bytes) / max(all, 1)); f.room > was {
		t.shelf.room.evicting.Lock()
		defer t.shelf.room.evicting.Unlock()
		t.shelf.old = old{}
		_ = t.shelf.renewed()
	}
	return f.room
}

// followed is the bytes of a plan's candidates. It removes a plan that nobody follows.
func followed(path string) (bytes int64) {
	f, _, err := owned.Open(path, os.O_RDONLY)
	if err != nil {
		return 0
	}
	defer f.Close()
	if owned.Lock(f, unix.LOCK_EX|unix.LOCK_NB) == nil {
		if !isThere(f) {
			return followed(path) // somebody has begun to follow it
		}
		_ = os.Remove(path)
		return 0
	}
	return counterIn(f)
}

func (r *room) plans() string { return filepath.Join(r.dir, "plans") }

// openShared opens a file and takes its shared lock. A process that finds the file unlocked may
// remove it and its directory.
func openShared(path string) (*os.File, error) {
	for {
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			return nil, err
		}
		f, _, err := owned.Open(path, os.O_RDWR|os.O_CREATE)
		if errors.Is(err, fs.ErrNotExist) {
			continue // the directory has been removed
		}
		if err != nil {
			return nil, err
		}
		if err := owned.Lock(f, unix.LOCK_SH); err != nil {
			f.Close()
			return nil, err
		}
		if isThere(f) {
			return f, nil
		}
		f.Close()
	}
}

// isThere says whether an open file is still the one at its path. Called while the file is locked,
// it tells whether another process removed the file before.
func isThere(f *os.File) bool {
	now, err := os.Stat(f.Name())
	was, same := f.Stat()
	return err == nil && same == nil && os.SameFile(now, was)
}
