package integration

import (
	"encoding/json"
	"strings"
	"syscall"
	"testing"

	"github.com/batchfs/batchfs/layout"
)

// TestSignalWaitsForReaders: after one signal, a mount in use ends when its last reader has
// closed, and works normally until then. It logs this in an ordinary line.
func TestSignalWaitsForReaders(t *testing.T) {
	const side = 16
	dataset := tiles(t, 16, side)
	eachReadPath(t, func(t *testing.T, path string) {
		m := tileMount(t, dataset, "--read-path", path, "--log-format", "json")
		holders := map[string]*partner{"open": m.hold(t, "open", 0, side, layout.NHWCForm), "mapped": m.hold(t, "mapped", 1, side, layout.NHWCForm)}
		m.signal(t, syscall.SIGTERM)
		m.awaitLog(t, m.dir+" is in use and will be unmounted when nobody uses it any more")
		if err := readTiles(m, 0, 2, side, layout.NHWCForm); err != nil {
			t.Errorf("after the signal: %v", err)
		}
		stillSame(t, "after the signal", holders)
		for _, p := range holders {
			p.end()
		}
		m.wait(t)
		unmounted(t, m.dir)
		logged := m.logged()
		for line := range strings.Lines(logged) {
			if !json.Valid([]byte(line)) {
				t.Errorf("no JSON: %q", line)
			}
		}
		if n := strings.Count(logged, "is in use"); n != 1 {
			t.Errorf("it says %d times that it is in use", n)
		}
		m.finish(t)
	})
}
