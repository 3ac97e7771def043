package tier

import (
	"fmt"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

// Renew has extents that nobody has used since the tier was opened give way to what is added, if
// there is no other room. It is for tiers that have room for all that is wanted: what is not used
// then is what is no longer wanted.
func (t *Tier) Renew() { t.shelf.renew.Store(true) }

// old finds the extents that nobody has used since some time, one directory after another.
type old struct {
	passed int // directories
	names  []string
}

const (
	directories = 256
	tick        = 100 * time.Millisecond // by which the time of a file may be late
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

// isOld says whether nobody has used an extent since then.
func (s *shelf) isOld(name string) (size int64, is bool) {
	var st unix.Stat_t
	if unix.Fstatat(s.fd(), name, &st, 0) != nil {
		return 0, false
	}
	return st.Size, st.Mtim.Nano() < s.since.Load()-int64(tick)
}

// renewed has what nobody uses from now on be old. The time of the dataset's lock tells that to all
// who use it.
func (s *shelf) renewed() error {
	now := time.Now()
	s.since.Store(now.UnixNano())
	return os.Chtimes(s.lock.Name(), now, now)
}

// use notes that an extent is used, unless that was noted since the time from which anybody who
// uses the dataset looks for what is old.
func (s *shelf) use(k key, noted int64) {
	var st unix.Stat_t
	_ = unix.Fstat(int(s.lock.Fd()), &st)
	if noted < max(s.since.Load(), st.Mtim.Nano())-int64(tick) {
		_ = unix.UtimesNanoAt(s.fd(), k.name(), nil, 0)
	}
}
