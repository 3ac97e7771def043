package integration

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/batchfs/batchfs/internal/testkit"
	"github.com/batchfs/batchfs/layout"
)

// A bufferDoc is an entry of memory.json.
type bufferDoc struct {
	Name        string `json:"name"`
	Kind        string `json:"kind"`
	Real        int64  `json:"real_memory_size"`
	MaxReal     int64  `json:"max_real_memory_size"`
	Reserved    int64  `json:"reserved_memory_size"`
	MaxReserved int64  `json:"max_reserved_memory_size"`
	Locked      bool   `json:"locked"`
}

// buffers returns the entries of memory.json by name.
func (m *mounted) buffers(t testing.TB) map[string]bufferDoc {
	t.Helper()
	var doc struct{ Buffers []bufferDoc }
	m.document(t, ".batchfs/memory.json", &doc)
	all := map[string]bufferDoc{}
	for _, b := range doc.Buffers {
		if _, twice := all[b.Name]; twice {
			t.Errorf("memory.json has %s twice", b.Name)
		}
		all[b.Name] = b
	}
	return all
}

// statusField returns a line of /proc/PID/status; "" if the process is gone.
func statusField(t testing.TB, path, name string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		return ""
	}
	for line := range strings.Lines(string(text)) {
		if rest, ok := strings.CutPrefix(line, name+":"); ok {
			return strings.TrimSpace(rest)
		}
	}
	return ""
}

// readAll reads a form of all batches of an epoch of shard 0, and returns the largest size.
func (m *mounted) readAll(t testing.TB, epoch int, f layout.Form) (largest int64) {
	t.Helper()
	for batch := range m.batches(t, 0, epoch) {
		largest = max(largest, int64(len(m.form(t, 0, epoch, batch, f))))
	}
	return largest
}

// TestMemoryDocument: memory.json has an entry for each buffer. The figures are plausible,
// add up to those of stats.json, and match the settings.
func TestMemoryDocument(t *testing.T) {
	m := mountBatchfs(t, smallAlbum(t), "--batch-size", "4", "--dtype", "float32", "--flip", "0.5", "--prefetch-queue-depth", "0", "--workers", "3")
	largest := m.readAll(t, 0, layout.NPY)
	all := m.buffers(t)
	for name, kind := range map[string]string{"batch": "pinned", "input": "host", "scratch": "host"} {
		if b := all[name]; b.Kind != kind || b.MaxReal <= 0 {
			t.Errorf("%s: %+v is no buffer of kind %s that was used", name, b, kind)
		}
	}
	for name, b := range all {
		if !strings.Contains("batch input scratch cache", name) || b.Real < 0 || b.Real > b.Reserved || b.MaxReal > b.MaxReserved || b.Reserved > b.MaxReserved {
			t.Errorf("%s: %+v", name, b)
		}
	}
	if b := all["batch"]; b.MaxReal != largest {
		t.Errorf("the largest batch has %d bytes, %+v", largest, b)
	}
	var largestFile int64
	for _, file := range testkit.Files(t, smallAlbum(t)) {
		largestFile = max(largestFile, int64(len(file)))
	}
	if b := all["input"]; b.MaxReal < largestFile || b.MaxReal > largestFile+64<<10 {
		t.Errorf("the largest file has %d bytes, %+v", largestFile, b)
	}
	eventually(t, "memory.json and stats.json agree", func() bool {
		all, s := m.buffers(t), m.stats(t).Memory
		return all["batch"].Reserved == s.Batches && all["input"].Reserved+all["scratch"].Reserved == s.Scratch && all["cache"].Reserved == s.Cache
	})
	m.expectLocked(t)
}

// expectLocked checks that memory.json, stats.json and the kernel agree on the page-locked
// memory.
func (m *mounted) expectLocked(t testing.TB) {
	t.Helper()
	batch, s, kernel := m.buffers(t)["batch"], m.stats(t).Memory, testkit.Status(m.pid(), "VmLck")
	if batch.Locked != (s.LockError == "") || kernel < s.Locked || batch.Locked && s.Locked != batch.Reserved {
		t.Errorf("%+v, in stats.json %+v, the kernel has locked %d", batch, s, kernel)
	}
}

// sized makes a dataset with one file per size in bytes, or slightly larger.
func sized(t testing.TB, sizes ...int) string {
	t.Helper()
	dir := filepath.Join(scratch(t), "sized")
	for i, n := range sizes {
		writeFile(t, filepath.Join(dir, fmt.Sprintf("%03d.ppm", i)), plainImage(max(n/300, 1), 100, byte(i)))
	}
	return dir
}

const kib = 1 << 10

// TestBufferVariables: environment variables determine how buffers grow. Package pinned tests the
// rules.
func TestBufferVariables(t *testing.T) {
	dir := sized(t, 70*kib, 140*kib)
	const variable = "BATCHFS_BUFFER_GROWTH_FACTOR"
	for factor, want := range map[string]int64{"": 192 * kib, "4": 512 * kib} {
		t.Setenv(variable, factor)
		m := mountBatchfs(t, dir, "--batch-size", "1", "--prefetch-queue-depth", "0", "--workers", "1", "--cache-size", "0")
		m.readAll(t, 0, layout.NHWCForm)
		if b := m.buffers(t)["input"]; b.Reserved != want {
			t.Errorf("with a factor of %q: %+v, not %d", factor, b, want)
		}
	}
	t.Setenv(variable, "0.5")
	execute(t, "mount", dir, mountpoint(t)).wrong(t, variable, "from 1 to 4", `"0.5"`)
}

