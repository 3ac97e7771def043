package integration

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/batchfs/batchfs/layout"
)

// opener opens a file and reports the result: FILE. It survives SIGUSR1, like a program
// whose runtime sends itself signals. SIGINT interrupts it even if the tests run in the
// background, where shells have it ignored.
const opener = `
import errno, os, signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGUSR1, lambda *_: os.write(1, b"signal\n")) # print must not be interrupted by itself
try:
    fd = os.open(sys.argv[1], os.O_RDONLY)
except KeyboardInterrupt:
    print("interrupted")
except OSError as e:
    print(errno.errorcode[e.errno])
else:
    print("open", os.fstat(fd).st_size, flush=True)
    sys.stdin.read()
`

// awaitWaiting waits until n opens wait.
func (m *mounted) awaitWaiting(t testing.TB, n int64) {
	t.Helper()
	eventually(t, fmt.Sprintf("%d opens wait", n), func() bool { return m.stats(t).Batches.Waiting == n })
}

// TestInterruptedOpen: readers that wait for a batch can be interrupted or killed. The
// batch is made all the same, once, for other readers.
func TestInterruptedOpen(t *testing.T) {
	eachReadPath(t, func(t *testing.T, path string) {
		const side = storageSide
		s := newStorage(t)
		m := tileMount(t, s.dir, "--read-path", path, "--prefetch-queue-depth", "0")
		defer s.order(t, "heal")
		s.stall(t, 6)
		file := m.path(0, 0, 1, layout.NHWCForm)
		wait := func() *partner { return m.partner(t, opener, file) }
		stays, interrupted, killed := wait(), wait(), wait()
		m.awaitWaiting(t, 3)

		interrupted.signal(t, syscall.SIGINT)
		interrupted.expect(t, "interrupted")
		m.awaitWaiting(t, 2)
		killed.signal(t, syscall.SIGKILL)
		killed.gone(t)
		m.awaitWaiting(t, 1)
		for range 5 { // a handled signal does no harm
			stays.signal(t, syscall.SIGUSR1)
			stays.expect(t, "signal")
			m.awaitWaiting(t, 1) // it is back in open, where the next signal finds it
		}
		alone := m.partner(t, opener, m.path(0, 0, 1, layout.NPY))
		m.awaitWaiting(t, 2)
		stays.signal(t, syscall.SIGKILL)
		alone.signal(t, syscall.SIGINT)
		alone.expect(t, "interrupted")
		m.awaitWaiting(t, 0)

		// No reader waits any more. A new one finds the batch in progress or done.
		late := wait()
		m.awaitWaiting(t, 1)
		s.order(t, "heal")
		late.expect(t, fmt.Sprint("open ", tileBatch*side*side*3))
		m.expectTiles(t, 0, 1, side, layout.NHWCForm)
		if st := m.stats(t); st.Batches.Decoded != 1 {
			t.Errorf("%d batches were made, want 1", st.Batches.Decoded)
		}
		late.end()
	})
}

// TestNothingElseWaits: while opens of batches wait, all files without pixels can be read,
// and stat works.
func TestNothingElseWaits(t *testing.T) {
	const side = storageSide
	s := newStorage(t)
	m := tileMount(t, s.dir, "--workers", "1", "--epochs", "3", "--list", "nhwc,npy,safetensors,labels.npy,ids.npy,sizes.npy,json,png")
	defer s.order(t, "heal")
	s.stall(t, 0, 4, 8, 12) // a sample of each batch
	var waiting []*partner
	for batch := range 2 {
		for _, form := range []layout.Form{layout.NHWCForm, layout.NCHWForm, layout.NPY, layout.SafeTensors, layout.PNG} {
			waiting = append(waiting, m.partner(t, opener, m.path(0, 0, batch, form)))
		}
	}
	m.awaitWaiting(t, int64(len(waiting)))
	for _, name := range []string{"config.json", "stats.json", "memory.json", "errors.jsonl", "metrics"} {
		text, err := os.ReadFile(filepath.Join(m.dir, ".batchfs", name))
		if err != nil {
			t.Error(err)
		}
		if strings.HasSuffix(name, ".json") && !json.Valid(text) {
			t.Errorf("%s is no JSON: %s", name, text)
		}
		if name == "metrics" && !bytes.Contains(text, fmt.Appendf(nil, "\nbatchfs_batches_waiting %d\n", len(waiting))) {
			t.Errorf("the metrics do not show %d waiting:\n%s", len(waiting), text)
		}
	}
	// Every name, and every file that needs no pixels.
	err := filepath.WalkDir(m.dir, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		if _, err := d.Info(); err != nil {
			return err
		}
		if _, form, ok := layout.Names(nil).ParseBatchName(d.Name()); ok && form.Large() {
			return nil
		}
		_, err = os.ReadFile(path)
		return err
	})
	if err != nil {
		t.Error(err)
	}
	expectOpen(t, m.path(0, 0, 4, layout.NHWCForm), unix.ENOENT)
	expectOpen(t, filepath.Join(m.dir, "nothing"), unix.ENOENT)
	expectOpen(t, filepath.Join(m.dir, "classes.txt"), unix.ENOENT) // tiles have no classes
	if st := m.stats(t); st.Batches.Waiting != int64(len(waiting)) || st.Batches.Decoded != 0 {
		t.Errorf("%d opens wait and %d batches are made; it was to be %d and none", st.Batches.Waiting, st.Batches.Decoded, len(waiting))
	}
	s.order(t, "heal")
	for _, p := range waiting {
		if got := p.line(t); !strings.HasPrefix(got, "open ") {
			t.Errorf("after the wait: %s", got)
		}
		p.end()
	}
}
