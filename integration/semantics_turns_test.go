package integration

import (
	"fmt"
	"strconv"
	"testing"

	"github.com/batchfs/batchfs/layout"
)

// roomForBatches is a memory limit with room for n batches of a size, in addition to what a
// mount with one worker needs for itself.
func roomForBatches(n float64, size int) string {
	return strconv.Itoa(28<<20 + int(n*float64(size)))
}

// hasRoomFor checks that a limit is as tight as the test requires.
func (m *mounted) hasRoomFor(t testing.TB, n, size int64) {
	t.Helper()
	s := m.stats(t).Memory
	if room := (s.Limit - (s.Used - s.Batches)) / size; room != n {
		t.Fatalf("there is room for %d batches, not for %d: %+v", room, n, s)
	}
}

// onwards opens batch after batch, and closes each before opening the next: DIR SIDE
// BATCHES OPENS FIRST HOW, mapped or read. It starts on a line of input, and prints how
// many were right, wrong and refused with ENOMEM.
const onwards = tilesInPython + `
import errno, mmap, os, sys
dir, (side, batches, opens, first), how = sys.argv[1], map(int, sys.argv[2:6]), sys.argv[6]
print("ready", flush=True)
sys.stdin.readline()
right = wrong = refused = 0
for i in range(first, first + opens):
    b = i % batches
    try:
        fd = os.open("%s/epoch-%d/batch-%05d.nhwc" % (dir, i // batches, b), os.O_RDONLY)
    except OSError as e:
        if e.errno != errno.ENOMEM: raise
        refused += 1
        continue
    if how == "mapped":
        m = mmap.mmap(fd, 0, prot=mmap.PROT_READ)
        os.close(fd)
        same = m[:] == tiles(4 * b, 4, side)
        m.close()
    else:
        data = b""
        while len(data) < 4 * side * side * 3:
            part = os.pread(fd, 1 << 30, len(data))
            if not part: break
            data += part
        same = data == tiles(4 * b, 4, side)
        os.close(fd)
    right, wrong = right + same, wrong + (not same)
print(right, wrong, refused, flush=True)
`

// TestRoomForOneBatch: a reader that closes one batch and then opens the next needs room
// for one. The kernel reports the close after the following open; readers do not notice.
func TestRoomForOneBatch(t *testing.T) {
	const side, batches, opens = 512, 8, 400
	const size = tileBatch * side * side * 3
	dataset := tiles(t, tileBatch*batches, side)
	eachReadPath(t, func(t *testing.T, path string) {
		for _, how := range []string{"mapped", "read"} {
			t.Run(how, func(t *testing.T) {
				m := tileMount(t, dataset, "--read-path", path, "--workers", "1", "--memory-limit", roomForBatches(1.9, size))
				if err := readTiles(m, 0, 0, side, layout.NHWCForm); err != nil {
					t.Fatal(err)
				}
				m.hasRoomFor(t, 1, size)
				p := m.partner(t, onwards, m.dir+"/shard-0", strconv.Itoa(side), strconv.Itoa(batches), strconv.Itoa(opens), "0", how)
				p.expect(t, "ready")
				p.tell(t, "go")
				p.expect(t, fmt.Sprint(opens, 0, 0))
				if s := m.stats(t).Memory; s.Peak > s.Limit {
					t.Errorf("of %d bytes %d were used", s.Limit, s.Peak)
				}
			})
		}
	})
}

// TestMoreReadersThanMemory: many readers under a limit with room for few of their batches
// wait for their turns. That is slow, but no open fails.
func TestMoreReadersThanMemory(t *testing.T) {
	const side, batches, readers, opens = 512, 8, 16, 10
	const size = tileBatch * side * side * 3
	dataset := tiles(t, tileBatch*batches, side)
	m := tileMount(t, dataset, "--workers", "1", "--memory-limit", roomForBatches(3.9, size), "--memory-wait", "4m")
	if err := readTiles(m, 0, 0, side, layout.NHWCForm); err != nil {
		t.Fatal(err)
	}
	m.hasRoomFor(t, 3, size)
	var all []*partner
	for i := range readers {
		// At any time they read different batches of different epochs.
		p := m.partner(t, onwards, m.dir+"/shard-0", strconv.Itoa(side), strconv.Itoa(batches), strconv.Itoa(opens), strconv.Itoa(i*(batches*5+1)), "mapped")
		all = append(all, p)
	}
	for _, p := range all {
		p.expect(t, "ready")
	}
	for _, p := range all {
		p.tell(t, "go")
	}
	for _, p := range all {
		p.expect(t, fmt.Sprint(opens, 0, 0))
	}
	s := m.stats(t)
	if s.Memory.Peak > s.Memory.Limit {
		t.Errorf("of %d bytes %d were used", s.Memory.Limit, s.Memory.Peak)
	}
	if s.Batches.Stalled == 0 {
		t.Error("nobody ever waited")
	}
}
