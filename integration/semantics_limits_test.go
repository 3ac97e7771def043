package integration

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/batchfs/batchfs/internal/testkit"
	"github.com/batchfs/batchfs/layout"
)

// limit sets a resource limit of the daemon and returns the previous one.
func (m *mounted) limit(t testing.TB, resource int, n uint64) (before uint64) {
	t.Helper()
	var old unix.Rlimit
	check(t, unix.Prlimit(m.pid(), resource, nil, &old))
	check(t, unix.Prlimit(m.pid(), resource, &unix.Rlimit{Cur: n, Max: old.Max}, nil))
	return old.Cur
}

// limitDescriptors leaves the daemon spare free descriptors.
func (m *mounted) limitDescriptors(t testing.TB, spare int) {
	t.Helper()
	entries, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", m.pid()))
	check(t, err)
	open := map[string]bool{}
	for _, e := range entries {
		open[e.Name()] = true
	}
	most := 0 // the limit applies to descriptor numbers, and not all lower ones are in use
	for ; spare > 0; most++ {
		if !open[strconv.Itoa(most)] {
			spare--
		}
	}
	m.limit(t, unix.RLIMIT_NOFILE, uint64(most))
}

// collector opens batches and keeps those that open, as files or mapped: DIR SIDE HOW BATCH... For
// "take" it prints how many it holds, how many did not open, and their errors; for "look" whether
// those it holds are right; and for "drop" it releases all.
const collector = tilesInPython + `
import errno, mmap, os, sys
dir, side, how, batches = sys.argv[1], int(sys.argv[2]), sys.argv[3], [int(b) for b in sys.argv[4:]]
held = []
def bytes_of(x): return x[:] if how == "mapped" else os.pread(x, 1 << 30, 0)
for line in sys.stdin:
    word = line.strip()
    if word == "take":
        errors = []
        for b in batches:
            try:
                fd = os.open("%s/batch-%05d.nhwc" % (dir, b), os.O_RDONLY)
            except OSError as e:
                errors.append(errno.errorcode[e.errno])
                continue
            held.append((b, fd))
            if how == "mapped":
                held[-1] = b, mmap.mmap(fd, 0, prot=mmap.PROT_READ)
                os.close(fd)
        print(len(held), len(errors), ",".join(sorted(set(errors))) or "-", flush=True)
    elif word == "look":
        print("same" if all(bytes_of(x) == tiles(4 * b, 4, side) for b, x in held) else "DIFFERENT", flush=True)
    elif word == "drop":
        for _, x in held: x.close() if how == "mapped" else os.close(x)
        held = []
        print("dropped", flush=True)
`

// collects starts a collector of batches.
func (m *mounted) collects(t testing.TB, epoch, side int, how string, batches []int) *partner {
	t.Helper()
	args := []string{m.epochDir(0, epoch), strconv.Itoa(side), how}
	for _, batch := range batches {
		args = append(args, strconv.Itoa(batch))
	}
	return m.partner(t, collector, args...)
}

// taken reads what a collector has taken.
func (p *partner) taken(t testing.TB) (held, refused int, errors string) {
	t.Helper()
	scan(t, p.line(t), &held, &refused, &errors)
	return held, refused, errors
}

// readAllTiles reads epochs of tiles: pixels, and documents, which must show no
// replacements.
func (m *mounted) readAllTiles(t testing.TB, side, batches int, epochs ...int) {
	t.Helper()
	for _, epoch := range epochs {
		for batch := range batches {
			m.expectTiles(t, epoch, batch, side, layout.NHWCForm)
			text, err := os.ReadFile(m.path(0, epoch, batch, layout.JSON))
			if err != nil || strings.Count(string(text), `"status":"ok"`) != tileBatch {
				t.Errorf("epoch %d, batch %d: %v %s", epoch, batch, err, text)
			}
		}
	}
}

// TestDescriptorsRunOut: without a free descriptor an open fails with EIO, though bad files
// are replaced or zeroed, and open batches stay readable. Once descriptors are available
// again, because readers close files or the limit is raised, the same mount serves
// everything, and no file counts as bad.
func TestDescriptorsRunOut(t *testing.T) {
	const side, batches, spare = 16, 48, 12
	dataset := tiles(t, tileBatch*batches, side)
	policies := map[string]string{"passthrough": "replace", "direct": "zero"}
	eachReadPath(t, func(t *testing.T, path string) {
		m := tileMount(t, dataset, cacheFlags("none", 0, "--read-path", path, "--on-error", policies[path], "--prefetch-queue-depth", "0", "--workers", "2")...)
		m.readAllTiles(t, side, 2, 0)
		m.limitDescriptors(t, spare)
		p := m.collects(t, 1, side, "open", upTo(batches))
		p.tell(t, "take")
		held, _, failed := p.taken(t)
		if held == 0 || held == batches || failed != "EIO" {
			t.Errorf("%d batches of %d are open; the others failed with %s", held, batches, failed)
		}
		p.tell(t, "look")
		p.expect(t, "same")
		p.tell(t, "drop")
		p.expect(t, "dropped")
		eventually(t, "the daemon has heard that they were closed", func() bool {
			for batch := range batches {
				switch errno, err := openErrno(m.path(0, 1, batch, layout.NHWCForm), unix.O_RDONLY); {
				case err != nil || errno != 0 && errno != unix.EIO:
					t.Fatalf("open: %v %v", errno, err)
				case errno != 0:
					return false
				}
			}
			return true
		})
		m.readAllTiles(t, side, batches, 1, 2)

		before := m.limit(t, unix.RLIMIT_NOFILE, 3) // below the number in use: none is free, whatever is closed
		expectOpen(t, m.path(0, 3, 0, layout.NHWCForm), unix.EIO)
		expectOpen(t, m.path(0, 3, 0, layout.NPY), unix.EIO)
		m.limit(t, unix.RLIMIT_NOFILE, before)
		m.readAllTiles(t, side, batches, 3)

		if n := m.stats(t).Errors; n != 0 {
			t.Errorf("%d files are said to be bad: %+v", n, m.badLines(t))
		}
		if log := m.logged(); !strings.Contains(log, "ulimit -n") {
			t.Errorf("the log does not say what ran out and what helps:\n%s", log)
		}
		p.end()
	})
}

