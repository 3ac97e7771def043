package engine

import (
	"errors"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/batchfs/batchfs/dataset"
	"github.com/batchfs/batchfs/decode"
)

// TestTransientFailures: a file that occasionally cannot be opened is reported once. This
// neither hides other faults of the file nor lets a different file take its place.
func TestTransientFailures(t *testing.T) {
	const n = 8
	dir := testDir(t, n)
	e := start(t, dir, func(o *Options) { o.OnError = Zero })
	for range 3 {
		if err := e.bad.report(0, unix.EACCES, unknownIdentity); !errors.Is(err, ErrBad) {
			t.Error(err)
		}
		if err := e.bad.check(0); err != nil {
			t.Errorf("it is not tried again: %v", err)
		}
	}
	if lines := e.bad.total(); lines != 1 {
		t.Errorf("%d lines about one file", lines)
	}
	e.bad.report(0, unix.EACCES, unknownIdentity)
	e.bad.report(0, decode.ErrCorrupt, e.catalog.Dataset.Stat(0))
	if lines := e.bad.total(); lines != 2 {
		t.Errorf("%d lines about a file with two faults", lines)
	}
	e.bad.report(1, dataset.ErrMissing, unknownIdentity)
	h, w := testSize(number(n, 1))
	writePPM(t, samplePath(dir, number(n, 1)), h, w, picture(99, h, w))
	for _, s := range samplesOf(t, e, Key{0, 0, 0}) {
		if s.ID == 1 && s.Status != StatusZeroed {
			t.Errorf("the new file is shown: %+v", s)
		}
	}
}
