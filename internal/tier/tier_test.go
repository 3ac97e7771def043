package tier

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/batchfs/batchfs/internal/testkit"
)

// origin is where objects come from, in memory.
type origin struct {
	data  []byte
	asked atomic.Int64 // bytes
	fails atomic.Bool
}

func newOrigin(n int) *origin {
	o := &origin{data: make([]byte, n)}
	r := rand.New(rand.NewPCG(1, uint64(n)))
	for i := range o.data {
		o.data[i] = byte(r.Uint32())
	}
	return o
}

func (o *origin) fetch(_ context.Context, p []byte, offset int64) error {
	if o.fails.Load() {
		return errors.New("the store is away")
	}
	o.asked.Add(int64(len(p)))
	copy(p, o.data[offset:])
	return nil
}

// object is one by its name, with @ and its version behind that if versions matter.
func (o *origin) object(id string) *Object {
	name, version, _ := strings.Cut(id, "@")
	return &Object{Name: name, Version: version, Size: int64(len(o.data))}
}

func open(t *testing.T, dir string, o Options) *Tier {
	t.Helper()
	tier, err := Open(dir, o)
	testkit.Must(t, err)
	t.Cleanup(func() {
		if tier.ctx.Err() == nil {
			tier.Close()
		}
	})
	return tier
}

// read reads a part of the object, checks it, and waits until everything is kept.
func (o *origin) read(t *testing.T, tier *Tier, id string, offset, n int) {
	t.Helper()
	o.readOnly(t, tier, id, offset, n)
	tier.Settle()
}

func (o *origin) readOnly(t *testing.T, tier *Tier, id string, offset, n int) {
	t.Helper()
	p := make([]byte, n)
	testkit.Must(t, tier.Read(t.Context(), o.object(id), p, int64(offset), o.fetch))
	if !bytes.Equal(p, o.data[offset:offset+n]) {
		t.Fatalf("bytes %d to %d are wrong", offset, offset+n)
	}
}

func TestRead(t *testing.T) {
	for _, size := range []int{1, 4095, 4096, 4097, chunkBytes, 100_000, ExtentBytes, ExtentBytes + 1, 2*ExtentBytes + 77} {
		t.Run(fmt.Sprint(size), func(t *testing.T) {
			dir := t.TempDir()
			o := newOrigin(size)
			tier := open(t, dir, Options{Limit: 1 << 30})
			for at := 0; at < size; at += ExtentBytes {
				o.read(t, tier, "@v1", at, 1)
			}
			tier.Settle()
			before := o.asked.Load()
			for range 50 {
				offset := rand.IntN(size)
				o.read(t, tier, "@v1", offset, 1+rand.IntN(min(size-offset, 300_000)))
			}
			o.read(t, tier, "@v1", 0, size)
			if o.asked.Load() != before {
				t.Errorf("%d bytes were fetched again", o.asked.Load()-before)
			}
			if s := tier.Stats(); s.Hits != 51 || s.Used != sizeBelow(dir) || s.KeptBytes != int64(size) {
				t.Errorf("%+v, with %d bytes of files", s, sizeBelow(dir))
			}
			tier.Close()

			again := open(t, dir, Options{Limit: 1 << 30})
			before = o.asked.Load()
			o.read(t, again, "@v1", 0, size)
			if o.asked.Load() != before {
				t.Error("a later process fetched again")
			}
			if o.read(t, again, "@v2", 0, 1); o.asked.Load() == before {
				t.Error("another version came from the tier")
			}
		})
	}
}

// smallDisk is the directory of a file system of 64 KiB.
func smallDisk(t *testing.T) (dir string) {
	dir = t.TempDir()
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size=64k,mode=0700"); err != nil {
		t.Skip("SKIPPED: cannot mount a tmpfs:", err)
	}
	t.Cleanup(func() { _ = unix.Unmount(dir, unix.MNT_DETACH) })
	return dir
}

// files returns the files of all extents.
func files(t *testing.T, dir string) []string {
	all, err := filepath.Glob(filepath.Join(dir, "*", "??", "*"))
	testkit.Must(t, err)
	return all
}

