package integration

import (
	"strconv"
	"testing"

	"github.com/batchfs/batchfs/internal/testkit"
)

// readerProgram maps batches, prefetches all of each at once, and reads them repeatedly:
// ROUNDS FILE...
const readerProgram = `
import errno, mmap, os, sys
rounds, files = int(sys.argv[1]), sys.argv[2:]
got = 0
for r in range(rounds):
    for f in files:
        try: fd = os.open(f, os.O_RDONLY)
        except OSError as e:
            if e.errno != errno.ENOMEM: raise
            continue
        m = mmap.mmap(fd, 0, mmap.MAP_SHARED, mmap.PROT_READ)
        m.madvise(mmap.MADV_WILLNEED)
        sum(m[::4096])
        while os.read(fd, 16 << 20): pass
        m.close()
        os.close(fd)
        got += 1
print("done" if got else "nothing", flush=True)
sys.stdin.read()
`

// directSlack is what a daemon may use beyond its memory limit: stacks and free heap of the
// Go runtime, and free memory of the decoders' allocator.
const directSlack = 24 << 20

// TestDirectMemory: many readers through the daemon do not make it exceed its limit, which
// includes the buffers of their requests.
func TestDirectMemory(t *testing.T) {
	if testkit.RaceDetector() {
		t.Skip("SKIPPED: the race detector takes memory of its own")
	}
	const side, limit, readers = 512, 60 << 20, 48
	m := tileMount(t, tiles(t, 32, side), "--read-path", "direct", "--memory-limit", strconv.Itoa(limit), "--workers", "2")
	var all []*partner
	for i := range readers {
		args := []string{"2"}
		for batch := range 8 {
			args = append(args, m.path(0, 0, (batch+i)%8, 0))
		}
		all = append(all, m.partner(t, readerProgram, args...))
	}
	for _, p := range all {
		p.expect(t, "done")
	}
	// File-backed pages, such as the program itself, do not count.
	peak := testkit.Status(m.pid(), "VmHWM") - testkit.Status(m.pid(), "RssFile")
	if peak <= 0 || peak > limit+directSlack {
		t.Errorf("the daemon took %d bytes at its peak, with a limit of %d", peak, limit)
	} else {
		t.Logf("peak %d of %d bytes", peak, limit)
	}
	for _, p := range all {
		p.end()
	}
}