var hintInLog = regexp.MustCompile(`bytes-per-sample="?([^"\n]+)"?`)

// TestHintForNextTime: the hint a mount prints at its end can be given to the next mount.
// Its file buffers then never grow; its batch buffers do only if the kernel reports a close
// late.
func TestHintForNextTime(t *testing.T) {
	flags := []string{"--batch-size", "4", "--resize", "stretch", "--size", "40x50", "--dtype", "float16", "--workers", "2", "--loads", "4"}
	m := mountBatchfs(t, smallAlbum(t), flags...)
	m.readAll(t, 0, layout.SafeTensors)
	before := m.buffers(t)
	m.finish(t)
	hint := hintInLog.FindStringSubmatch(m.logged())
	if hint == nil {
		t.Fatalf("no hint in the log:\n%s", m.logged())
	}
	for _, part := range []string{fmt.Sprintf("batch=%d", (before["batch"].MaxReal+3)/4), fmt.Sprintf("input=%d", before["input"].MaxReal), fmt.Sprintf("scratch=%d", before["scratch"].MaxReal)} {
		if !strings.Contains(hint[1], part) {
			t.Errorf("the hint %s is not %s", hint[1], part)
		}
	}
	again := mountBatchfs(t, smallAlbum(t), append(flags, "--bytes-per-sample", hint[1])...)
	var start map[string]bufferDoc
	eventually(t, "buffers have their sizes", func() bool {
		start = again.buffers(t)
		return start["input"].Reserved >= 2*before["input"].MaxReal && start["scratch"].Reserved >= 2*before["scratch"].MaxReal
	})
	again.readAll(t, 0, layout.SafeTensors)
	late := map[string]int64{"input": 0, "batch": before["batch"].MaxReal} // scratch is left out: codecs hold scratch memory of their own
	for name, more := range late {
		if b := again.buffers(t)[name]; b.MaxReserved > start[name].Reserved+more {
			t.Errorf("%s: %+v at the start, and after an epoch %+v", name, start[name], b)
		}
	}
}

// TestLockingRefused: if the kernel refuses to lock memory, everything works the same, and
// this is reported: once in the log, in memory.json, in stats.json, and by doctor.
func TestLockingRefused(t *testing.T) {
	flags := strings.Fields("--resize not-larger --size 60x60 --batch-size 5")
	want := mountBatchfs(t, smallAlbum(t), flags...)
	user := ordinaryUser(t)
	limitLocking(t, 64*kib)
	m := mountAs(t, user, smallAlbum(t), flags...)
	var files, others []string
	for batch := range want.batches(t, 0, 0) {
		files, others = append(files, m.path(0, 0, batch, layout.NPY)), append(others, want.path(0, 0, batch, layout.NPY))
	}
	sums := want.digests(t, others...)
	for i, sum := range m.digests(t, files...) {
		if sum != sums[i] {
			t.Errorf("%s has other bytes", files[i])
		}
	}
	if b, s := m.buffers(t)["batch"], m.stats(t).Memory; b.Locked || b.Kind != "pinned" || !strings.Contains(s.LockError, "RLIMIT_MEMLOCK is 64 KiB") || s.Locked > 64*kib {
		t.Errorf("%+v, %+v", b, s)
	}
	m.expectLocked(t)
	const words = "batch memory is not page-locked"
	if log := m.logged(); strings.Count(log, words) != 1 || !strings.Contains(log, "RLIMIT_MEMLOCK is 64 KiB") || !strings.Contains(log, "level=WARN") {
		t.Errorf("the log does not say once that %s:\n%s", words, log)
	}
	if out, err := m.try(suite.binary, "doctor"); !strings.Contains(out, "memory locking") || !strings.Contains(out, "RLIMIT_MEMLOCK is 64 KiB") || !strings.Contains(out, "ulimit -l") {
		t.Errorf("doctor does not speak of it (%v):\n%s", err, out)
	}
}

// limitLocking lowers the limit for all processes started during the test. The test must
// not run in parallel with others.
func limitLocking(t *testing.T, bytes uint64) {
	t.Helper()
	t.Setenv("UNUSED", "") // fails in parallel tests
	var old unix.Rlimit
	check(t, unix.Getrlimit(unix.RLIMIT_MEMLOCK, &old))
	if err := unix.Setrlimit(unix.RLIMIT_MEMLOCK, &unix.Rlimit{Cur: bytes, Max: old.Max}); err != nil {
		t.Skipf("SKIPPED: RLIMIT_MEMLOCK cannot be lowered here: %v", err)
	}
	t.Cleanup(func() {
		if err := unix.Setrlimit(unix.RLIMIT_MEMLOCK, &old); err != nil {
			t.Error(err)
		}
	})
}
