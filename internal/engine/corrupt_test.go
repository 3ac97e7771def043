package engine

import (
	"log/slog"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/batchfs/batchfs/decode"
	"github.com/batchfs/batchfs/internal/catalog"
	"github.com/batchfs/batchfs/internal/dataset"
	"github.com/batchfs/batchfs/internal/testkit"
	"github.com/batchfs/batchfs/layout"
	"github.com/batchfs/batchfs/shard"
)

// TestDescribesBadSamples: a batch's description says what the last attempt to read its files
// found, without reading them itself.
func TestDescribesBadSamples(t *testing.T) {
	const n = 16
	dir := testDir(t, n)
	e := start(t, dir, func(o *Options) { o.PrefetchDepth = 0 })
	sample := spoil(t, samplePath(dir, number(n, 1)))
	gone := samplePath(dir, number(n, 2))
	expect := func(when string, id int, reason string) {
		t.Helper()
		s := samplesOf(t, e, Key{})[id]
		if (s.Status == catalog.StatusCorrupt) != (reason != "") || s.Status == catalog.StatusPadded || !strings.Contains(s.Reason, reason) || reason == "" && s.Reason != "" {
			t.Errorf("%s: %+v, not %q", when, s, reason)
		}
	}
	fails := func(when string) {
		t.Helper()
		fails(t, e, Key{}, layout.NHWCForm, ErrBad)
	}
	expect("nothing was read", 1, "")
	fails("a file is damaged")
	expect("read", 1, "unsupported")
	expect("beside it", 0, "")
	sample.repair()
	expect("repaired, which nobody has noticed", 1, "unsupported")
	read(t, e, Key{}, layout.NHWCForm)
	expect("repaired", 1, "")

	for batch := 1; batch < n/4; batch++ {
		read(t, e, Key{Batch: batch}, layout.NHWCForm) // so that the first batch is not kept
	}
	testkit.Must(t, os.Rename(gone, gone+"-"))
	fails("a file is missing")
	expect("missing", 2, "missing")
	testkit.Must(t, os.Rename(gone+"-", gone))
	read(t, e, Key{}, layout.NHWCForm)
	expect("back", 2, "")
	if n := e.Stats().Errors; n != 2 {
		t.Errorf("%d errors were counted", n)
	}
}

// TestCorruptPartsBelongToTheirEpoch: a fault in one random crop says nothing about another crop,
// and a padded slot stays padded.
func TestCorruptPartsBelongToTheirEpoch(t *testing.T) {
	ds := openDataset(t, testDir(t, 4))
	bad := newBadSamples(ds, &badReports{ledger: newLedger(1 << 20)}, slog.New(slog.DiscardHandler))
	bad.report(1, partError{decode.ErrCorrupt, 3}, ds.Stat(1))
	for epoch, want := range map[int]bool{2: false, 3: true} {
		if got := bad.known(shard.Slot{ID: 1, Epoch: epoch}); (got != "") != want {
			t.Errorf("epoch %d: %q", epoch, got)
		}
	}
	bad.report(2, unix.EACCES, unknownIdentity)
	bad.report(3, dataset.ErrChanged, dataset.Identity{Size: 1, ModTime: 2})
	for id, want := range map[int64]bool{2: false, 3: true} {
		if bad.wasRead(id, ds.Stat(int(id))); (bad.known(shard.Slot{ID: id}) != "") != want {
			t.Errorf("sample %d was read, and is said to be bad: %v", id, !want)
		}
	}
}