func TestDamage(t *testing.T) {
	const size = 5*chunkBytes + 123
	damages := map[string]func(path string, info os.FileInfo) error{
		"cut":    func(path string, info os.FileInfo) error { return os.Truncate(path, info.Size()-unit) },
		"empty":  func(path string, _ os.FileInfo) error { return os.Truncate(path, 0) },
		"longer": func(path string, info os.FileInfo) error { return os.Truncate(path, info.Size()+unit) },
		"only zeros": func(path string, info os.FileInfo) error {
			return errors.Join(os.Truncate(path, 0), os.Truncate(path, info.Size()))
		},
	}
	for _, at := range []int64{0, 20, 33, 48, crcsAt, crcsAt + 9, unit - 1, unit, unit + 3*chunkBytes, unit + size - 1} {
		damages[fmt.Sprint("byte ", at)] = func(path string, _ os.FileInfo) error {
			f, err := os.OpenFile(path, os.O_RDWR, 0)
			if err != nil {
				return err
			}
			defer f.Close()
			b := make([]byte, 1)
			_, err = f.ReadAt(b, at)
			b[0] ^= 0x40
			_, err2 := f.WriteAt(b, at)
			return errors.Join(err, err2)
		}
	}
	for name, damage := range damages {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			o := newOrigin(size)
			tier := open(t, dir, Options{Limit: 1 << 30})
			o.read(t, tier, "", 0, size)
			path := files(t, dir)[0]
			info, err := os.Stat(path)
			if err == nil {
				err = damage(path, info)
			}
			testkit.Must(t, err)
			o.read(t, tier, "", 0, size)
			if s := tier.Stats(); s.Damaged != 1 || s.Hits != 0 {
				t.Errorf("%+v", s)
			}
			o.read(t, tier, "", 7, size-7)
			if s := tier.Stats(); s.Hits != 1 {
				t.Errorf("it was not mended: %+v", s)
			}
		})
	}
}

// An extent under another's name is not taken for it.
func TestExtentOfAnother(t *testing.T) {
	dir := t.TempDir()
	a, b := newOrigin(1000), newOrigin(1001)
	tier := open(t, dir, Options{Limit: 1 << 30})
	a.read(t, tier, "a", 0, 1000)
	from := files(t, dir)[0]
	b.read(t, tier, "b", 0, 1000)
	tier.Settle()
	for _, to := range files(t, dir) {
		if to != from {
			testkit.Must(t, os.Rename(from, to))
		}
	}
	b.read(t, tier, "b", 0, 1000)
	if s := tier.Stats(); s.Damaged != 1 {
		t.Errorf("%+v", s)
	}
}

func TestLimit(t *testing.T) {
	dir := t.TempDir()
	const size = 10_000
	limit := 3 * fileBytes(size)
	o := newOrigin(size)
	first := open(t, dir, Options{Limit: limit, Dataset: "first"})
	for v := range 5 {
		o.read(t, first, fmt.Sprint(v), 0, size)
	}
	if s := first.Stats(); s.Kept != 3 || s.NotKept != 2 || s.Used != limit {
		t.Errorf("%+v", s)
	}
	second := open(t, dir, Options{Limit: limit, Dataset: "second"})
	o.read(t, second, "", 0, size)
	if s := second.Stats(); s.Kept != 0 {
		t.Errorf("a dataset in use gave way: %+v", s)
	}
	first.Close()
	o.read(t, second, "", 0, size)
	if s := second.Stats(); s.Kept != 1 || s.Used != sizeBelow(dir) || s.Used != fileBytes(size) {
		t.Errorf("an unused dataset did not give way: %+v", s)
	}
	second.Close()
	third, larger := open(t, dir, Options{Limit: fileBytes(size)}), newOrigin(2*size)
	larger.read(t, third, "", 0, 2*size)
	if len(files(t, dir)) != 1 {
		t.Error("others gave way to an extent for which there can be no room")
	}
}

