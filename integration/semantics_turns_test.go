package integration

import (
	"fmt"
	"os"
	"strconv"
	"testing"

	"github.com/batchfs/batchfs/layout"
)

// tightMount mounts tiles with one worker under a memory limit that has room for n batches of a
// size and most of another, beside what such a mount takes for itself. A first mount says what
// that is.
func tightMount(t testing.TB, dataset string, n, size int64, flags ...string) *mounted {
	t.Helper()
	flags = append(flags, "--workers", "1", "--loads", "1", "--memory-limit")
	read := func(limit int64) (m *mounted, itself int64) {
		m = tileMount(t, dataset, append(flags, strconv.FormatInt(limit, 10))...)
		if _, err := os.ReadFile(m.path(0, 0, 0, layout.NHWCForm)); err != nil {
			t.Fatal(err)
		}
		m.awaitPlans(t)
		eventually(t, "nothing is read ahead", func() bool { return m.stats(t).Batches.Making == 0 })
		s := m.stats(t).Memory
		return m, s.Used - s.Batches - s.Cache - s.Scratch
	}
	m, itself := read(100 << 20)
	m.finish(t)
	const forSamples = 128 / 3 // part of the limit, which is left for loading and drawing samples
	m, itself = read((itself + n*size + size*3/4) * forSamples / (forSamples - 1))
	if limit := m.stats(t).Memory.Limit; (limit-limit/forSamples-itself)/size != n {
		room := (limit - limit/forSamples - itself) / size
		t.Fatalf("there is room for %d batches, not for %d", room, n)
	}
	return m
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
	const side, batches, opens = 256, 8, 200
	const size = tileBatch * side * side * 3
	dataset := tiles(t, tileBatch*batches, side)
	eachReadPath(t, func(t *testing.T, path string) {
		for _, how := range []string{"mapped", "read"} {
			t.Run(how, func(t *testing.T) {
				m := tightMount(t, dataset, 1, size, "--read-path", path)
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
	m := tightMount(t, dataset, 3, size, "--memory-wait", "4m")
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
