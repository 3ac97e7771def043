package integration

import (
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/batchfs/batchfs/layout"
)

// step reads batch i of all shards: one line for each valid slot, with its pixels, in the order of
// shards.
func (m *mounted) step(t testing.TB, shards []int, epoch, i int) (slots []string) {
	t.Helper()
	for _, s := range shards {
		pixels := mustRead(t, m.path(s, epoch, i, layout.NHWCForm))
		doc := m.batchDoc(t, s, epoch, i)
		each := len(pixels) / len(doc.Samples)
		for j, slot := range doc.Samples[:doc.Valid] {
			slots = append(slots, fmt.Sprintf("%+v %x", slot, sha256.Sum256(pixels[j*each:(j+1)*each])))
		}
	}
	return slots
}

func upTo(n int) (list []int) {
	for i := range n {
		list = append(list, i)
	}
	return list
}

// TestElasticSteps: mounts of different world sizes have the same samples in every step, with the
// same pixels, even if bad files are replaced. They are in the same order unless nodes take their
// own first. There is one fingerprint, so that a job can continue with another world size.
func TestElasticSteps(t *testing.T) {
	const global, epochs = 12, 2
	for name, test := range map[string]struct {
		dataset string
		flags   string
		worlds  []int
		local   bool
	}{
		"shuffled": {mixedImages(t), "--shuffle --resize random-resized-crop --flip 0.5", []int{1, 6}, false},
		"window":   {mixedImages(t), "--shuffle window=1 --resize stretch", []int{2, 3}, false},
		"replaced": {spoiltImages(t).dir, "--shuffle --resize stretch --on-error replace", []int{1, 3}, false},
		"local":    {mixedImages(t), "--shuffle --resize random-resized-crop --placement local", []int{1, 4}, true},
		"dropped":  {mixedImages(t), "--resize stretch --last-batch drop", []int{1, 12}, false},
	} {
		t.Run(name, func(t *testing.T) {
			var first [][]string
			var before datasetDoc
			for _, world := range test.worlds {
				flags := strings.Fields(fmt.Sprintf("--seed 7 --size 16x16 --partition elastic --global-batch %d --world-size %d %s", global, world, test.flags))
				m := mountBatchfs(t, test.dataset, flags...)
				var doc datasetDoc
				m.document(t, "dataset.json", &doc)
				var steps [][]string
				for epoch := range epochs {
					for i := range m.batches(t, 0, epoch) {
						slots := m.step(t, upTo(world), epoch, i)
						if test.local {
							slices.Sort(slots)
						}
						steps = append(steps, slots)
					}
				}
				m.finish(t)
				if first == nil {
					first, before = steps, doc
					continue
				}
				if !slices.EqualFunc(first, steps, slices.Equal) {
					t.Errorf("world size %d has other steps than %d", world, test.worlds[0])
				}
				if doc.Fingerprint != before.Fingerprint {
					t.Errorf("world size %d has another fingerprint", world)
				}
			}
			if full := doneSteps(before.Samples, global, name == "dropped"); len(first) != epochs*full || len(first[0]) != global {
				t.Errorf("%d steps, the first of %d samples", len(first), len(first[0]))
			}
		})
	}
}

// doneSteps is how many steps an epoch has.
func doneSteps(samples, global int, drop bool) int {
	if drop {
		return samples / global
	}
	return (samples + global - 1) / global
}

// TestElasticRank: a mount for one rank has only that rank's shard, with the same files as the
// mount for all; its cache hits evenly if nodes take their own samples first.
func TestElasticRank(t *testing.T) {
	const n, side, world, global, rank = 512, 32, 4, 64, 2
	dir := tiles(t, n, side)
	flags := strings.Fields(fmt.Sprintf("--shuffle --seed 3 --partition elastic --global-batch %d --world-size %d --placement local --prefetch-queue-depth 0", global, world))
	all := mountBatchfs(t, dir, flags...)
	one := mountBatchfs(t, dir, append(flags, "--rank", fmt.Sprint(rank), "--cache-size", "300KB")...)
	if shards, err := filepath.Glob(filepath.Join(one.dir, "shard-*")); err != nil || !slices.Equal(shards, []string{filepath.Join(one.dir, "shard-2")}) {
		t.Errorf("lists %v, %v", shards, err)
	}
	if _, err := os.Stat(one.epochDir(0, 0)); !os.IsNotExist(err) {
		t.Errorf("another rank's shard: %v", err)
	}
	for epoch := range 3 {
		one.awaitPlans(t)
		for i := range n / global {
			if a, b := all.step(t, []int{rank}, epoch, i), one.step(t, []int{rank}, epoch, i); !slices.Equal(a, b) {
				t.Fatalf("epoch %d, step %d: %v, want %v", epoch, i, b, a)
			}
		}
		if epoch == 0 {
			continue
		}
		if d := one.stats(t).epoch(epoch).HitsPerBatch; d.Min == 0 || d.Max-d.Min > 1 {
			t.Errorf("epoch %d: between %d and %d of %d hit", epoch, d.Min, d.Max, global/world)
		}
	}
}
