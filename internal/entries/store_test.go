package entries

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"

	"github.com/batchfs/batchfs/internal/testkit"
)

// fileOf is a test's file i.
func fileOf(i int) File {
	return File{fmt.Sprintf("dir/%d.jpg", i), int64(1000 + i), 1_600_000_000_000_000_000 + int64(i)}
}

// pointsOf are the entry points of file i. Every seventh file has none.
func pointsOf(i int) Points {
	p := Points{CRC: uint32(i) * 0x9e3779b9}
	if i%7 != 3 {
		p.Bytes = make([]byte, 8*(1+i%40))
		_, _ = rand.NewChaCha8([32]byte{byte(i), byte(i >> 8), 1}).Read(p.Bytes)
	}
	return p
}

func optionsOf(dir string, samples int) Options {
	return Options{Path: filepath.Join(dir, "x.entries"), Samples: samples, Rule: -1, Wait: true}
}

func open(t testing.TB, o Options) *Store {
	t.Helper()
	s, err := Open(o)
	testkit.Must(t, err)
	return s
}

func shut(t testing.TB, s *Store) {
	t.Helper()
	testkit.Must(t, s.Close())
}

// made makes a file with the entry points of files.
func made(t testing.TB, o Options, files ...int) {
	t.Helper()
	s := open(t, o)
	for _, i := range files {
		s.Put(fileOf(i), pointsOf(i))
	}
	shut(t, s)
}

func to(n int) (all []int) {
	for i := range n {
		all = append(all, i)
	}
	return all
}

// has reports whether file i is known, and fails if its entry points are wrong.
func has(t testing.TB, s *Store, i int) bool {
	t.Helper()
	var b Buffer
	got, known := s.Get(fileOf(i), &b)
	if want := pointsOf(i); known && (!bytes.Equal(got.Bytes, want.Bytes) || got.CRC != want.CRC) {
		t.Fatalf("file %d: %x, CRC %x, are not its entry points", i, got.Bytes, got.CRC)
	}
	return known
}

// TestRoundTrip: entry points that were put are found before they are written, and by the next
// Store. If more are put than a file was made for, some are lost, but none becomes another file's.
func TestRoundTrip(t *testing.T) {
	const n, most = 2000, 20000
	o := optionsOf(t.TempDir(), n)
	s := open(t, o)
	known := func(files int) (count int) {
		shut(t, s)
		s = open(t, o)
		for i := range files {
			if has(t, s, i) {
				count++
			}
		}
		return count
	}
	for i := range most {
		s.Put(fileOf(i), pointsOf(i))
		if !has(t, s, i) && i < n { // beyond n, another of the same batch may take its slot once both are written
			t.Fatalf("file %d is not known right after it was put", i)
		}
		if i == n-1 {
			if count := known(n + 10); count != n || s.Rule() != -1 || s.Bytes() < n*(16+4+8*17) {
				t.Errorf("%d of %d known, rule %d, %d bytes", count, n, s.Rule(), s.Bytes())
			}
		}
	}
	if count, room := known(most), int(s.buckets())*slots; count > room || count < room*9/10 {
		t.Errorf("%d known, and there is room for %d", count, room)
	}
	shut(t, s)
}

// TestOnlyTheSameFile: entry points belong to a path, a size and a time.
func TestOnlyTheSameFile(t *testing.T) {
	o := optionsOf(t.TempDir(), 10)
	made(t, o, 1, 3)
	s := open(t, o)
	defer s.Close()
	var b Buffer
	for _, i := range []int{1, 3} {
		for name, change := range map[string]func(*File){
			"path":        func(f *File) { f.Path = "dir/9.jpg" },
			"longer path": func(f *File) { f.Path += "x" },
			"size":        func(f *File) { f.Size++ },
			"time":        func(f *File) { f.ModTime-- },
		} {
			f := fileOf(i)
			if change(&f); f == fileOf(i) {
				t.Fatal("nothing changed")
			}
			if _, known := s.Get(f, &b); known {
				t.Errorf("file %d: known in spite of another %s", i, name)
			}
		}
		if !has(t, s, i) {
			t.Errorf("file %d is not known", i)
		}
	}
	later := fileOf(1)
	later.ModTime++
	s.Put(later, pointsOf(8))
	if got, known := s.Get(later, &b); has(t, s, 1) || !known || !bytes.Equal(got.Bytes, pointsOf(8).Bytes) {
		t.Error("a later version of a file does not replace the earlier one")
	}
	s.Forget(fileOf(1))
	if _, known := s.Get(later, &b); known || has(t, s, 1) {
		t.Error("a file is known after it was forgotten")
	}
}

