package integration

import (
	"crypto/sha256"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/batchfs/batchfs/layout"
)

// TestReadSameBytes reads every batch under every setting that must not change a byte of
// it: number of workers, prefetching, read path, order of reading and number of processes.
// The oracle says what the bytes must be. Any two of these settings occur together; package
// engine's TestBytesDependOnNothingElse has all combinations of workers and depth.
func TestReadSameBytes(t *testing.T) {
	skipWithoutFUSE(t)
	s := settings{batch: 7, shards: 2, shuffle: true, seed: 5}
	images := mixedImages(t)
	wants := digests(t, newOracle(t, images, s))
	for _, w := range []way{{"passthrough", "1", "1"}, {"passthrough", "8", "4"}, {"direct", "1", "4"}, {"direct", "8", "1"}} {
		t.Run(fmt.Sprintf("%s/workers=%s/depth=%s", w.path, w.workers, w.depth), func(t *testing.T) {
			if w.path == "passthrough" {
				root(t)
				skipWithoutPassthrough(t)
			}
			m := mountBatchfs(t, images, s.flags(w.flags()...)...)
			r := sameReader{m: m, wants: wants}
			t.Run("forwards", r.forwards)
			t.Run("backwards", r.backwards)
			t.Run("by 8 processes", r.crowd)
		})
	}
}

const sameEpochs = 2

// digests returns the sha256 of all batches of the first epochs, by path.
func digests(t *testing.T, o *oracle) []digest {
	var all []digest
	for epoch := range sameEpochs {
		for s := range o.o.shards {
			for b := range o.plan.Batches(s, epoch) {
				x := o.batch(t, s, epoch, b)
				all = append(all, digest{s, epoch, b, fmt.Sprintf("%x", sha256.Sum256(x.pixels))})
			}
		}
	}
	return all
}

type digest struct {
	shard, epoch, batch int
	sum                 string
}

type sameReader struct {
	m     *mounted
	wants []digest
}

func (r sameReader) forwards(t *testing.T) { r.check(t, r.wants) }

func (r sameReader) backwards(t *testing.T) {
	wants := slices.Clone(r.wants)
	slices.Reverse(wants)
	r.check(t, wants)
}

// crowd reads everything in eight concurrent processes, each from a different starting
// point.
func (r sameReader) crowd(t *testing.T) {
	var all sync.WaitGroup
	defer all.Wait()
	for i := range 8 {
		from := i * len(r.wants) / 16 // some follow closely, some do not
		wants := append(slices.Clone(r.wants[from:]), r.wants[:from]...)
		all.Go(func() { r.check(t, wants) })
	}
}

// check reads batches in an order, in one process.
func (r sameReader) check(t *testing.T, wants []digest) {
	args := []string{"sha256sum"}
	for _, d := range wants {
		args = append(args, r.m.path(d.shard, d.epoch, d.batch, layout.NHWCForm))
	}
	out, err := r.m.try(args...)
	if err != nil {
		t.Error(err)
		return
	}
	lines := strings.Split(strings.TrimSpace(out), "\n")
	if len(lines) != len(wants) {
		t.Errorf("%d sums for %d batches", len(lines), len(wants))
		return
	}
	for i, line := range lines {
		if sum, path, _ := strings.Cut(line, "  "); sum != wants[i].sum {
			t.Errorf("%s: %s instead of %s", path, sum, wants[i].sum)
		}
	}
}
