package profile

import (
	"cmp"
	"slices"
	"time"

	"github.com/batchfs/batchfs/internal/convert"
	"github.com/batchfs/batchfs/internal/engine"
	"github.com/batchfs/batchfs/shard"
)

// Training says what mixes mean for programs that take Options.Consumer for each batch: training is
// as fast as the slower of the pipeline and these programs.
type Training struct {
	Step     float64 `json:"step_seconds"`      // per batch
	Most     Rate    `json:"images_per_second"` // if no batch is ever waited for
	Fastest  Fed     `json:"fastest"`           // with the Result's mix
	Single   *Fed    `json:"single_form"`       // with the best form alone; nil: the dataset already has several forms
	Smallest *Fed    `json:"smallest"`          // with the smallest files that are fast enough for Most; nil: no mix is
}

// Fed is how fast training is with a mix.
type Fed struct {
	convert.Shares
	AsItIs     bool    `json:"as_it_is"` // the dataset without any conversion
	Throughput Rate    `json:"images_per_second"`
	Limit      Limit   `json:"limit"`
	Bytes      float64 `json:"bytes"` // mean size of the files
}

// headroom is how much faster than training a mix must be by the model for the engine to run with
// it.
const headroom = 1.05

// mostTaken is how many images per second programs take at most if each batch takes them a given
// time; 0: unknown.
func mostTaken(consumer time.Duration, o *engine.Options) Rate {
	if consumer == 0 {
		return 0
	}
	return Rate(float64(o.BatchSize*o.LocalShards()) / consumer.Seconds())
}

// enough is the mix with the smallest files that should be fast enough for training. It is empty if
// no mix is, or if the first one, the unchanged dataset, is.
func (r *Result) enough(m model, mixes []convert.Shares, most Rate) []convert.Shares {
	fast := slices.DeleteFunc(slices.Clone(mixes), func(s convert.Shares) bool { return m.at(s).Throughput < headroom*most })
	if len(fast) == 0 || fast[0] == mixes[0] {
		return nil
	}
	return []convert.Shares{slices.MinFunc(fast, func(a, b convert.Shares) int { return cmp.Compare(r.fileBytes(a), r.fileBytes(b)) })}
}

// train says what training gains from the mixes that the engine ran with.
func (r *Result) train(m model, consumer time.Duration, most Rate) {
	r.Training = &Training{Step: consumer.Seconds(), Most: most}
	var fed []Fed
	for k, run := range r.Runs {
		s := convert.Shares{Raw: round(run.Raw), Packed: round(run.Packed)}
		f := Fed{s, k == 0, run.Throughput, m.at(run.Shares).Limit, r.fileBytes(run.Shares)}
		if f.Throughput >= most {
			f.Throughput, f.Limit = most, Consumer
		}
		if s == r.Shares {
			r.Training.Fastest = f
		}
		fed = append(fed, f)
	}
	// The unchanged dataset needs no conversion, so it comes before smaller files.
	slices.SortStableFunc(fed[1:], func(a, b Fed) int { return cmp.Compare(a.Bytes, b.Bytes) })
	for k := range fed {
		f := &fed[k]
		if f.Limit == Consumer && r.Training.Smallest == nil {
			r.Training.Smallest = f
		}
		alone := max(f.Of(shard.Encoded), f.Packed, f.Raw) > 1-nearby
		if alone && (r.Training.Single == nil || f.Throughput > r.Training.Single.Throughput) {
			r.Training.Single = f
		}
	}
}
