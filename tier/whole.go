package tier

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"golang.org/x/sys/unix"
)

// Cost is what an object of n bytes takes of the limit.
func Cost(n int64) int64 {
	cost := n / ExtentBytes * fileBytes(ExtentBytes)
	if rest := n % ExtentBytes; rest > 0 {
		cost += fileBytes(rest)
	}
	return cost
}

// Get reads all of an object into p, which has its size; false: the tier does not have it.
func (t *Tier) Get(o *Object, p []byte) bool {
	for _, x := range o.piecesOf(0, o.Size) {
		if t.get(x.key, p[x.from:x.to], 0) {
			t.use(x.key)
			continue
		}
		if t.misses.Add(1); x.from > 0 {
			t.Drop(o) // without this part, the others are of no use
		}
		return false
	}
	t.hits.Add(1)
	t.hitBytes.Add(o.Size)
	return true
}

// Put has an object kept. Its bytes are copied, and written later; if too many wait for that, it is not kept.
func (t *Tier) Put(o *Object, data []byte) {
	for _, x := range o.piecesOf(0, o.Size) {
		if t.want(x.key, true) {
			continue
		}
		kept := t.hasRoom(x)
		if kept {
			from := slices.Clone(data[x.from:x.to])
			kept = t.keepLater(x, x.to-x.from, func(to []byte) error { copy(to, from); return nil })
		}
		if !kept {
			t.notKept.Add(1)
			return
		}
	}
}

// Drop removes an object, even if it still waits to be written.
func (t *Tier) Drop(o *Object) {
	for _, x := range o.piecesOf(0, o.Size) {
		if !t.want(x.key, false) {
			t.remove(x.key)
		}
	}
}

// old finds the extents that nobody has used since a tier was opened, one directory after another.
type old struct {
	passed int // directories
	names  []string
}

const (
	directories = 256
	tick        = 100 * time.Millisecond // by which the time of a file may be late
)

// giveWay removes an old extent; false: there is none. The caller holds room.evicting.
func (t *Tier) giveWay() bool {
	o := &t.old
	for t.opts.Renew && (len(o.names) > 0 || o.passed < directories) {
		if len(o.names) == 0 {
			dir := fmt.Sprintf("%02x", o.passed)
			o.passed++
			entries, _ := os.ReadDir(filepath.Join(t.dir.Name(), dir))
			for _, e := range entries {
				o.names = append(o.names, dir+"/"+e.Name())
			}
			continue
		}
		name := o.names[len(o.names)-1]
		o.names = o.names[:len(o.names)-1]
		if size, is := t.isOld(name); is && unix.Unlinkat(t.fd(), name, 0) == nil {
			t.room.give(size)
			return true
		}
	}
	return false
}

// isOld says whether an extent has not been used since the tier was opened.
func (t *Tier) isOld(name string) (size int64, is bool) {
	var st unix.Stat_t
	if unix.Fstatat(t.fd(), name, &st, 0) != nil {
		return 0, false
	}
	return st.Size, time.Unix(st.Mtim.Unix()).Before(t.opened.Add(-tick))
}

// use notes that an extent is used.
func (t *Tier) use(k Key) {
	if _, is := t.isOld(k.name()); is && t.opts.Renew {
		_ = unix.UtimesNanoAt(t.fd(), k.name(), nil, 0)
	}
}

// Instead closes the tier and returns that of another dataset in the same directory, with the same options and Renew.
// What is in this one gives way before any other.
func (t *Tier) Instead(dataset string) (*Tier, error) {
	o := t.opts
	o.Dataset, o.Renew = dataset, true
	other, err := Open(filepath.Dir(t.dir.Name()), o)
	if err != nil {
		return nil, err
	}
	_ = os.Chtimes(t.lock.Name(), time.Time{}, time.Unix(0, 0))
	return other, t.Close()
}
