package tier

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/batchfs/batchfs/internal/testkit"
)

func (o *origin) put(tier *Tier, id string) {
	tier.Put(o.object(id), o.data)
	tier.Settle()
}

// got says whether the tier has the object, and checks its bytes.
func (o *origin) got(t *testing.T, tier *Tier, id string) bool {
	t.Helper()
	p := make([]byte, len(o.data))
	if !tier.Get(o.object(id), p) {
		return false
	}
	if !bytes.Equal(p, o.data) {
		t.Errorf("%s has other bytes", id)
	}
	return true
}

func TestWholeObjects(t *testing.T) {
	for _, size := range []int{1, 100_000, ExtentBytes, 2*ExtentBytes + 77} {
		dir := t.TempDir()
		o, tier := newOrigin(size), open(t, dir, Options{Limit: 1 << 30})
		if o.got(t, tier, "a@1") {
			t.Error("it is there before it was put")
		}
		if o.put(tier, "a@1"); !o.got(t, tier, "a@1") || o.got(t, tier, "a@2") || o.got(t, tier, "b@1") {
			t.Errorf("%d bytes: %+v", size, tier.Stats())
		}
		if used := tier.Stats().Used; used != sizeBelow(dir) || used != Cost(int64(size)) {
			t.Errorf("%d bytes take %d, Cost says %d", size, used, Cost(int64(size)))
		}
		kept := tier.Stats().Kept
		if o.put(tier, "a@1"); tier.Stats().Kept != kept {
			t.Error("it was written again")
		}
		if s := tier.Stats(); s.Hits != 1 || s.Misses != 3 || s.HitBytes != int64(size) {
			t.Errorf("%+v", s)
		}
		if tier.Drop(o.object("a@1")); o.got(t, tier, "a@1") || tier.Stats().Used != 0 || sizeBelow(dir) != 0 {
			t.Errorf("%d bytes are not gone: %+v", size, tier.Stats())
		}
	}
}

// TestIncompleteObject: of an object that lacks a part, no other part stays.
func TestIncompleteObject(t *testing.T) {
	o, tier := newOrigin(2*ExtentBytes+77), open(t, t.TempDir(), Options{Limit: 2 * Cost(ExtentBytes)})
	if o.put(tier, "a"); tier.Stats().Kept != 2 || tier.Stats().NotKept != 1 {
		t.Errorf("%+v", tier.Stats())
	}
	if o.got(t, tier, "a") || tier.Stats().Used != 0 {
		t.Errorf("%+v", tier.Stats())
	}
}

// TestDropOfWhatWaits: an object that is dropped before it was written does not appear, unless it
// is put again.
func TestDropOfWhatWaits(t *testing.T) {
	for _, again := range []bool{false, true} {
		o, tier := newOrigin(1000), open(t, t.TempDir(), Options{Limit: 1 << 30})
		gate := make(chan struct{})
		for range fillers {
			tier.queue <- func() { <-gate }
		}
		tier.Put(o.object("a"), o.data)
		tier.Drop(o.object("a"))
		if again {
			tier.Put(o.object("a"), o.data)
		}
		close(gate)
		tier.Settle()
		if o.got(t, tier, "a") != again {
			t.Errorf("put again: %t, but it is there: %t", again, !again)
		}
	}
}

// TestPutBeforeDrop: what a plan keeps may come before what it replaces is dropped. It is there at
// once, waits for room in bounded memory, and is on the disk as soon as there is room, unless it is
// dropped before.
func TestPutBeforeDrop(t *testing.T) {
	const size = ExtentBytes / 4
	o, dir := newOrigin(size), t.TempDir()
	tier := open(t, dir, Options{Limit: Cost(size)})
	testkit.Must(t, tier.Follow("a plan", 1))
	state := func(what, there string, onDisk int, kept, notKept int64) {
		t.Helper()
		tier.Settle()
		for _, id := range []string{"a", "b", "c"} {
			if o.got(t, tier, id) != strings.Contains(there, id) {
				t.Errorf("%s: %q should be there, and %s is otherwise", what, there, id)
			}
		}
		if s := tier.Stats(); len(files(t, dir)) != onDisk || s.Kept != kept || s.NotKept != notKept || s.Used > s.Limit {
			t.Errorf("%s: %d on the disk, %+v", what, len(files(t, dir)), s)
		}
	}
	for _, id := range []string{"a", "b", "c"} {
		o.put(tier, id)
	}
	state("one of three has room", "abc", 1, 1, 0)
	tier.Drop(o.object("b"))
	state("one that waits is dropped", "ac", 1, 1, 0)
	tier.Drop(o.object("a"))
	state("the one on the disk is dropped", "c", 1, 2, 0)
	for i := range 20 {
		o.put(tier, fmt.Sprint(i))
	}
	state("many more come", "c", 1, 2, 20-mostLate/size)
	tier.Drop(o.object("c"))
	state("and one of them gets room", "", 1, 3, 20-mostLate/size)
}