// TestLowerLimit: extents beyond a limit are removed, unless somebody uses them, and no more.
func TestLowerLimit(t *testing.T) {
	dir := t.TempDir()
	const size = 10_000
	each := fileBytes(size)
	o := newOrigin(size)
	for _, dataset := range []string{"first", "second", "used"} {
		tier := open(t, dir, Options{Limit: 1 << 30, Dataset: dataset})
		for v := range 3 {
			o.read(t, tier, fmt.Sprint(v), 0, size)
		}
		if dataset != "used" {
			tier.Close()
		}
	}
	for _, step := range []struct{ limit, left, own int64 }{{8, 8, 3}, {5, 5, 2}, {1, 3, 0}} {
		tier := open(t, dir, Options{Limit: step.limit * each, Dataset: "second"})
		for v := range 3 {
			tier.Get(o.object(fmt.Sprint(v)), make([]byte, size))
		}
		if s := tier.Stats(); s.Used != step.left*each || s.Used != sizeBelow(dir) || s.Hits != step.own {
			t.Errorf("with room for %d: %+v", step.limit, s)
		}
		tier.Close()
	}
}

// The store's data of a new version replaces what was kept of the previous one, without taking more
// room. A mount that still requests the previous one gets nothing wrong, and evicts nothing.
func TestVersions(t *testing.T) {
	const size = 10_000
	dir, limit := t.TempDir(), fileBytes(size)
	was, is := newOrigin(size), newOrigin(size)
	copy(is.data, "another")
	old, tier := open(t, dir, Options{Limit: limit}), open(t, dir, Options{Limit: limit})
	was.read(t, old, "a@1", 0, size)
	is.read(t, tier, "a@2", 3, 5)
	if s := tier.Stats(); s.Kept != 1 || s.NotKept+s.Damaged != 0 || s.Used != limit || s.Used != sizeBelow(dir) {
		t.Errorf("%+v", s)
	}
	was.fails.Store(true) // there is no such version any more
	if err := old.Read(t.Context(), was.object("a@1"), make([]byte, 5), 3, was.fetch); err == nil {
		t.Error("the version that was replaced is there")
	}
	is.fails.Store(true)
	is.read(t, tier, "a@2", 0, size)
	if s := tier.Stats(); s.Hits != 1 {
		t.Errorf("%+v", s)
	}
}

// Bytes that a killed process left counted are recounted by the next process that is alone.
func TestCountAnew(t *testing.T) {
	dir := t.TempDir()
	o := newOrigin(5000)
	tier := open(t, dir, Options{Limit: 1 << 30})
	o.read(t, tier, "", 0, 5000)
	tier.shelf.room.take(1<<20, 1<<30)
	other := open(t, dir, Options{Limit: 1 << 30})
	if other.Stats().Used == sizeBelow(dir) {
		t.Error("it was counted anew while others use it")
	}
	tier.Close()
	other.Close()
	if s := open(t, dir, Options{Limit: 1 << 30}).Stats(); s.Used != sizeBelow(dir) || s.Used == 0 {
		t.Errorf("%+v", s)
	}
}

func TestFullDisk(t *testing.T) {
	dir := smallDisk(t)
	o := newOrigin(20_000)
	tier := open(t, dir, Options{Limit: 1 << 30})
	for v := range 6 {
		o.read(t, tier, fmt.Sprint(v), 0, len(o.data))
	}
	if s := tier.Stats(); s.Kept == 0 || s.Kept > 3 || s.Used != sizeBelow(dir) {
		t.Errorf("%+v", s)
	}
	hits := tier.Stats().Hits
	if o.read(t, tier, "0", 0, 100); tier.Stats().Hits != hits+1 {
		t.Error("what was kept is not used")
	}
	tier.Close()
}

// A disk that is full from the start is an error, not the end of the process.
func TestOpenOnFullDisk(t *testing.T) {
	dir := smallDisk(t)
	if err := os.WriteFile(filepath.Join(dir, "full"), make([]byte, 1<<20), 0o600); !errors.Is(err, unix.ENOSPC) {
		t.Fatal(err)
	}
	if _, err := Open(dir, Options{Limit: 1 << 20}); !errors.Is(err, unix.ENOSPC) {
		t.Error(err)
	}
}