// TestHash: slots of a file from another version, or another machine, are in the expected places.
func TestHash(t *testing.T) {
	if got := hashOf("dir/1.jpg"); got != 0x7e338774599088ef {
		t.Errorf("%#x", got)
	}
}

// TestRules: a file keeps its rule, unless Strict demands another one.
func TestRules(t *testing.T) {
	o := optionsOf(t.TempDir(), 10)
	o.Rule = 20
	made(t, o, 1)
	o.Rule = -1
	s := open(t, o)
	if s.Rule() != 20 || !has(t, s, 1) {
		t.Errorf("rule %d", s.Rule())
	}
	shut(t, s)
	o.Strict = true
	s = open(t, o)
	if s.Rule() != -1 || has(t, s, 1) {
		t.Errorf("rule %d, and entry points of another rule", s.Rule())
	}
	shut(t, s)
}

// TestMostPoints: a file may have as many entry points as the largest JPEG has rows.
func TestMostPoints(t *testing.T) {
	o := optionsOf(t.TempDir(), 2)
	s := open(t, o)
	most := Points{bytes.Repeat([]byte("entrypts"), maxPoints), 1}
	more := Points{bytes.Repeat([]byte("entrypts"), maxPoints+1), 1}
	s.Put(fileOf(0), most)
	s.Put(fileOf(1), more)
	shut(t, s)
	s = open(t, o)
	defer s.Close()
	var b Buffer
	if got, known := s.Get(fileOf(0), &b); !known || !bytes.Equal(got.Bytes, most.Bytes) {
		t.Errorf("%v, %d bytes", known, len(got.Bytes))
	}
	if got, known := s.Get(fileOf(1), &b); !known || len(got.Bytes) > 0 {
		t.Errorf("%v, %d bytes", known, len(got.Bytes))
	}
}

// TestWrittenInTime: what is put can be read by another process a second later, and at once if
// there is so much that the rest of the room may be needed meanwhile.
func TestWrittenInTime(t *testing.T) {
	o := optionsOf(t.TempDir(), 1000)
	synctest.Test(t, func(t *testing.T) {
		s := open(t, o)
		defer s.Close()
		other := open(t, o)
		defer other.Close()
		for round := range 3 {
			s.Put(fileOf(round), pointsOf(round))
			if has(t, other, round) {
				t.Error("written one by one")
			}
			time.Sleep(flushAfter)
			synctest.Wait()
			if !has(t, other, round) {
				t.Errorf("file %d is not written after %v", round, flushAfter)
			}
		}
		for range 4 { // the same file again and again
			s.Put(fileOf(9), pointsOf(9))
			time.Sleep(flushAfter / 3)
			synctest.Wait()
		}
		if !has(t, other, 9) {
			t.Errorf("a file that is put every %v is not written", flushAfter/3)
		}
		for i := range mostNotes / 2 / noteSize {
			s.Put(fileOf(100+i), pointsOf(100+i))
		}
		synctest.Wait()
		if !has(t, other, 100) {
			t.Error("notes that take half of their room are not written at once")
		}
	})
}

// TestNothingWaitsForTheDisk: while a write hangs, Put and Get go on, in bounded memory.
func TestNothingWaitsForTheDisk(t *testing.T) {
	o := optionsOf(t.TempDir(), 1<<16)
	o.Wait = false
	s := open(t, o)
	r, w, err := os.Pipe()
	testkit.Must(t, err)
	if _, err := w.Write(make([]byte, 64<<10)); err != nil { // as much as a pipe holds
		t.Fatal(err)
	}
	s.appender.Close()
	s.appender = w
	for i := range o.Samples {
		s.Put(fileOf(i), pointsOf(i))
		has(t, s, i)
	}
	s.mu.Lock()
	sum := 0
	for _, n := range s.notes {
		sum += n.size()
	}
	if sum == 0 || sum != s.taken || sum > mostNotes {
		t.Errorf("%d notes of %d bytes, which are charged %d", len(s.notes), sum, s.taken)
	}
	s.mu.Unlock()
	r.Close()
	if err := s.Close(); !errors.Is(err, unix.EPIPE) {
		t.Errorf("%v", err)
	}
}