// usedLongAgo has all extents look as if they were used an hour ago.
func usedLongAgo(t *testing.T, dir string) {
	t.Helper()
	for _, f := range files(t, dir) {
		testkit.Must(t, os.Chtimes(f, time.Time{}, time.Now().Add(-time.Hour)))
	}
}

// TestRenewal: exactly the extents that nobody has used since the tier was opened give way.
func TestRenewal(t *testing.T) {
	const most = 20
	o, dir := newOrigin(1000), t.TempDir()
	limit := most * Cost(1000)
	before := open(t, dir, Options{Limit: limit})
	for k := range most {
		o.put(before, fmt.Sprint("old", k))
	}
	before.Close()
	usedLongAgo(t, dir)
	if tier := open(t, dir, Options{Limit: limit}); true {
		if o.put(tier, "new"); tier.Stats().NotKept != 1 {
			t.Errorf("without Renew: %+v", tier.Stats())
		}
		tier.Close()
	}
	tier := open(t, dir, Options{Limit: limit})
	tier.Renew()
	if !o.got(t, tier, "old3") || !o.got(t, tier, "old7") {
		t.Error("what was there is not")
	}
	for k := range most {
		o.put(tier, fmt.Sprint("new", k))
	}
	if s := tier.Stats(); s.Kept != most-2 || s.NotKept != 2 || s.Used != limit || s.Used != sizeBelow(dir) {
		t.Errorf("%+v", s)
	}
	if !o.got(t, tier, "old3") || !o.got(t, tier, "old7") || !o.got(t, tier, "new0") {
		t.Error("what is used gave way")
	}
}

// TestUseByOthers: extents that another process uses do not give way, however long ago it opened
// the dataset or added them.
func TestUseByOthers(t *testing.T) {
	const most = 10
	o, dir := newOrigin(1000), t.TempDir()
	limit := most * Cost(1000)
	long := open(t, dir, Options{Limit: limit})
	long.Renew()
	for k := range most {
		o.put(long, fmt.Sprint(k))
	}
	long.shelf.since.Store(time.Now().Add(-2 * time.Hour).UnixNano())
	usedLongAgo(t, dir) // added after that
	late := open(t, dir, Options{Limit: limit})
	late.Renew()
	if o.put(long, "7"); !o.got(t, long, "3") || long.Stats().Kept != most { // which is there
		t.Fatal("what was put is not there")
	}
	for k := range most {
		o.put(late, fmt.Sprint("new", k))
	}
	if s := late.Stats(); s.Kept != most-2 || s.NotKept != 2 || s.Used != limit {
		t.Errorf("%+v", s)
	}
	if !o.got(t, long, "3") || !o.got(t, long, "7") {
		t.Error("what is in use gave way")
	}
	// Even if the lock has lost the time since which extents count as old, the tier that looks for
	// them uses its own.
	testkit.Must(t, os.Chtimes(late.shelf.lock.Name(), time.Time{}, time.Unix(0, 0)))
	usedLongAgo(t, dir)
	if late.shelf.old = (old{}); !o.got(t, late, "3") {
		t.Fatal("what was kept is not there")
	}
	for k := range most {
		o.put(late, fmt.Sprint("newer", k))
	}
	if !o.got(t, late, "3") || o.got(t, late, "7") {
		t.Error("what is in use gave way, or what is not did not")
	}
}

