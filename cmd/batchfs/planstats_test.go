package main

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/batchfs/batchfs/internal/profile"
)

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