// addressSpace is the daemon's mapped memory in bytes.
func (m *mounted) addressSpace(t testing.TB) uint64 {
	t.Helper()
	text := mustRead(t, fmt.Sprintf("/proc/%d/statm", m.pid()))
	pages, err := strconv.ParseUint(strings.Fields(string(text))[0], 10, 64)
	check(t, err)
	return pages * uint64(os.Getpagesize())
}

// processorTime is the daemon's processor time, in clock ticks.
func (m *mounted) processorTime(t testing.TB) (ticks int) {
	t.Helper()
	text := mustRead(t, fmt.Sprintf("/proc/%d/stat", m.pid()))
	_, rest, _ := strings.Cut(string(text), ") ")
	fields := strings.Fields(rest)
	for _, field := range fields[11:13] { // utime and stime
		n, err := strconv.Atoi(field)
		check(t, err)
		ticks += n
	}
	return ticks
}

// TestKernelRefusesMemory: if the kernel has no memory for a batch (here because of a limit
// on address space), the open fails with ENOMEM, and the daemon neither hangs nor spins.
// Open batches stay readable, the mount can be ended, and it serves everything once there
// is memory.
func TestKernelRefusesMemory(t *testing.T) {
	if testkit.RaceDetector() {
		t.Skip("SKIPPED: the race detector's own memory has no place under a limit on address space")
	}
	const canvas, side, batches = 3300, 16, 3
	const size = tileBatch * canvas * canvas * 3 // 131 MB
	dataset := tiles(t, tileBatch*batches, side)
	m := tileMount(t, dataset, cacheFlags("none", 0, "--size", fmt.Sprintf("%dx%d", canvas, canvas), "--prefetch-queue-depth", "0",
		"--workers", "1", "--loads", "1", "--memory-limit", "1GiB", "--memory-wait", "1h")...)
	for batch := range batches { // starts all threads and grows Go's heap to its full size
		expectPaddedTiles(t, m, 0, batch, side, canvas)
	}
	var held []*partner
	// If an open never came back, the other process would be silent.
	hold := func(epoch, batch int, form layout.Form) (answer string) {
		p := m.partner(t, opener, m.path(0, epoch, batch, form))
		if answer = p.line(t); strings.HasPrefix(answer, "open") {
			held = append(held, p)
		}
		return answer
	}
	if answer := hold(1, 0, layout.NHWCForm); len(held) != 1 {
		t.Fatal(answer)
	}
	before := m.limit(t, unix.RLIMIT_AS, m.addressSpace(t)+size*3/4)
	answer := "" // the open succeeds once nothing is left that was read before and that nobody holds
	for i := 1; answer != "ENOMEM" && i < 9; i++ {
		answer = hold(1+i/batches, i%batches, layout.NHWCForm)
	}
	if answer != "ENOMEM" {
		t.Errorf("without memory an open says %s", answer)
	}
	for range 3 {
		for _, form := range []layout.Form{layout.NHWCForm, layout.NPY} {
			if answer := hold(20, 1, form); answer != "ENOMEM" {
				t.Errorf("without memory an open of %v says %s", form, answer)
			}
		}
	}
	eventually(t, "the daemon rests", func() bool {
		before := m.processorTime(t)
		time.Sleep(300 * time.Millisecond)
		return m.processorTime(t) <= before+1
	})
	for i := range held {
		expectPaddedTiles(t, m, 1+i/batches, i%batches, side, canvas)
	}
	if _, err := os.ReadFile(filepath.Join(m.dir, ".batchfs", "stats.json")); err != nil {
		t.Error(err)
	}
	m.awaitLog(t, "ulimit -v")

	m.limit(t, unix.RLIMIT_AS, before)
	for _, p := range held {
		p.end()
	}
	for batch := range batches {
		expectPaddedTiles(t, m, 22, batch, side, canvas)
	}
	m.limit(t, unix.RLIMIT_AS, m.addressSpace(t)+size*3/4) // Go ends a process that has none at all
	m.signal(t, syscall.SIGTERM)
	m.wait(t)
	m.finish(t)
}

// expectPaddedTiles reads a batch of tiles, each in the upper left corner of a canvas.
func expectPaddedTiles(t testing.TB, m *mounted, epoch, batch, side, canvas int) {
	t.Helper()
	f, err := os.Open(m.path(0, epoch, batch, layout.NHWCForm))
	if err != nil {
		t.Error(err)
		return
	}
	defer f.Close()
	row := make([]byte, canvas*3)
	for slot := range tileBatch {
		want := tile(batch*tileBatch+slot, side)
		for y := range side + 1 {
			if _, err := f.ReadAt(row, int64((slot*canvas+y)*canvas*3)); err != nil {
				t.Fatal(err)
			}
			shown := make([]byte, canvas*3)
			if y < side {
				copy(shown, want[y*side*3:(y+1)*side*3])
			}
			if string(row) != string(shown) {
				t.Fatalf("%s: row %d of slot %d is another one", f.Name(), y, slot)
			}
		}
	}
}
