package integration

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/batchfs/batchfs/cache"
	"github.com/batchfs/batchfs/internal/keep"
	"github.com/batchfs/batchfs/internal/testkit"
	"github.com/batchfs/batchfs/shard"
)

// An unequal dataset has files of 1 KB to 4 MB, BMP and PPM. Most of them are small; most
// of the bytes are in a few.
type unequal struct {
	dir   string
	sizes []int64
	all   int64
	huge  int // number of files of at least unequalHuge bytes
}

const (
	unequalCount = 80
	unequalHuge  = 4 << 20
	unequalBatch = 8
)

var unequalSettings = settings{batch: unequalBatch, shards: 2, shuffle: true, seed: 21}

func newUnequal(t testing.TB) (u unequal) {
	t.Helper()
	u.dir = filepath.Join(scratch(t), "images")
	for id := range unequalCount {
		h, w := 18, 19
		switch {
		case id%20 == 9:
			h, w = 1190, 1180
		case id%10 == 9:
			h, w = 600, 590
		case id%10 > 5:
			h, w = 280, 301
		}
		rgb := bytes.Repeat([]byte{byte(3 * id), byte(id), byte(7 * id), 0, byte(id), 255, 1}, 3*h*w/7+1)[:3*h*w]
		name, data := fmt.Sprintf("%02d.ppm", id), ppmFile(h, w, rgb)
		if id%3 == 0 {
			name, data = fmt.Sprintf("%02d.bmp", id), bmpFile(h, w, rgb)
		}
		writeFile(t, filepath.Join(u.dir, name), data)
		u.sizes = append(u.sizes, int64(len(data)))
		u.all += int64(len(data))
		if len(data) >= unequalHuge {
			u.huge++
		}
	}
	return u
}

// mount uses one worker that makes one batch at a time, and loads one sample, so that memory
// outside the cache is the same in every mount.
func (u unequal) mount(t testing.TB, policy string, limit int64) *mounted {
	t.Helper()
	flags := unequalSettings.flags("--size", "12x13", "--resize", "stretch", "--prefetch-queue-depth", "0", "--batch-workers", "1", "--workers", "1", "--loads", "1")
	return mountBatchfs(t, u.dir, append(flags, cacheFlags(policy, limit)...)...)
}

// read reads epochs in lockstep and calls look after every step. It returns checksums and the
// daemon's peak memory, without scratch memory of up to the largest file, which a worker may or may
// not have given back after a step.
func (u unequal) read(t testing.TB, m *mounted, epochs int, look func(d statistics)) (sums []string, most int64) {
	t.Helper()
	for epoch := range epochs {
		for _, step := range m.lockStep(t, unequalSettings.shards, epoch) {
			sums = append(sums, m.digests(t, step...)...)
			d := m.stats(t)
			look(d)
			most = max(most, m.private(t)-d.Memory.Scratch)
		}
	}
	return sums, most
}

// private is the daemon's own memory, including batches; 0 if the kernel does not report
// it.
func (m *mounted) private(t testing.TB) (sum int64) {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/smaps_rollup", m.pid()))
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if fields := strings.Fields(line); fields[0] == "Pss_Anon:" || fields[0] == "Pss_Shmem:" {
			kib, err := strconv.ParseInt(fields[1], 10, 64)
			check(t, err)
			sum += kib << 10
		}
	}
	return sum
}

// planned is the number of samples the plan keeps from an epoch, given how many the cache
// is sure to hold.
func (u unequal) planned(t testing.TB, plan *shard.Plan, limit int64, epoch int) int64 {
	t.Helper()
	ratio := cache.Ratio(limit, unequalCount, 1, func(id int64) (int64, int) { return u.sizes[id], 0 }, inFlight(unequalSettings, oneByOne))
	k, err := keep.Choose(plan, epoch, keep.Config{Ratio: ratio}, nil)
	check(t, err)
	return k.Count()
}

// TestCacheBudget: however unequal files are, a cache never exceeds its limit, by its own
// account and the system's. Samples without room are counted. A sample larger than the
// whole cache is read like any other.
func TestCacheBudget(t *testing.T) {
	const epochs = 3
	u := newUnequal(t)
	plan := newOracle(t, u.dir, unequalSettings).plan
	wants, plain := u.read(t, u.mount(t, "constant", 0), epochs, func(d statistics) { d.within(t, 0) })
	for _, policy := range cachePolicies[:3] {
		for _, limit := range []int64{2 << 20, 24 << 20} {
			t.Run(fmt.Sprintf("%s/%d", policy, limit), func(t *testing.T) {
				m := u.mount(t, policy, limit)
				most := int64(0)
				sums, memory := u.read(t, m, epochs, func(d statistics) {
					d.within(t, limit)
					most = max(most, d.Memory.Cache)
				})
				for i := range wants {
					if sums[i] != wants[i] {
						t.Errorf("batch %d of all is %s, not %s", i, sums[i], wants[i])
					}
				}
				u.counts(t, m.stats(t), policy, limit, func(epoch int) int64 { return u.planned(t, plan, limit, epoch) })
				t.Run("memory", func(t *testing.T) {
					if testkit.RaceDetector() {
						t.Skip("SKIPPED: the race detector's own memory cannot be told from the daemon's")
					}
					if plain == 0 {
						t.Skip("SKIPPED: the kernel does not say what memory the daemon has for itself")
					}
					// A Go heap below 4 MiB is not collected, so its size varies by that
					// much.
					const chance = 4 << 20
					grown := memory - plain
					if grown > limit+limit/20+chance {
						t.Errorf("with a cache of %d bytes, the daemon takes %d more than without", limit, grown)
					}
					if grown < most/2-chance {
						t.Errorf("a cache that takes %d bytes is not seen in the daemon's memory, which grew by %d", most, grown)
					}
				})
			})
		}
	}
}

// counts checks the counters of each epoch: every sample due to be kept, by the policy or
// by the plan, is counted as kept or not kept.
func (u unequal) counts(t testing.TB, d statistics, policy string, limit int64, planned func(epoch int) int64) {
	t.Helper()
	for _, e := range d.Epochs {
		due, exact := int64(unequalCount), true
		switch policy {
		case "constant":
			due = planned(int(e.Epoch))
		case "tinylfu":
			exact = false // a sample evicted while it is served counts as neither
		}
		if got := e.Kept + e.NotKept; got > due || exact && got != due || e.Hits+e.Misses != unequalCount {
			t.Errorf("%+v, of %d that were to be kept", e, due)
		}
		if limit >= unequalHuge {
			continue
		}
		// A sample that does not fit in the cache at all is read in every epoch.
		if e.Misses < int64(u.huge) || e.StorageBytes < int64(u.huge)*unequalHuge || policy != "constant" && e.NotKept < int64(u.huge) {
			t.Errorf("there are %d huge samples: %+v", u.huge, e)
		}
	}
	if policy == "static" && d.notKept() == 0 {
		t.Error("everything was kept")
	}
	// A plan may choose the largest samples; if those do not fit, hits are not guaranteed.
	if (policy == "static" || limit > u.all/2) && d.hits() == 0 {
		t.Error("nothing was hit")
	}
}
