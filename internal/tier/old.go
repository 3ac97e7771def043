package tier

import (
	"fmt"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

// Renew makes extents that nobody has used since the tier was opened give way to new ones, if there
// is no other room. It is for tiers with room for everything that is wanted: unused extents are
// then no longer wanted.
func (t *Tier) Renew() { t.shelf.renew.Store(true) }

// old finds the extents that nobody has used since a time, one directory after another.
type old struct {
	passed int // directories
	names  []string
}

const (
	directories = 256
	tick        = 100 * time.Millisecond // a file's time may be late by this much
)

// giveWay removes an old extent; false: there is none. The caller holds room.evicting.
func (s *shelf) giveWay() bool {
	o := &s.old
	for s.renew.Load() && (len(o.names) > 0 || o.passed < directories) {
		if len(o.names) == 0 {
			dir := fmt.Sprintf("%02x", o.passed)
			o.passed++
			entries, _ := os.ReadDir(filepath.Join(s.dir.Name(), dir))
			for _, e := range entries {
				o.names = append(o.names, dir+"/"+e.Name())
			}
			continue
		}
		name := o.names[len(o.names)-1]
		o.names = o.names[:len(o.names)-1]
		if size, is := s.isOld(name); is && unix.Unlinkat(s.fd(), name, 0) == nil {
			s.room.give(size)
			return true
		}
	}
	return false
}

// isOld says whether an extent has not been used since s.since.
func (s *shelf) isOld(name string) (size int64, is bool) {
	var st unix.Stat_t
	if unix.Fstatat(s.fd(), name, &st, 0) != nil {
		return 0, false
	}
	return st.Size, st.Mtim.Nano() < s.since.Load()-int64(tick)
}

// renewed makes everything old that nobody uses from now on. The time of the dataset's lock tells
// all its users.
func (s *shelf) renewed() error {
	now := time.Now()
	s.since.Store(now.UnixNano())
	return os.Chtimes(s.lock.Name(), now, now)
}

// use records that an extent is used, unless that was recorded recently enough for all users of the
// dataset that look for old extents.
func (s *shelf) use(k key, noted int64) {
	var st unix.Stat_t
	_ = unix.Fstat(int(s.lock.Fd()), &st)
	if noted < max(s.since.Load(), st.Mtim.Nano())-int64(tick) {
		_ = unix.UtimesNanoAt(s.fd(), k.name(), nil, 0)
	}
}
