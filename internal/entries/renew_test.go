package entries

import (
	"bytes"
	"context"
	"errors"
	"iter"
	"os"
	"path/filepath"
	"testing"

	"github.com/batchfs/batchfs/internal/testkit"
)

// paths are those of files.
func paths(files ...int) iter.Seq[string] {
	return func(yield func(string) bool) {
		for _, i := range files {
			if !yield(fileOf(i).Path) {
				return
			}
		}
	}
}

func sizeOf(t *testing.T, path string) int64 {
	t.Helper()
	info, err := os.Stat(path)
	testkit.Must(t, err)
	return info.Size()
}

// TestRenew: a file is made anew, with what is known about the samples, if their number has changed
// much, or much of it is useless.
func TestRenew(t *testing.T) {
	const n = 200
	dir := t.TempDir()
	o := optionsOf(dir, n)
	o.Rule = 12
	if err := Renew(t.Context(), o.Path, n, nil); err != nil {
		t.Errorf("without a file: %v", err)
	}
	for name, c := range map[string]struct {
		samples int
		useless int // bytes
		anew    bool
	}{
		"as before":      {n, 0, false},
		"a few more":     {n + n/2, 0, false},
		"a few less":     {n / 2, 0, false},
		"many more":      {2 * n, 0, true},
		"many less":      {n / 5, 0, true},
		"some of no use": {n, n << 10, false},
		"much of no use": {n, 2 * n << 10, true},
	} {
		t.Run(name, func(t *testing.T) {
			os.Remove(o.Path)
			s := open(t, o)
			for k := range c.useless / (maxPoints * pointSize) {
				s.Put(fileOf(3), Points{bytes.Repeat([]byte{byte(k)}, maxPoints*pointSize), 1})
				s.flush()
			}
			for i := range n {
				s.Put(fileOf(i), pointsOf(i))
			}
			shut(t, s)
			before, err := os.ReadFile(o.Path)
			testkit.Must(t, err)
			samples := append(to(c.samples), 7, 7) // of the samples, some are one file
			samples[5] = n + 5                     // and 5 is none any more
			ended, end := context.WithCancel(t.Context())
			end()
			if err := Renew(ended, o.Path, c.samples, paths(samples...)); c.anew != errors.Is(err, context.Canceled) {
				t.Errorf("interrupted: %v", err)
			}
			if after, err := os.ReadFile(o.Path); err != nil || !bytes.Equal(after, before) {
				t.Errorf("changed, %v", err)
			}
			testkit.Must(t, Renew(t.Context(), o.Path, c.samples, paths(samples...)))
			s = open(t, o)
			defer s.Close()
			for i := range max(n, c.samples) {
				if want := i < n && !(c.anew && (i == 5 || i >= c.samples)); has(t, s, i) != want {
					t.Errorf("file %d: known, or not", i)
				}
			}
			if s.Rule() != 12 || (s.Bytes() != int64(len(before))) != c.anew {
				t.Errorf("rule %d, %d bytes became %d", s.Rule(), len(before), s.Bytes())
			}
			if c.anew && s.Bytes()-s.recordsAt() > int64(n*(4+8*40)) {
				t.Errorf("%d bytes", s.Bytes())
			}
			if size := s.Bytes(); c.anew {
				if err := Renew(t.Context(), o.Path, c.samples, paths()); err != nil || sizeOf(t, o.Path) != size {
					t.Errorf("made anew again, %v", err)
				}
			}
		})
	}
	if names, _ := filepath.Glob(filepath.Join(dir, "*")); len(names) != 1 {
		t.Errorf("%q", names)
	}
}

// TestRenewDamage: a file takes no more room than before, even if all slots claim the same record.
func TestRenewDamage(t *testing.T) {
	const n = 50
	o := optionsOf(t.TempDir(), n)
	made(t, o, to(n)...)
	s := open(t, o)
	if _, err := s.appender.Write(make([]byte, maxRecord)); err != nil {
		t.Fatal(err)
	}
	var b Buffer
	for path := range paths(to(n)...) {
		at, where, err := s.look(hashOf(path), &b)
		testkit.Must(t, err)
		at.offset, at.count = s.recordsAt(), maxPoints
		if _, err := s.file.WriteAt(at.append(nil), where); err != nil {
			t.Fatal(err)
		}
	}
	shut(t, s)
	before := sizeOf(t, o.Path)
	testkit.Must(t, Renew(t.Context(), o.Path, 2*n, paths(to(n)...)))
	if after := sizeOf(t, o.Path) - bucketSize*int64(2*n/perBucket-n/perBucket); after > before {
		t.Errorf("%d bytes became %d", before, after)
	}
}
