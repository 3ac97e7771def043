package entries

import (
	"bytes"
	"errors"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/batchfs/batchfs/internal/owned"
	"github.com/batchfs/batchfs/internal/testkit"
)

// logged lets options log, and returns a function that returns all lines.
func logged(o *Options) func() string {
	var mu sync.Mutex
	var text bytes.Buffer
	o.Logger = slog.New(slog.NewTextHandler(locked{&mu, &text}, &slog.HandlerOptions{Level: slog.LevelDebug}))
	return func() string {
		mu.Lock()
		defer mu.Unlock()
		return text.String()
	}
}

type locked struct {
	mu *sync.Mutex
	b  *bytes.Buffer
}

func (l locked) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

// TestDamage: whatever byte of the file changes, and wherever it ends, nothing wrong is found, and
// what is stored afterwards is found.
func TestDamage(t *testing.T) {
	const n = 6
	o := optionsOf(t.TempDir(), n)
	made(t, o, 0, 1, 2, 3, 5)
	good, err := os.ReadFile(o.Path)
	testkit.Must(t, err)
	lost := 0
	try := func(bad []byte) {
		t.Helper()
		testkit.Must(t, os.WriteFile(o.Path, bad, 0o600))
		s := open(t, o)
		known := 0
		for i := range n {
			if has(t, s, i) {
				known++
			}
		}
		if known > 5 {
			t.Fatal("a file is known that never was")
		}
		lost += 5 - known
		s.Put(fileOf(4), pointsOf(4))
		shut(t, s)
		s = open(t, o)
		if !has(t, s, 4) {
			t.Fatal("a file is lost that was put after the damage")
		}
		shut(t, s)
	}
	for size := range good {
		try(good[:size])
	}
	for at := range good {
		for _, flip := range []byte{1, 0x80, 0xff} {
			bad := bytes.Clone(good)
			bad[at] ^= flip
			try(bad)
		}
	}
	if lost == 0 {
		t.Error("no damage was noticed")
	}
	try(good)
	for name, change := range map[string]func() error{
		"a link":      func() error { os.Rename(o.Path, o.Path+"2"); return os.Symlink(o.Path+"2", o.Path) },
		"of others":   func() error { return os.Chmod(o.Path, 0o666) },
		"a directory": func() error { os.Remove(o.Path); return os.Mkdir(o.Path, 0o700) },
	} {
		testkit.Must(t, os.WriteFile(o.Path, good, 0o600))
		testkit.Must(t, change())
		s, err := Open(o)
		if err == nil && has(t, s, 1) {
			t.Errorf("%s is believed", name)
		}
		if err == nil {
			s.Close()
		}
		os.RemoveAll(o.Path)
	}
}

// TestMachineFailureDestroysNothing: entry points that cannot be read for lack of descriptors
// are still there afterwards.
func TestMachineFailureDestroysNothing(t *testing.T) {
	o := optionsOf(t.TempDir(), 3)
	made(t, o, 0, 2)
	var limit unix.Rlimit
	testkit.Must(t, unix.Getrlimit(unix.RLIMIT_NOFILE, &limit))
	none := limit
	none.Cur = 0
	testkit.Must(t, unix.Setrlimit(unix.RLIMIT_NOFILE, &none))
	s, err := Open(o)
	testkit.Must(t, unix.Setrlimit(unix.RLIMIT_NOFILE, &limit))
	if err == nil {
		s.Close()
		t.Fatal("opened without a descriptor")
	}
	s = open(t, o)
	defer s.Close()
	if !has(t, s, 0) || !has(t, s, 2) {
		t.Error("they are gone")
	}
}

