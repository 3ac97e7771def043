package main

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/batchfs/batchfs/internal/catalog"
)

// cacheStats runs plan --stats.
func cacheStats(t *testing.T, flags string, args ...string) catalog.DryRunStats {
	t.Helper()
	got := batchfs(t, append(append([]string{"plan", "--stats", "--json"}, strings.Fields(flags)...), args...)...)
	var s catalog.DryRunStats
	if err := json.Unmarshal([]byte(got.out), &s); err != nil || got.status != statusDone || got.err != "" {
		t.Fatalf("%s: status %d, %v: %s%s", flags, got.status, err, got.out, got.err)
	}
	return s
}

func TestPlanStats(t *testing.T) {
	const plan = "--samples 10000 --shards 4 --batch-size 50 --shuffle --cache-ratio 0.3 "
	for _, test := range []struct {
		flags            string
		hits, kept       catalog.Bounds
		read, candidates int64 // -1: any number
	}{
		{"", catalog.Bounds{Min: 15, Max: 15}, catalog.Bounds{Min: 15, Max: 15}, 10_000, 10_000},
		{"--shuffle=false", catalog.Bounds{Min: 15, Max: 15}, catalog.Bounds{Min: 15, Max: 15}, 10_000, 10_000},
		{"--epoch 7..9 --seed 3", catalog.Bounds{Min: 15, Max: 15}, catalog.Bounds{Min: 15, Max: 15}, 10_000, 10_000},
		{"--batch-size 64", catalog.Bounds{Min: 19, Max: 20}, catalog.Bounds{Min: 19, Max: 20}, 10_000, 10_000},
		{"--batch-size 64 --last-batch drop", catalog.Bounds{Min: 19, Max: 20}, catalog.Bounds{Min: 19, Max: 20}, 4 * 39 * 64, -1},
		{"--epoch 0", catalog.Bounds{}, catalog.Bounds{Min: 15, Max: 15}, 10_000, 10_000},
		{"--epoch 0..1", catalog.Bounds{Min: 0, Max: 15}, catalog.Bounds{Min: 15, Max: 15}, 10_000, 10_000},
		{"--local-shards 1-2 --cache-ratio 0.1", catalog.Bounds{Min: 5, Max: 5}, catalog.Bounds{Min: 5, Max: 5}, 5000, -1},
		{"--local-shards 0", catalog.Bounds{Min: 5, Max: 15}, catalog.Bounds{Min: 5, Max: 15}, 2500, -1},
		{"--cache-ratio 1", catalog.Bounds{Min: 50, Max: 50}, catalog.Bounds{Min: 50, Max: 50}, 10_000, 10_000},
		{"--cache-ratio 0", catalog.Bounds{}, catalog.Bounds{}, 10_000, 10_000},
		{"--cache-ratio 3/10", catalog.Bounds{Min: 15, Max: 15}, catalog.Bounds{Min: 15, Max: 15}, 10_000, 10_000},
		{"--batch-size 5000", catalog.Bounds{}, catalog.Bounds{}, 10_000, 10_000}, // no batch is full
	} {
		s := cacheStats(t, plan+test.flags)
		if test.flags == "--local-shards 0" { // limited by the samples read again, and therefore not even
			if s.HitsPerBatch.Min < 1 || s.HitsPerBatch.Max > 15 || s.Candidates.Max > 800 {
				t.Errorf("%s: %+v", test.flags, s)
			}
			continue
		}
		if s.HitsPerBatch != test.hits || s.KeptPerBatch != test.kept || s.Read != test.read ||
			test.candidates >= 0 && s.Candidates != (catalog.Bounds{Min: test.candidates, Max: test.candidates}) {
			t.Errorf("%s: %+v", test.flags, s)
		}
		if s.Samples != 10_000 || s.Shards != 4 || s.RawPerBatch != (catalog.Bounds{}) || s.PeakBytes < 1250 || s.PeakBytes > 64<<20 || s.Seconds <= 0 {
			t.Errorf("%s: %+v", test.flags, s)
		}
		held := int64(s.CacheRatio * float64(s.Read))
		cold := strings.Contains(test.flags, "--epoch 0")
		if s.Occupancy.Max > held+2 || s.Occupancy.Min < held-2 && !cold {
			t.Errorf("%s: holds %v, want about %d", test.flags, s.Occupancy, held)
		}
	}
}

