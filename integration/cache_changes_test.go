package integration

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/batchfs/batchfs/layout"
)

// A shelf is a dataset of tiles of the same size and different times, whose files change
// while they are cached. Every batch is one tile.
type shelf struct {
	dir string
	n   int
}

const (
	shelfSide = 8
	shelfFill = 99
)

func newShelf(t testing.TB, n int) shelf {
	t.Helper()
	s := shelf{tiles(t, n, shelfSide), n}
	for id := range n {
		s.put(t, id, tileFile(id, shelfSide))
	}
	return s
}

func (s shelf) file(id int) string { return filepath.Join(s.dir, tileName(id)) }

// put rewrites a sample's file and restores its time.
func (s shelf) put(t testing.TB, id int, data []byte) {
	t.Helper()
	check(t, os.RemoveAll(s.file(id)))
	writeFile(t, s.file(id), data)
	at := time.Unix(1_600_000_000+int64(id), 0)
	check(t, os.Chtimes(s.file(id), at, at))
}

func (s shelf) mount(t testing.TB, policy string, flags ...string) *mounted {
	t.Helper()
	const enough = 4 << 20
	flags = append(flags, "--batch-size", "1", "--prefetch-queue-depth", "0", "--fill", fmt.Sprint(shelfFill))
	return mountBatchfs(t, s.dir, cacheFlags(policy, enough, flags...)...)
}

// warm reads two epochs: the first fills the cache with everything, the second is served
// from it.
func (s shelf) warm(t testing.TB, m *mounted) {
	t.Helper()
	for epoch := range 2 {
		s.expect(t, m, epoch, nil)
	}
	if d := m.stats(t).epoch(1); d.Hits != int64(s.n) || d.Misses != 0 {
		t.Fatalf("%d of %d samples came from the cache", d.Hits, s.n)
	}
}

// expect reads an epoch in which some samples are replaced by others; -1: zeroed.
func (s shelf) expect(t testing.TB, m *mounted, epoch int, others map[int]int) {
	t.Helper()
	m.awaitPlans(t)
	for id := range s.n {
		want, status := tile(id, shelfSide), "ok"
		if other, is := others[id]; is && other < 0 {
			want, status = bytes.Repeat([]byte{shelfFill}, len(want)), "zeroed"
		} else if is {
			want, status = tile(other, shelfSide), "replaced"
		}
		data, err := os.ReadFile(m.path(0, epoch, id, layout.NHWCForm))
		if err != nil || !bytes.Equal(data, want) {
			t.Errorf("epoch %d, sample %d: %v % x..., want % x...", epoch, id, err, data[:min(4, len(data))], want[:4])
		}
		if got := m.batchDoc(t, 0, epoch, id).Samples[0].Status; got != status {
			t.Errorf("epoch %d, sample %d is said to be %s, not %s", epoch, id, got, status)
		}
	}
}

// wider returns a tile's file with the same picture in more bytes.
func wider(data []byte) []byte {
	return bytes.Replace(data, []byte("P6 "), []byte("P6 #the same picture\n"), 1)
}

// TestCachedFilesChange: changes to a file are noticed, whatever happened to it, and whether it was
// read and cached or not. A mount shows neither its old contents nor another file's pixels. When
// the file is restored, its batch is right, and comes from the cache again.
func TestCachedFilesChange(t *testing.T) {
	for _, how := range []string{
		"none/zero", "constant/fail", "constant/replace", "static/replace", "tinylfu/zero",
	} {
		policy, onError, _ := strings.Cut(how, "/")
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			s := newShelf(t, 17)
			m := s.mount(t, policy, "--on-error", onError)
			if policy != "none" { // without a cache, nothing was read before
				s.warm(t, m)
			}
			changed := s.change(t)
			s.expectChanged(t, m, 2, onError, changed)
			for range 2 { // reported once, however often they are read
				s.expectChanged(t, m, 3, onError, changed)
			}
			counts := map[int]int{}
			for _, l := range m.badLines(t) {
				counts[l.ID]++
			}
			for _, id := range changed {
				if counts[id] != 1 {
					t.Errorf("%d lines for sample %d", counts[id], id)
				}
			}
			if len(counts) != len(changed) {
				t.Errorf("lines by sample: %v, of %v that changed", counts, changed)
			}
			for _, id := range changed {
				s.put(t, id, tileFile(id, shelfSide))
			}
			s.expect(t, m, 4, nil)
			s.expect(t, m, 5, nil)
			if d := m.stats(t).epoch(5); policy != "none" && d.Hits != int64(s.n) {
				t.Errorf("%d of %d samples came from the cache when all was well again", d.Hits, s.n)
			}
			s.keptWhole(t, m, 3, changed)
		})
	}
}

