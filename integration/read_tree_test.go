package integration

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unsafe"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/batchfs/batchfs/internal/testkit"
	"github.com/batchfs/batchfs/layout"
)

// TestReadSameTree mounts twice, and once more with other settings that do not affect the
// tree: inode numbers, times, sizes, modes and documents stay the same.
func TestReadSameTree(t *testing.T) {
	images := mixedImages(t)
	s := settings{batch: 8, shards: 3, shuffle: true, seed: 2}
	snapshot := func(flags ...string) string {
		m := mountBatchfs(t, images, s.flags(append(flags, "--epochs", "4", "--list", strings.Join(formNames(), ","))...)...)
		defer m.finish(t)
		tree := m.run(t, "find", m.dir, "-name", ".batchfs", "-prune", "-o", "-printf", "%P %i %y %m %n %U %G %s %b %T@ %C@\n")
		documents := m.run(t, "sh", "-c", `cd "$1" && cat dataset.json classes.txt shard-*/epoch-*/epoch.json && sha256sum shard-1/epoch-2/*`, "sh", m.dir)
		return tree + documents
	}
	first := snapshot()
	lines := strings.Split(first, "\n")
	seen := map[string]string{}
	for _, line := range lines {
		fields := strings.Split(line, " ")
		if len(fields) != 11 {
			continue
		}
		if name, other := fields[0], seen[fields[1]]; other != "" {
			t.Errorf("%s and %s have the same inode number", name, other)
		}
		seen[fields[1]] = fields[0]
	}
	if len(seen) < 3*4*5*9 {
		t.Fatalf("only %d files were found", len(seen))
	}
	if diff := cmp.Diff(lines, strings.Split(snapshot(), "\n")); diff != "" {
		t.Errorf("after mounting again: %s", diff)
	}
	if diff := cmp.Diff(lines, strings.Split(snapshot("--read-path", "direct", "--workers", "7", "--prefetch-queue-depth", "0", "--memory-limit", "1GiB"), "\n")); diff != "" {
		t.Errorf("with settings that do not matter: %s", diff)
	}
}

// scan reads words into values.
func scan(t testing.TB, text string, into ...any) {
	t.Helper()
	if _, err := fmt.Sscan(text, into...); err != nil {
		t.Fatalf("%q: %v", text, err)
	}
}

// manifestRows is the number of samples in the large dataset. None of their files exist:
// listing and stat do not need them.
const manifestRows = 200_000

func largeManifest(t *testing.T) string {
	t.Helper()
	var csv bytes.Buffer
	csv.WriteString("path,label,height,width,format\n")
	for i := range manifestRows {
		fmt.Fprintf(&csv, "class-%03d/image-%06d.jpg,%d,%d,%d,jpeg\n", i%1000, i, i%1000, 100+i%400, 100+i%300)
	}
	path := filepath.Join(scratch(t), "manifest.csv")
	writeFile(t, path, csv.Bytes())
	return path
}