// A store that is away while extents are filled is no reader's problem.
func TestStoreAway(t *testing.T) {
	o := newOrigin(ExtentBytes + 5)
	tier := open(t, t.TempDir(), Options{Limit: 1 << 30})
	held := make(chan struct{})
	p := make([]byte, 10)
	first := true
	err := tier.Read(t.Context(), o.object(""), p, 0, func(ctx context.Context, p []byte, offset int64) error {
		if first {
			first = false
			return o.fetch(ctx, p, offset)
		}
		<-held
		return errors.New("away")
	})
	if err != nil || !bytes.Equal(p, o.data[:10]) {
		t.Error(err)
	}
	close(held)
	tier.Settle()
	o.read(t, tier, "", 3, 100)
	o.fails.Store(true)
	if err := tier.Read(t.Context(), o.object(""), p, 0, o.fetch); err == nil {
		t.Error("nothing was read, and there was no error")
	}
	if s := tier.Stats(); s.Kept != 0 || s.Misses != 3 {
		t.Errorf("%+v", s)
	}
}

// Close ends a fetch in the background.
func TestCloseEndsFetch(t *testing.T) {
	o := newOrigin(100)
	tier := open(t, t.TempDir(), Options{Limit: 1 << 30})
	asked := make(chan struct{})
	calls := 0
	err := tier.Read(t.Context(), o.object(""), make([]byte, 10), 0, func(ctx context.Context, p []byte, offset int64) error {
		if calls++; calls == 1 {
			return nil
		}
		close(asked)
		<-ctx.Done()
		return ctx.Err()
	})
	testkit.Must(t, err)
	<-asked
	tier.Close()
}

// TestAfterClose: a read that the disk answers late, and a request for statistics, find a closed
// tier.
func TestAfterClose(t *testing.T) {
	o, tier := newOrigin(1000), open(t, t.TempDir(), Options{Limit: 1 << 30})
	o.put(tier, "a")
	fd, err := tier.shelf.openFile(o.object("a").piecesOf(0, 1)[0].key.name(), unix.O_RDONLY)
	testkit.Must(t, err)
	defer unix.Close(fd)
	tier.Close()
	runtime.GC()
	tier.shelf.drop(fd, o.object("a").piecesOf(0, 1)[0].key)
	if s := tier.Stats(); s.Kept != 1 || s.Used != Cost(1000) || o.got(t, tier, "a") {
		t.Errorf("%+v", s)
	}
}

func TestManyReaders(t *testing.T) {
	dir := t.TempDir()
	o := newOrigin(2*ExtentBytes + 999)
	tiers := []*Tier{open(t, dir, Options{Limit: 1 << 30}), open(t, dir, Options{Limit: 1 << 30})}
	var wait sync.WaitGroup
	for k := range 8 {
		wait.Go(func() {
			for range 60 {
				offset := rand.IntN(len(o.data))
				o.readOnly(t, tiers[k%2], "", offset, 1+rand.IntN(min(len(o.data)-offset, 100_000)))
			}
		})
	}
	wait.Wait()
	o.read(t, tiers[0], "", len(o.data)-1000, 1000)
	for _, tier := range tiers {
		tier.Settle()
	}
	if s := tiers[0].Stats(); s.Used != sizeBelow(dir) || len(files(t, dir)) != 3 {
		t.Errorf("%+v, %d bytes in %d files", s, sizeBelow(dir), len(files(t, dir)))
	}
}

func TestOpenRefuses(t *testing.T) {
	dir := t.TempDir()
	testkit.Must(t, os.Chmod(dir, 0o777))
	if _, err := Open(dir, Options{Limit: 1}); err == nil {
		t.Error("a directory that others may write to was used")
	}
	file := filepath.Join(t.TempDir(), "file")
	testkit.Must(t, os.WriteFile(file, nil, 0o600))
	if _, err := Open(file, Options{Limit: 1}); err == nil {
		t.Error("a file was used")
	}
}

func FuzzCheck(f *testing.F) {
	good := make([]byte, fileBytes(9))
	seal(good, newKey("", "", 1), 9)
	f.Add(good[:unit], int64(len(good)))
	f.Fuzz(func(t *testing.T, header []byte, size int64) {
		header = append(header, make([]byte, unit)...)[:unit]
		if n, err := check(header, newKey("", "", 1), size); err == nil && (n < 1 || n > ExtentBytes || fileBytes(n) != size) {
			t.Errorf("%d of a file of %d", n, size)
		}
	})
}
