package integration

import (
	"testing"

	"golang.org/x/sys/unix"

	"github.com/batchfs/batchfs/layout"
)

// TestBegunByAttribute: batches that another process asks for by the attribute are made while it
// does something else, and opened without a wait.
func TestBegunByAttribute(t *testing.T) {
	m := tileMount(t, tiles(t, 64, 2))
	value := make([]byte, 10)
	made := func(batch int) bool {
		n, err := unix.Getxattr(m.path(0, 1, batch, layout.NPY), "user.batchfs.ready", value)
		if err != nil || n != 1 || value[0] != '0' && value[0] != '1' {
			t.Fatalf("batch %d: %q, %v", batch, value[:max(n, 0)], err)
		}
		return value[0] == '1'
	}
	wanted := []int{7, 2, 5}
	for _, batch := range wanted {
		if made(batch) {
			t.Errorf("batch %d is there before it was begun", batch)
		}
	}
	eventually(t, "they are made", func() bool {
		all := true
		for _, batch := range wanted {
			all = made(batch) && all
		}
		return all
	})
	if s := m.stats(t); s.Batches.Decoded != 3 || s.Batches.Opened != 0 {
		t.Errorf("%d batches were made, %d opened", s.Batches.Decoded, s.Batches.Opened)
	}
	for _, batch := range wanted {
		expectOpen(t, m.path(0, 1, batch, layout.NPY), 0)
	}
	if s := m.stats(t); s.Batches.Stalled != 0 {
		t.Errorf("%d opens waited", s.Batches.Stalled)
	}
}