// TestReadLargeDirectory lists tens of thousands of batches, from every position, and stats
// a whole epoch: sizes are right, no file is read, and the daemon keeps no memory for it.
func TestReadLargeDirectory(t *testing.T) {
	manifest := largeManifest(t)
	const batchSize, forms = 10, 3
	t.Setenv("GOGC", "10") // so that the daemon's memory is mostly live data
	s := settings{batch: batchSize, shuffle: true, seed: 1}
	m := mountBatchfs(t, manifest, s.flags("--epochs", "3")...)
	const entries = manifestRows/batchSize*forms + 3 // epoch.json, and the directory itself and its parent
	epoch := m.epochDir(0, 1)
	if got := len(listDirectory(t, epoch)); got != entries {
		t.Errorf("%d entries are listed, not %d", got, entries)
	}
	for e := range 3 {
		if got := strings.Count(m.run(t, "ls", "-U", m.epochDir(0, e)), "\n"); got != entries-2 {
			t.Errorf("ls shows %d entries, not %d", got, entries-2)
		}
	}
	before := m.rss(t)
	o := newOracle(t, manifest, s)
	tensors := 0
	for line := range strings.SplitSeq(strings.TrimSpace(m.run(t, "find", epoch, "-name", "*.n*", "-printf", "%s %f\n")), "\n") {
		size, name, _ := strings.Cut(line, " ")
		b, form, ok := layout.Names(nil).ParseBatchName(name)
		if !ok {
			t.Fatalf("the name %q", name)
		}
		if form == layout.Labels {
			continue
		}
		tensors++
		if want := strconv.FormatInt(o.tensorSize(1, b), 10); size != want {
			t.Errorf("%s has %s bytes, not %s", name, size, want)
		}
	}
	if tensors != manifestRows/batchSize {
		t.Errorf("%d tensors were found", tensors)
	}
	const slack = 16 << 20 // 40,000 inodes of the FUSE library would take 30 MB
	// The race detector drops pooled buffers and keeps shadow memory for them.
	if after := m.rss(t); after > before+slack && !testkit.RaceDetector() {
		t.Errorf("the daemon grew from %d to %d bytes", before, after)
	}
	if s := m.stats(t); s.Storage.Reads != 0 || s.Batches.Decoded != 0 {
		t.Errorf("listing read %d files and decoded %d batches", s.Storage.Reads, s.Batches.Decoded)
	}
}

// tensorSize is the size of a batch of shard 0, computed from the index alone.
func (o *oracle) tensorSize(epoch, batch int) int64 {
	slots, _ := o.plan.Batch(0, epoch, batch, nil)
	h, w := o.o.height, o.o.width
	for _, slot := range slots {
		if o.o.height == 0 {
			sh, sw := o.ds.Size(int(slot.ID), o.o.ignore)
			h, w = max(h, sh), max(w, sw)
		}
	}
	return int64(len(slots)) * int64(h) * int64(w) * int64(o.channels())
}

// A listed entry, and the position after it.
type listed struct {
	name string
	ino  uint64
	kind byte
	next int64
}

// listDirectory lists a directory with small and large buffers, then continues from many of the
// positions at which a listing can stop: it is always the same. No name is there twice.
func listDirectory(t testing.TB, path string) []listed {
	t.Helper()
	dir, err := os.Open(path)
	check(t, err)
	defer dir.Close()
	all := entriesFrom(t, dir, 0, 1<<20, -1)
	if few := entriesFrom(t, dir, 0, 512, -1); !slices.Equal(all, few) {
		t.Errorf("with a small buffer, %d entries are listed, or others than the %d", len(few), len(all))
	}
	random := rand.New(rand.NewPCG(1, 1))
	for range 300 {
		i := random.IntN(len(all))
		if rest := entriesFrom(t, dir, all[i].next, 4096, 50); !slices.Equal(rest, all[i+1:min(i+51, len(all))]) {
			t.Errorf("behind entry %d of %d, %d others are listed", i, len(all), len(rest))
		}
	}
	names := map[string]bool{}
	for _, e := range all {
		if names[e.name] {
			t.Errorf("%s is listed twice", e.name)
		}
		names[e.name] = true
	}
	return all
}

// entriesFrom lists a directory from a position: up to most entries, or all.
func entriesFrom(t testing.TB, dir *os.File, from int64, buffer, most int) (all []listed) {
	t.Helper()
	if _, err := unix.Seek(int(dir.Fd()), from, io.SeekStart); err != nil {
		t.Fatal(err)
	}
	for buf := make([]byte, buffer); most < 0 || len(all) < most; {
		n, err := unix.Getdents(int(dir.Fd()), buf)
		check(t, err)
		if n == 0 {
			return all
		}
		for b := buf[:n]; len(b) > 0; {
			// struct linux_dirent64: ino, off, length, type, name
			length := binary.NativeEndian.Uint16(b[16:])
			name, _, _ := bytes.Cut(b[unsafe.Offsetof(unix.Dirent{}.Name):length], []byte{0})
			all = append(all, listed{string(name), binary.NativeEndian.Uint64(b), b[18], int64(binary.NativeEndian.Uint64(b[8:]))})
			b = b[length:]
		}
	}
	return all[:most]
}
