package engine

import (
	"bytes"
	"os"
	"testing"
	"time"

	"github.com/batchfs/batchfs/layout"
)

// TestStandInsGoWithTheirCause: a kept or prefetched batch with a substitute for a bad
// sample is no longer served once the file has been repaired.
func TestStandInsGoWithTheirCause(t *testing.T) {
	const n = 24
	for _, policy := range []OnError{Replace, Zero} {
		dir := testDir(t, n)
		path := samplePath(dir, number(n, 5)) // in batch 1
		good, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		write := func(data []byte, when time.Time) {
			if err := os.WriteFile(path, data, 0o644); err != nil {
				t.Fatal(err)
			}
			if err := os.Chtimes(path, when, when); err != nil {
				t.Fatal(err)
			}
		}
		e := start(t, dir, func(o *Options) { o.OnError = policy })
		bad := bytes.Clone(good)
		bad[1] = '9' // not a PPM, but the same size and time
		write(bad, info.ModTime())
		k, exact := Key{Batch: 1}, want(t, e, n, Key{Batch: 1}, 0)
		read(t, e, Key{}, layout.NHWCForm)
		eventually(t, "the batch is read ahead", func() bool {
			return e.locked(func() bool { b := e.batches.table[k]; return b != nil && b.state == ready })
		})
		if bytes.Equal(read(t, e, k, layout.NHWCForm), exact) || samplesOf(t, e, k)[1].Status == StatusOK {
			t.Errorf("%v: nothing stands in for the bad sample", policy)
		}
		write(good, info.ModTime().Add(time.Hour))
		if !bytes.Equal(read(t, e, k, layout.NHWCForm), exact) {
			t.Errorf("%v: the repaired file is not shown", policy)
		}
		if s := samplesOf(t, e, k)[1]; s.Status != StatusOK || s.ID != 5 {
			t.Errorf("%v: its document says %+v", policy, s)
		}
	}
}