// TestReadThatHangs: while a read hangs, other callers go on without stored entry points.
func TestReadThatHangs(t *testing.T) {
	o := optionsOf(t.TempDir(), 4)
	made(t, o, to(4)...)
	synctest.Test(t, func(t *testing.T) {
		s := open(t, o)
		defer shut(t, s)
		s.reading.Store(1) // as a read does that begins now
		if !has(t, s, 1) {
			t.Error("another read that is under way stops reading")
		}
		time.Sleep(2 * patience)
		if has(t, s, 1) {
			t.Error("reading goes on while a read hangs")
		}
		s.reading.Store(0)
		if !has(t, s, 1) {
			t.Error("reading does not go on after a read has returned")
		}
	})
}

// TestDiskFull: a failed write ends writing, is reported once, and destroys nothing.
func TestDiskFull(t *testing.T) {
	o := optionsOf(t.TempDir(), 1<<14)
	made(t, o, 1, 2)
	lines := logged(&o)
	s := open(t, o)
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Skip(err)
	}
	s.appender.Close()
	s.appender = full
	for i := 3; i < o.Samples; i++ {
		s.Put(fileOf(i), pointsOf(i))
	}
	if err := s.Close(); !errors.Is(err, unix.ENOSPC) || s.Writes() {
		t.Errorf("%v", err)
	}
	if n := strings.Count(lines(), "no more entry points are stored"); n != 1 {
		t.Errorf("%d messages:\n%s", n, lines())
	}
	s = open(t, o)
	defer s.Close()
	for i := range 100 {
		if has(t, s, i) != (i == 1 || i == 2) {
			t.Errorf("file %d", i)
		}
	}
}

// TestReadOnly: without permission to write, existing entry points are used, and nothing is added.
func TestReadOnly(t *testing.T) {
	dir := t.TempDir()
	o := optionsOf(dir, 10)
	made(t, o, 1)
	missing := o
	missing.Path += ".missing"
	asNobody(t, dir)
	s, err := Open(o)
	testkit.Must(t, err)
	if s.Writes() || !has(t, s, 1) || has(t, s, 2) {
		t.Error("not as it was written")
	}
	s.Put(fileOf(2), pointsOf(2))
	s.Forget(fileOf(1))
	if !has(t, s, 1) || has(t, s, 2) {
		t.Error("changed")
	}
	shut(t, s)
	if s, err := Open(missing); err == nil {
		s.Close()
		t.Error("made where nothing can be written")
	}
}

// TestWithoutProc: entry points are added also where /proc is not mounted.
func TestWithoutProc(t *testing.T) {
	o := optionsOf(t.TempDir(), 10)
	problem := make(chan error, 2)
	go func() { // on a thread that ends with it, and its mounts
		runtime.LockOSThread()
		problem <- errors.Join(
			unix.Unshare(unix.CLONE_NEWNS), unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""), unix.Mount("none", "/proc", "tmpfs", 0, ""))
		s, err := Open(o)
		if err == nil {
			s.Put(fileOf(1), pointsOf(1))
			err = s.Close()
		}
		problem <- err
	}()
	if err := <-problem; err != nil {
		t.Skip(err)
	}
	testkit.Must(t, <-problem)
	s := open(t, o)
	defer s.Close()
	if !has(t, s, 1) {
		t.Error("not as it was written")
	}
}

// asNobody takes away the permission to write to a directory and its files, root's too, until
// the test ends.
func asNobody(t *testing.T, dir string) {
	t.Helper()
	for _, d := range []string{dir, filepath.Dir(dir)} {
		testkit.Must(t, os.Chmod(d, 0o755))
	}
	files, _ := filepath.Glob(filepath.Join(dir, "*"))
	for _, f := range files {
		testkit.Must(t, os.Chmod(f, 0o444))
	}
	if os.Geteuid() != 0 {
		testkit.Must(t, os.Chmod(dir, 0o555))
		t.Cleanup(func() { os.Chmod(dir, 0o755) })
		return
	}
	runtime.LockOSThread() // file permissions belong to a thread
	testkit.Must(t, unix.Setfsuid(65534))
	t.Cleanup(func() {
		testkit.Must(t, unix.Setfsuid(0))
		runtime.UnlockOSThread()
	})
}

// TestNoAllocation: reading allocates nothing.
func TestNoAllocation(t *testing.T) {
	o := optionsOf(t.TempDir(), 100)
	made(t, o, to(100)...)
	s := open(t, o)
	defer s.Close()
	var b Buffer
	f := fileOf(39)
	if n := testing.AllocsPerRun(100, func() {
		if p, known := s.Get(f, &b); !known || len(p.Bytes) != 320 {
			t.Fatal("not known")
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