// keptWhole reads an epoch again that was read while files were changed. Batches kept from that
// time may still be shown, but only whole, and described correctly.
func (s shelf) keptWhole(t testing.TB, m *mounted, epoch int, changed []int) {
	t.Helper()
	for _, id := range changed {
		data, err := os.ReadFile(m.path(0, epoch, id, layout.NHWCForm))
		if status := m.batchDoc(t, 0, epoch, id).Samples[0].Status; err != nil || (status == "ok") != bytes.Equal(data, tile(id, shelfSide)) {
			t.Errorf("sample %d, restored: %v, it is said to be %s: % x...", id, err, status, data[:min(4, len(data))])
		}
	}
}

// change changes files in many ways, leaves the last ones alone, and returns the changed
// ones.
func (s shelf) change(t testing.TB) (changed []int) {
	t.Helper()
	rewrite(t, s.file(0), tileFile(50, shelfSide))       // same size, another picture
	rewrite(t, s.file(1), tileFile(1, shelfSide))        // same size, same picture, a new time
	rewrite(t, s.file(2), wider(tileFile(2, shelfSide))) // larger, same picture
	s.put(t, 3, wider(tileFile(53, shelfSide)))          // larger, another picture, the old time
	s.put(t, 4, tileFile(4, shelfSide)[:100])            // truncated, the old time
	exchange(t, s.file(7), s.file(8))                    // each gets the other's picture and time
	rewrite(t, s.file(9), tileFile(9, 2*shelfSide))      // another shape
	rewrite(t, s.file(10), nil)
	for _, id := range []int{5, 6, 11, 12, 13, 14} {
		remove(t, s.file(id))
	}
	if err := errors.Join(
		os.Symlink(s.file(s.n-1), s.file(6)), // a valid picture, but another sample's
		os.Symlink(s.file(11), s.file(11)),
		os.Mkdir(s.file(12), 0o755),
		unix.Mkfifo(s.file(13), 0o644),
		unix.Mknod(s.file(14), unix.S_IFSOCK|0o644, 0),
	); err != nil {
		t.Fatal(err)
	}
	return []int{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14}
}

// exchange swaps two files atomically.
func exchange(t testing.TB, a, b string) {
	t.Helper()
	check(t, unix.Renameat2(unix.AT_FDCWD, a, unix.AT_FDCWD, b, unix.RENAME_EXCHANGE))
}

// expectChanged reads an epoch in which some files have changed.
func (s shelf) expectChanged(t testing.TB, m *mounted, epoch int, onError string, changed []int) {
	t.Helper()
	if onError == "fail" {
		for id := range s.n {
			path := m.path(0, epoch, id, layout.NHWCForm)
			if slices.Contains(changed, id) {
				expectOpen(t, path, unix.EIO)
			} else if data, err := os.ReadFile(path); err != nil || !bytes.Equal(data, tile(id, shelfSide)) {
				t.Errorf("epoch %d, sample %d, which did not change: %v", epoch, id, err)
			}
		}
		return
	}
	others := map[int]int{}
	for _, id := range changed {
		others[id] = -1
		for next := id; onError == "replace" && others[id] < 0; {
			if next = (next + 1) % s.n; !slices.Contains(changed, next) {
				others[id] = next
			}
		}
	}
	s.expect(t, m, epoch, others)
}