// TestInstead: extents of the tier's previous dataset give way at once, before older datasets, and
// to everyone who adds.
func TestInstead(t *testing.T) {
	const many = 8
	o, dir := newOrigin(1000), t.TempDir()
	limit := (1 + many) * Cost(1000)
	other := open(t, dir, Options{Limit: limit, Dataset: "other"})
	o.put(other, "a")
	other.Close()
	blocks := open(t, dir, Options{Limit: limit, Dataset: "blocks"})
	for k := range many {
		o.put(blocks, fmt.Sprint(k))
	}
	tier, err := blocks.Instead("samples")
	testkit.Must(t, err)
	t.Cleanup(func() { tier.Close() })
	var wait sync.WaitGroup
	for k := range many {
		wait.Go(func() { tier.Put(o.object(fmt.Sprint(k)), o.data) })
	}
	wait.Wait()
	tier.Settle()
	if s := tier.Stats(); s.Kept != many || s.NotKept != 0 || s.Used != limit || s.Used != sizeBelow(dir) {
		t.Errorf("%+v", s)
	}
	if !o.got(t, open(t, dir, Options{Limit: limit, Dataset: "other"}), "a") {
		t.Error("another dataset gave way first")
	}
}

// TestWaitingIsBounded: data that waits for the disk takes no more memory than planned, however
// many users put something at once, and the rest is counted.
func TestWaitingIsBounded(t *testing.T) {
	o, tier := newOrigin(ExtentBytes/4), open(t, t.TempDir(), Options{Limit: 1 << 30})
	gate := make(chan struct{})
	for range fillers {
		tier.queue <- func() { <-gate }
	}
	var all sync.WaitGroup
	const puts, most = 100, mostWaiting / (ExtentBytes / 4)
	for i := range puts {
		all.Go(func() { tier.Put(o.object(fmt.Sprint(i)), o.data) })
	}
	all.Wait()
	tier.mu.Lock()
	waiting := tier.waiting
	tier.mu.Unlock()
	close(gate)
	tier.Settle()
	if s := tier.Stats(); waiting != mostWaiting || s.Kept != most || s.NotKept != puts-most {
		t.Errorf("%d bytes wait, want %d; %+v", waiting, mostWaiting, s)
	}
}

// noFiles make what is not a file, or a link to one, which must stay as it is.
func noFiles(t *testing.T) map[string]func(path string) error {
	other := filepath.Join(t.TempDir(), "other")
	testkit.Must(t, os.WriteFile(other, []byte("something else"), 0o600))
	t.Cleanup(func() {
		if text, err := os.ReadFile(other); err != nil || string(text) != "something else" {
			t.Errorf("what a link led to: %q, %v", text, err)
		}
	})
	return map[string]func(path string) error{
		"FIFO":      func(path string) error { return unix.Mkfifo(path, 0o600) },
		"link":      func(path string) error { return os.Symlink(other, path) },
		"directory": func(path string) error { return os.Mkdir(path, 0o700) },
	}
}

// TestNoFileInThePlaceOfAnExtent: a FIFO, a link or a directory in its place delays no read, and
// none of its bytes are shown.
func TestNoFileInThePlaceOfAnExtent(t *testing.T) {
	for what, make := range noFiles(t) {
		o, tier := newOrigin(100_000), open(t, t.TempDir(), Options{Limit: 1 << 30})
		o.put(tier, "a")
		path := filepath.Join(tier.shelf.dir.Name(), o.object("a").piecesOf(0, 1)[0].key.name())
		testkit.Must(t, errors.Join(os.Remove(path), make(path)))
		if o.got(t, tier, "a") {
			t.Errorf("%s: it is read", what)
		}
		o.read(t, tier, "a", 0, len(o.data)) // from the store
		if o.put(tier, "a"); o.got(t, tier, "a") != (what == "FIFO") {
			t.Errorf("%s: rebuilt: %t", what, what != "FIFO")
		}
		if direct := open(t, t.TempDir(), Options{Limit: 1 << 30}).shelf.direct.Load(); tier.shelf.direct.Load() != direct {
			t.Errorf("%s: direct reads: %t", what, !direct)
		}
	}
}

// TestNoFileInThePlaceOfAnother: if something else is in the place of a file that the directory is
// managed with, it is refused, and named.
func TestNoFileInThePlaceOfAnother(t *testing.T) {
	for what, make := range noFiles(t) {
		for _, name := range []string{"lock", "used"} {
			dir := t.TempDir()
			testkit.Must(t, make(filepath.Join(dir, name)))
			if tier, err := Open(dir, Options{Limit: 1 << 30, Dataset: "d"}); err == nil || !strings.Contains(err.Error(), filepath.Join(dir, name)) {
				t.Errorf("%s as %s: %v", what, name, err)
				if err == nil {
					tier.Close()
				}
			}
			if p, err := Examine(dir); err != nil || p.Used != 0 {
				t.Errorf("%s as %s: %+v, %v", what, name, p, err)
			}
		}
	}
}
