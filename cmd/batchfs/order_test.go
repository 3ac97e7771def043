package main

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/batchfs/batchfs/internal/profile"
	"github.com/batchfs/batchfs/shard"
)

// TestOrderFlags checks what the flags of order mean.
func TestOrderFlags(t *testing.T) {
	const steps = "--partition elastic --global-batch 24 --world-size 6 "
	padded := shard.Config{Shards: 1, BatchSize: 32, PadLastBatch: true}
	elastic := shard.Config{Shards: 6, BatchSize: 4, PadLastBatch: true, Partition: shard.Elastic}
	for flags, change := range map[string]func(c *shard.Config){
		"--shuffle=window=16":                               func(c *shard.Config) { *c = padded; c.Shuffle, c.Window = true, 16 },
		"-o shuffle=window=3":                               func(c *shard.Config) { *c = padded; c.Shuffle, c.Window = true, 3 },
		"--shuffle=true":                                    func(c *shard.Config) { *c = padded; c.Shuffle = true },
		"--shuffle --shuffle=0":                             func(c *shard.Config) { *c = padded },
		"--shuffle=window=3 -o shuffle":                     func(c *shard.Config) { *c = padded; c.Shuffle = true },
		steps:                                               func(c *shard.Config) { *c = elastic },
		steps + "--placement position":                      func(c *shard.Config) { *c = elastic },
		steps + "--shuffle --placement local":               func(c *shard.Config) { *c = elastic; c.Shuffle, c.Partition = true, shard.Local },
		steps + "-o shuffle,placement=local,nodes=3":        func(c *shard.Config) { *c = elastic; c.Shuffle, c.Partition, c.Nodes = true, shard.Local, 3 },
		steps + "--rank 5 --last-batch drop --shuffle=true": func(c *shard.Config) { *c = elastic; c.Shuffle, c.LastBatch = true, shard.Drop },
	} {
		r, err := requested(t, append(strings.Fields(flags), "photos", "mnt")...)
		if err != nil {
			t.Errorf("%s: %v", flags, err)
			continue
		}
		var want shard.Config
		change(&want)
		if got := r.engine.Config; !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %+v, want %+v", flags, got, want)
		}
		if rank := strings.Contains(flags, "--rank"); r.tree.OnlyLocal != rank || rank && (r.engine.LocalFrom != 5 || r.engine.LocalTo != 6) {
			t.Errorf("%s: shards %d to %d, only these: %v", flags, r.engine.LocalFrom, r.engine.LocalTo, r.tree.OnlyLocal)
		}
		if setting := r.settings["flags"].(map[string]any)["shuffle"]; setting != want.Shuffle && want.Window == 0 {
			t.Errorf("%s: config.json says %v", flags, setting)
		}
	}
}

// TestWindowIsAValue: window=W may follow --shuffle like the value of any other flag, but no other
// argument may.
func TestWindowIsAValue(t *testing.T) {
	for words, want := range map[string]string{
		"plan --shuffle window=4 data":      "plan --shuffle=window=4 -- data",
		"plan -shuffle window=4 data":       "plan --shuffle=window=4 -- data",
		"plan --shuffle data window=4":      "plan --shuffle -- data window=4",
		"plan window=4 --shuffle":           "plan --shuffle -- window=4",
		"plan -- --shuffle window=4":        "plan -- --shuffle window=4",
		"plan --shuffle window=4 window=5":  "plan --shuffle=window=4 -- window=5",
		"plan --seed 3 --shuffle window=64": "plan --seed=3 --shuffle=window=64 --",
	} {
		_, got, err := choose(newApp(&console{}, true), strings.Fields(words))
		if err != nil || !slices.Equal(got[1:], strings.Fields(want)) {
			t.Errorf("%s: %q, %v", words, got, err)
		}
	}
	const plan = "plan --samples 4000 --json "
	a, b := batchfs(t, strings.Fields(plan+"-shuffle window=2")...), batchfs(t, strings.Fields(plan+"--shuffle=window=2")...)
	if a.status != statusDone || a.out != b.out || a.out == batchfs(t, strings.Fields(plan+"--shuffle")...).out {
		t.Errorf("status %d, %s", a.status, a.err)
	}
}

// cacheStats runs plan --stats.
func cacheStats(t *testing.T, flags string, args ...string) profile.DryRunStats {
	t.Helper()
	got := batchfs(t, append(append([]string{"plan", "--stats", "--json"}, strings.Fields(flags)...), args...)...)
	var s profile.DryRunStats
	if err := json.Unmarshal([]byte(got.out), &s); err != nil || got.status != statusDone || got.err != "" || s.PeakBytes > 64<<20 {
		t.Fatalf("%s: status %d, %v: %s%s", flags, got.status, err, got.out, got.err)
	}
	return s
}

// The formulas are for a batch of 64 that is drawn from W blocks, and for a node's 32 samples in a
// step.
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
	if s.HitsPerBatch != (profile.Bounds{Min: 16, Max: 16}) || s.Read != 512 || s.LocalShards != [2]int{3, 3} || s.Candidates.Min < 430 {
		t.Errorf("%+v", s)
	}
}