// TestForged: an intact file that was made to do harm.
func TestForged(t *testing.T) {
	o := optionsOf(t.TempDir(), 2)
	for _, h := range []header{{0, 2, 0}, {-2, 2, 0}, {-1 << 31, 2, 0}, {20, -1, 0}, {20, 1 << 62, 0}, {20, 100, 0}} {
		if err := owned.Replace(o.Path, func(f *os.File) error {
			_, err := f.Write(append(h.bytes(), make([]byte, 2*bucketSize)...))
			return err
		}); err != nil {
			t.Fatal(err)
		}
		s := open(t, o)
		if s.Rule() != o.Rule {
			t.Errorf("%+v is believed", s.header)
		}
		shut(t, s)
	}
	for name, forge := range map[string]func(at *slot, text []byte){
		"more entry points than a file can have": func(at *slot, text []byte) {
			at.count = maxPoints + 1
			_, at.check = seal(text, o.Rule, fileOf(0))
		},
		"the tag of another file": func(at *slot, _ []byte) { at.tag = hashOf(fileOf(1).Path) & tagMask },
	} {
		made(t, o, 0)
		s := open(t, o)
		var b Buffer
		at, where, err := s.look(hashOf(fileOf(0).Path), &b)
		if err != nil || !at.known() {
			t.Fatalf("%+v, %v", at, err)
		}
		text := make([]byte, factsSize+maxRecord+pointSize)
		forge(&at, text)
		_, err = s.file.WriteAt(at.append(nil), where)
		_, more := s.file.WriteAt(text[factsSize:], at.offset)
		testkit.Must(t, errors.Join(err, more))
		if has(t, s, 0) || has(t, s, 1) {
			t.Errorf("%s: believed", name)
		}
		if _, known := s.Get(fileOf(0), &b); known || cap(b.b) > 1000 {
			t.Errorf("%s: known %t, %d bytes", name, known, cap(b.b))
		}
		shut(t, s)
	}
}

// TestMadeTwice: if two Stores find no file, the one that makes it later does not replace it.
func TestMadeTwice(t *testing.T) {
	o := optionsOf(t.TempDir(), 2)
	late := &Store{options: o}
	missing := late.open()
	made(t, o, 0)
	testkit.Must(t, late.make(missing))
	s := open(t, o)
	defer s.Close()
	if !has(t, s, 0) {
		t.Error("it was replaced")
	}
}

// FuzzOpen: no content of the file may cause a crash or be found where nothing was put.
func FuzzOpen(f *testing.F) {
	o := optionsOf(f.TempDir(), 3)
	made(f, o, 0, 2)
	good, err := os.ReadFile(o.Path)
	testkit.Must(f, err)
	f.Add(good[headerSize:])
	f.Add(bytes.Repeat([]byte{0xff}, 600))
	f.Fuzz(func(t *testing.T, rest []byte) {
		o := optionsOf(t.TempDir(), 3)
		testkit.Must(t, os.WriteFile(o.Path, append(bytes.Clone(good[:headerSize]), rest...), 0o600))
		for _, samples := range []int{3, 100} {
			if err := Renew(t.Context(), o.Path, samples, paths(to(3)...)); err != nil && len(rest) >= 2*bucketSize-headerSize {
				t.Error(err)
			}
			s := open(t, o)
			for i := range 3 {
				has(t, s, i)
			}
			shut(t, s)
		}
	})
}

// TestWriters: processes, Stores and goroutines may add to one file at once. If they choose the
// same slot, one of two is lost, and can be put again.
func TestWriters(t *testing.T) {
	const n, writers = 6000, 3
	path, part := os.Getenv("ENTRIES_PATH"), os.Getenv("ENTRIES_PART")
	o := optionsOf(filepath.Dir(path), n)
	if path == "" {
		o = optionsOf(t.TempDir(), n)
	}
	put := func(part int) {
		s := open(t, o)
		var goroutines sync.WaitGroup
		for k := range 3 {
			goroutines.Go(func() {
				for i := part + k*writers; i < n; i += 3 * writers {
					s.Put(fileOf(i), pointsOf(i))
					s.Put(fileOf(7), pointsOf(7)) // is put by all
					s.Put(fileOf(n), pointsOf(n))
					s.Forget(fileOf(n))
					has(t, s, i*7%n)
				}
			})
		}
		goroutines.Wait()
		shut(t, s)
	}
	if path != "" {
		k, _ := strconv.Atoi(part)
		put(k)
		return
	}
	var all sync.WaitGroup
	for k := range writers {
		if k == 0 {
			all.Go(func() { put(k) })
			continue
		}
		all.Go(func() {
			cmd := exec.Command(os.Args[0], "-test.run=^TestWriters$")
			cmd.Env = append(os.Environ(), "ENTRIES_PATH="+o.Path, "ENTRIES_PART="+strconv.Itoa(k))
			if out, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(out), "PASS") {
				t.Errorf("%v\n%s", err, out)
			}
		})
	}
	all.Wait()
	s := open(t, o)
	var lost []int
	for i := range n {
		if !has(t, s, i) {
			lost = append(lost, i)
		}
	}
	if has(t, s, n) {
		t.Error("what all have forgotten is known")
	}
	shut(t, s)
	if len(lost) > n/20 {
		t.Errorf("%d of %d are lost", len(lost), n)
	}
	made(t, o, lost...)
	s = open(t, o)
	defer s.Close()
	for _, i := range lost {
		if !has(t, s, i) {
			t.Errorf("file %d is lost again", i)
		}
	}
}
