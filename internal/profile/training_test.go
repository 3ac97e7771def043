package profile

import (
	"slices"
	"testing"
	"time"

	"github.com/batchfs/batchfs/internal/convert"
	"github.com/batchfs/batchfs/shard"
)

// TestTraining: training is never faster than the program. A mix that is fast enough for it is
// reported as such. Among these mixes, the unchanged dataset comes first, then the smallest files.
func TestTraining(t *testing.T) {
	encoded, packed, raw, mixed := convert.Shares{}, convert.Shares{Packed: 1}, convert.Shares{Raw: 1}, convert.Shares{Packed: 0.4}
	m := model{load: costs{0.001, 0.001, 0.01}, decode: costs{0.01, 0.002, 0.001}, hits: func(convert.Shares) float64 { return 0 }}
	for _, c := range []struct {
		consumer time.Duration // for a batch of 4
		smallest *convert.Shares
		single   convert.Shares
		limits   [2]Limit // of the fastest and of the best form alone
	}{
		{time.Millisecond, nil, packed, [2]Limit{Decoding, Decoding}},
		{10 * time.Millisecond, &packed, packed, [2]Limit{Consumer, Consumer}}, // 400/s
		{25 * time.Millisecond, &mixed, packed, [2]Limit{Consumer, Consumer}},  // 160/s
		{50 * time.Millisecond, &encoded, encoded, [2]Limit{Consumer, Consumer}},
	} {
		r := Result{
			Shares: packed, Encoded: Cost{Bytes: 100}, Packed: Cost{Bytes: 90}, Raw: Cost{Bytes: 400},
			Runs: []Trial{{Shares: encoded, Throughput: 99}, {Shares: packed, Throughput: 480}, {Shares: raw, Throughput: 95}, {Shares: mixed, Throughput: 161}},
		}
		if c.smallest == &mixed {
			r.Packed.Bytes = 110
		}
		one := options(t).Engine
		r.train(m, c.consumer, mostTaken(c.consumer, &one))
		got := r.Training
		if most := 4 / c.consumer.Seconds(); got.Most != Rate(most) || got.Fastest.Throughput != Rate(min(most, 480)) || got.Fastest.Shares != packed {
			t.Errorf("%v: %+v", c.consumer, got)
		}
		if limits := [2]Limit{got.Fastest.Limit, got.Single.Limit}; limits != c.limits || got.Single.Shares != c.single {
			t.Errorf("%v: %v, alone %+v", c.consumer, limits, got.Single)
		}
		if (got.Smallest == nil) != (c.smallest == nil) || got.Smallest != nil && got.Smallest.Shares != *c.smallest {
			t.Errorf("%v: smallest %+v", c.consumer, got.Smallest)
		}
	}
}

// TestSmallestThatIsEnough: the engine runs with the smallest files that should suffice, unless the
// unchanged dataset does.
func TestSmallestThatIsEnough(t *testing.T) {
	p, o := &profiler{path: path{shard.Encoded, shard.Packed, shard.Raw}, most: 1, hits: &hitTable{}}, options(t).Engine
	p.result = Result{Encoded: Cost{Bytes: 100}, Packed: Cost{Bytes: 110}, Raw: Cost{Bytes: 400}}
	m := model{load: costs{0, 0, 0}, decode: costs{0.01, 0.002, 0.001}, hits: func(convert.Shares) float64 { return 0 }}
	for _, c := range []struct {
		consumer time.Duration
		shards   int // each has a consumer
		want     []convert.Shares
	}{
		{0, 1, nil},
		{time.Minute, 1, nil},      // 0.07/s, which the dataset as it is gives
		{time.Millisecond, 1, nil}, // 4000/s, which none gives
		{40 * time.Millisecond, 1, []convert.Shares{{Packed: 0.06}}}, // 100/s
		{20 * time.Millisecond, 1, []convert.Shares{{Packed: 0.66}}}, // 200/s
		{80 * time.Millisecond, 4, []convert.Shares{{Packed: 0.66}}},
	} {
		o.Shards = c.shards
		if got := p.result.enough(m, p.pairs(100), mostTaken(c.consumer, &o)); !slices.Equal(got, c.want) {
			t.Errorf("%v, %d shards: %v, want %v", c.consumer, c.shards, got, c.want)
		}
	}
}