// The formulas are those of a batch of 64 that is drawn from W blocks, and of a node's 32 samples
// in a step.
func TestPlanStatsOfOrders(t *testing.T) {
	for w, want := range map[int]float64{4: 1 + 63.0/4, 16: 1 + 63.0/16, 1000: 1} {
		s := cacheStats(t, fmt.Sprintf("--samples 200000 --batch-size 64 --shuffle=window=%d", w))
		q := s.Shuffle
		if q == nil || s.Placement != nil || q.Blocks != 196 || q.Window != w {
			t.Fatalf("window %d: %+v", w, s)
		}
		if got := q.LabelVariance; got.Measured < 0.93*want || got.Measured > 1.03*want || got.Full < 0.98 || got.Full > 1.02 {
			t.Errorf("window %d: label variance %+v, want %.2f", w, got, want)
		}
	}
	s := cacheStats(t, "--samples 40960 --partition elastic --global-batch 256 --world-size 16 --nodes 8 --shuffle --placement local")
	if p := s.Placement; p == nil || s.Shuffle != nil || p.Nodes != 8 || s.Read != 40960 || p.Expected < 0.0659 || p.Expected > 0.0661 ||
		p.Fetched < 0.9*p.Expected || p.Fetched > 1.1*p.Expected {
		t.Errorf("%+v: %+v", s, p)
	}
	s = cacheStats(t, "--samples 4096 --partition elastic --global-batch 256 --world-size 8 --shuffle --placement local --rank 3 --cache-ratio 0.5")
	if s.HitsPerBatch != (catalog.Bounds{Min: 16, Max: 16}) || s.Read != 512 || s.LocalShards != [2]int{3, 3} || s.Candidates.Min < 430 {
		t.Errorf("%+v", s)
	}
}

// The keys are those of the documented JSON.
func TestPlanStatsDocument(t *testing.T) {
	got := batchfs(t, "plan", "--samples", "100", "--cache-ratio", "0.5", "--stats", "--json")
	const want = `{"samples":100,"shards":1,"batch_size":32,"cache_ratio":0.5,"hits_per_batch":{"min":16,"max":16},` +
		`"kept_per_batch":{"min":16,"max":16},"occupancy":{"min":50,"max":50},"raw_per_batch":{"min":0,"max":0},"seconds":`
	if !strings.HasPrefix(got.out, want) || !strings.Contains(got.out, `,"peak_bytes":`) || strings.Contains(got.out, "placement") || strings.Contains(got.out, "shuffle") || strings.Count(got.out, "\n") != 1 {
		t.Errorf("prints %s", got.out)
	}
	got = batchfs(t, "plan", "--samples", "100", "--cache-ratio", "0.5", "--stats")
	if want := "cache                0.5 of the 100 samples read here in an epoch\nhits per full batch  16 of 32\n"; !strings.HasPrefix(got.out, want) {
		t.Errorf("prints %s", got.out)
	}
}

// Raw samples are known only from a dataset. Without a shuffle, they are where they are; with one,
// every batch has its share.
func TestPlanStatsOfADataset(t *testing.T) {
	data := photos(t, 4)
	for i := range 8 {
		picture := append([]byte("P6\n5 3\n255\n"), make([]byte, 5*3*3)...)
		save(t, filepath.Join(data, "a", fmt.Sprintf("%d.ppm", i)), picture)
	}
	for flags, want := range map[string]catalog.Bounds{
		"--shuffle --cache-ratio 0.5":                  {Min: 2, Max: 2},
		"--shuffle window=9":                           {Min: 2, Max: 2}, // a window of all samples
		"--shuffle=false --cache-ratio 0.5":            {Min: 0, Max: 4},
		"--shuffle=false --cache-ratio 0 --epoch 0..3": {Min: 0, Max: 4},
	} {
		s := cacheStats(t, "--batch-size 4 "+flags, data)
		if s.Samples != 16 || s.RawPerBatch != want || s.CacheRatio > 0 && s.HitsPerBatch != (catalog.Bounds{Min: 2, Max: 2}) {
			t.Errorf("%s: %+v", flags, s)
		}
	}
	local := cacheStats(t, "--partition elastic --global-batch 8 --world-size 2 --shuffle --placement local", data)
	if local.RawPerBatch != (catalog.Bounds{Min: 2, Max: 2}) {
		t.Errorf("local placement: %+v", local)
	}
	got := batchfs(t, "plan", "--stats", "--shuffle", "--batch-size", "4", "--cache-ratio", "0.5", data)
	if !strings.Contains(got.out, "raw per full batch   2 of 4\n") {
		t.Errorf("prints %s", got.out)
	}
}

func TestPlanStatsWrongUsage(t *testing.T) {
	for flags, want := range map[string]string{
		"--stats":                                         "--stats needs --cache-ratio, as in --cache-ratio 0.3, or --shuffle window=W, or --placement local",
		"--stats --cache-ratio 1.5":                       `--cache-ratio must be a number from 0 to 1, but is "1.5"`,
		"--stats --cache-ratio -0.5":                      `--cache-ratio must be a number from 0 to 1, but is "-0.5"`,
		"--stats --cache-ratio NaN":                       `--cache-ratio must be a number from 0 to 1, but is "NaN"`,
		"--cache-ratio 0.5":                               "--cache-ratio is for --stats",
		"--local-shards 0":                                "--local-shards is for --stats",
		"--stats --cache-ratio 0.5 --shard 0":             "--shard is for batches",
		"--stats --cache-ratio 0.5 --local-shards 1":      `--local-shards must be the first and the last of shards 0 to 0`,
		"--stats --cache-ratio 0.5 --epoch 3..1":          `--epoch must be an epoch or a range of them`,
		"--stats --cache-ratio 0.5 --epoch 67108863":      `--epoch must be from 0 to 67108862, but is "67108863"`,
		"--stats --cache-ratio 0.5 --samples 68719476736": `--samples must be at most 536870912 to plan what is kept`,
	} {
		refuses(t, want, append([]string{"plan", "--samples", "100"}, strings.Fields(flags)...)...)
	}
}
