package entries

import (
	"bytes"
	"context"
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

// TestDamage: whatever byte of the file changes, and wherever it ends, nothing that is found is
// wrong, and what is stored afterwards is found.
func TestDamage(t *testing.T) {
	const n = 6
	o := optionsOf(t.TempDir(), n)
	made(t, o, 0, 1, 2, 3, 5)
	good, err := os.ReadFile(o.Path)
	if err != nil {
		t.Fatal(err)
	}
	lost := 0
	try := func(bad []byte) {
		t.Helper()
		if err := os.WriteFile(o.Path, bad, 0o600); err != nil {
			t.Fatal(err)
		}
		s := open(t, o)
		known := 0
		for i := range n {
			if has(t, s, i, i) {
				known++
			}
		}
		if known > 5 {
			t.Fatal("a row is known that never was")
		}
		lost += 5 - known
		s.Put(4, fileOf(4), pointsOf(4))
		shut(t, s)
		s = open(t, o)
		if !has(t, s, 4, 4) {
			t.Fatal("a row is lost that was put after the damage")
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
		if err := os.WriteFile(o.Path, good, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := change(); err != nil {
			t.Fatal(err)
		}
		s, err := Open(o)
		if err == nil && has(t, s, 1, 1) {
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
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatal(err)
	}
	none := limit
	none.Cur = 0
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &none); err != nil {
		t.Fatal(err)
	}
	s, err := Open(o)
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatal(err)
	}
	if err == nil {
		s.Close()
		t.Fatal("opened without a descriptor")
	}
	s = open(t, o)
	defer s.Close()
	if !has(t, s, 0, 0) || !has(t, s, 2, 2) {
		t.Error("they are gone")
	}
}

// TestForged: a file that is intact but was made to do harm.
func TestForged(t *testing.T) {
	o := optionsOf(t.TempDir(), 2)
	for _, rule := range []int32{0, -2, -1 << 31} {
		if err := owned.Replace(o.Path, (&header{rule, o.Index}).write); err != nil {
			t.Fatal(err)
		}
		s := open(t, o)
		if s.Rule() != o.Rule {
			t.Errorf("rule %d", s.Rule())
		}
		shut(t, s)
	}
	text := make([]byte, factsSize+(MaxPoints+1)*pointSize)
	r := row{offset: rowAt(2), count: MaxPoints + 1}
	_, r.check = seal(text, o.Rule, 0, fileOf(0))
	if err := owned.Replace(o.Path, func(f *os.File) error {
		if err := (&header{o.Rule, o.Index}).write(f); err != nil {
			return err
		}
		_, err := f.WriteAt(r.append(nil), rowAt(0))
		_, more := f.WriteAt(text[factsSize:], r.offset)
		return errors.Join(err, more)
	}); err != nil {
		t.Fatal(err)
	}
	s := open(t, o)
	defer s.Close()
	var b Buffer
	if _, known := s.Get(0, fileOf(0), &b); known || cap(b.b) > 1000 {
		t.Errorf("more entry points than a file can have: known %t, %d bytes", known, cap(b.b))
	}
}

// TestMadeTwice: of two that find no file, the one that makes it later does not replace it.
func TestMadeTwice(t *testing.T) {
	o := optionsOf(t.TempDir(), 2)
	late := &Store{options: o}
	missing := late.open()
	made(t, o, 0)
	if err := late.make(missing); err != nil {
		t.Fatal(err)
	}
	s := open(t, o)
	defer s.Close()
	if !has(t, s, 0, 0) {
		t.Error("it was replaced")
	}
}

// FuzzOpen: no content of the file may cause a crash or be found where nothing was put.
func FuzzOpen(f *testing.F) {
	o := optionsOf(f.TempDir(), 3)
	made(f, o, 0, 2)
	good, err := os.ReadFile(o.Path)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(good[headerSize:])
	f.Add(bytes.Repeat([]byte{0xff}, 200))
	f.Fuzz(func(t *testing.T, rest []byte) {
		o := optionsOf(t.TempDir(), 3)
		if err := os.WriteFile(o.Path, append(bytes.Clone(good[:headerSize]), rest...), 0o600); err != nil {
			t.Fatal(err)
		}
		s := open(t, o)
		defer s.Close()
		for i := range 3 {
			has(t, s, i, i)
		}
		if err := Carry(t.Context(), o.Path, o.Index, Index{Rows: 3}, func(i int) int { return 2 - i }); err != nil && len(rest) >= 3*rowSize {
			t.Error(err)
		}
	})
}

// TestCarry: a new index finds the entry points at its own rows.
func TestCarry(t *testing.T) {
	const n = 50
	o := optionsOf(t.TempDir(), n)
	if err := Carry(t.Context(), o.Path, o.Index, Index{}, nil); err != nil {
		t.Errorf("without a file: %v", err)
	}
	o.Rule = 12
	made(t, o, to(n-1)...)
	ended, end := context.WithCancel(t.Context())
	end()
	if err := Carry(ended, o.Path, o.Index, Index{n, [32]byte{9}}, func(row int) int { return row }); !errors.Is(err, context.Canceled) {
		t.Errorf("interrupted: %v", err)
	}
	before := func(row int) int { return n + 4 - row } // rows 0 to 4 are new, and file 0 is gone
	after := o
	after.Rule, after.Index = -1, Index{n + 4, [32]byte{9}}
	if err := Carry(t.Context(), o.Path, o.Index, after.Index, func(row int) int {
		if k := before(row); k < n {
			return k
		}
		return -1
	}); err != nil {
		t.Fatal(err)
	}
	s := open(t, after)
	defer s.Close()
	for row := range n + 4 {
		if has(t, s, row, before(row)) != (before(row) < n-1) {
			t.Errorf("row %d of file %d", row, before(row))
		}
	}
	if s.Rule() != 12 {
		t.Errorf("rule %d", s.Rule())
	}
	if err := Carry(t.Context(), o.Path, o.Index, after.Index, before); err == nil {
		t.Error("the file of another index was carried over")
	}
	names, _ := filepath.Glob(filepath.Join(filepath.Dir(o.Path), "*"))
	if len(names) != 1 {
		t.Errorf("%q", names)
	}
}

// TestCarryDamage: what is carried takes no more room than before, even if all rows claim the same entry points.
func TestCarryDamage(t *testing.T) {
	const n = 50
	o := optionsOf(t.TempDir(), n)
	old := header{o.Rule, o.Index}
	if err := owned.Replace(o.Path, func(f *os.File) error {
		text := append(old.append(nil), bytes.Repeat(row{offset: old.pointsAt(), count: MaxPoints}.append(nil), n)...)
		_, err := f.Write(append(text, make([]byte, MaxPoints*pointSize)...))
		return err
	}); err != nil {
		t.Fatal(err)
	}
	before, err := os.Stat(o.Path)
	if err != nil {
		t.Fatal(err)
	}
	if err := Carry(t.Context(), o.Path, o.Index, Index{n, [32]byte{9}}, func(row int) int { return row }); err != nil {
		t.Fatal(err)
	}
	if after, err := os.Stat(o.Path); err != nil || after.Size() > before.Size() {
		t.Errorf("%d bytes became %d, %v", before.Size(), after.Size(), err)
	}
}

// TestWriters: processes and Stores that add to one file at once do not disturb one another.
func TestWriters(t *testing.T) {
	const n, writers = 6000, 3
	path, part := os.Getenv("ENTRIES_PATH"), os.Getenv("ENTRIES_PART")
	o := optionsOf(filepath.Dir(path), n)
	if path == "" {
		o = optionsOf(t.TempDir(), n)
	}
	put := func(part int) {
		s := open(t, o)
		for i := part; i < n; i += writers {
			s.Put(i, fileOf(i), pointsOf(i))
			s.Put(7, fileOf(7), pointsOf(7)) // is put by all
		}
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
	defer s.Close()
	for i := range n {
		if !has(t, s, i, i) {
			t.Fatalf("row %d is lost", i)
		}
	}
}
