package integration

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/batchfs/batchfs/layout"
)

// cachedEpochs is the number of epochs to test a cache with: it is filled, read, and read
// again after it has changed.
const cachedEpochs = 3

// A digest is the sha256 of a batch as nhwc.
type digest struct {
	shard, epoch, batch int
	sum                 string
}

// TestCacheSameBytes reads every batch without a cache, and then with every policy, with a
// cache for a third and one for everything, with direct and buffered I/O, by every read path, with
// any workers and depth, whichever form was read first, forwards, and in many processes in other
// orders: the bytes are the same. Samples are raw and encoded, and transformed. Package engine has
// tests of all modes and dtypes.
func TestCacheSameBytes(t *testing.T) {
	images := mixedImages(t)
	flags := []string{
		"--batch-size", "7", "--shards", "2", "--shuffle", "--seed", "11",
		"--resize", "random-resized-crop", "--size", "24x32", "--flip", "0.5", "--dtype", "float16", "--normalize", "imagenet",
	}
	plain := mountBatchfs(t, images, append(cacheFlags("constant", 0), flags...)...)
	wants := plain.sums(t, 2, cachedEpochs)
	if n := plain.stats(t).hits(); n != 0 {
		t.Fatalf("%d samples came from a cache that there is not", n)
	}
	all, samples, ways := datasetBytes(t, images), int64(newOracle(t, images, settings{}).ds.Len()), ways()
	for i, policy := range cachePolicies {
		for k, room := range []int64{all * 3 / 10, 4 * all} {
			if policy == "none" && k > 0 {
				continue // takes no size, and the first mount read without a cache
			}
			size := roomFor(t, policy, room, samples)
			how := cacheFlags(policy, size, append(ways[(3*i+5*k)%len(ways)].flags(), "--io", []string{"direct", "buffered"}[(i+k)%2])...)
			if i%2 == k { // plan for only one of the shards read
				how = append(how, "--local-shards", fmt.Sprintf("%d-%d", k, k))
			}
			t.Run(strings.Join(how, " "), func(t *testing.T) {
				t.Parallel()
				m := mountBatchfs(t, images, append(how, flags...)...)
				m.form(t, 0, 0, 1, []layout.Form{layout.NCHWForm, layout.SafeTensors, layout.NPY}[i%3]) // the way batches are kept depends on it
				m.same(t, wants)
				m.stats(t).within(t, size)
				m.sameTogether(t, wants)
				d := m.stats(t)
				if cached := policy != "none"; (d.hits() > 0) != cached || (d.Memory.Cache > 0) != cached || d.Memory.Cache > size {
					t.Errorf("%d samples came from the cache, which takes %d bytes of %d", d.hits(), d.Memory.Cache, size)
				}
			})
		}
	}
}

// sums returns the sha256 of all batches of the first epochs, shard by shard.
func (m *mounted) sums(t testing.TB, shards, epochs int) (all []digest) {
	t.Helper()
	var files []string
	for epoch := range epochs {
		for batch, step := range m.lockStep(t, shards, epoch) {
			for s, file := range step {
				all, files = append(all, digest{shard: s, epoch: epoch, batch: batch}), append(files, file)
			}
		}
	}
	for i, sum := range m.digests(t, files...) {
		all[i].sum = sum
	}
	return all
}

// same reads batches in an order, in one process. Several goroutines may do so at once.
func (m *mounted) same(t testing.TB, wants []digest) {
	t.Helper()
	var files []string
	for _, d := range wants {
		files = append(files, m.path(d.shard, d.epoch, d.batch, layout.NHWCForm))
	}
	sums, err := m.sha256(files)
	if err != nil {
		t.Error(err)
		return
	}
	for i, sum := range sums {
		if sum != wants[i].sum {
			t.Errorf("%s: %s instead of %s", files[i], sum, wants[i].sum)
		}
	}
}

// sameTogether reads everything in many processes at once, in different orders: one for each shard,
// one backwards, and some that follow one another closely, or not.
func (m *mounted) sameTogether(t *testing.T, wants []digest) {
	orders := [][]digest{nil, nil, slices.Clone(wants)}
	slices.Reverse(orders[2])
	for _, d := range wants {
		orders[d.shard] = append(orders[d.shard], d)
	}
	for i := range 5 {
		from := i * len(wants) / 10
		orders = append(orders, slices.Concat(wants[from:], wants[:from]))
	}
	var all sync.WaitGroup
	defer all.Wait()
	for _, wants := range orders {
		all.Go(func() { m.same(t, wants) })
	}
}
