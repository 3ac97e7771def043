package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/batchfs/batchfs/internal/annotation"
	"github.com/batchfs/batchfs/internal/dataset"
	"github.com/batchfs/batchfs/internal/option"
	"github.com/batchfs/batchfs/internal/profile"
	"github.com/batchfs/batchfs/shard"
)

func planCommand(c *console) *cli.Command {
	r := &planRequest{console: c}
	return command("plan [DATASET | --samples N]", func(f *flagSet) runner {
		f.check(func() error { return r.choose(f) })
		orderFlags(f, &r.order)
		datasetFlags(f, &r.source)
		annotationFlags(f, &r.find, &r.source)
		f.group = ""
		f.derived("samples", "those of DATASET", "plan for `N` samples instead of a dataset", number(&r.order.Samples, 1, math.MaxInt64))
		f.derived("shard", "all", "the shard, `S` from 0", number(&r.shards[0], 0, math.MaxInt32))
		f.derived("epoch", "0, or 1 with --stats", "the epoch `A`, or A..B with B included",
			pair(&r.options.First, &r.options.Last, "an epoch or a range of them, A..B with A at most B, as in 3 or 0..9",
				func(text string) (int, int, bool) { return parseSpan(text, "..") }))
		f.toggle(&r.stats, "stats", false, "print what a cache would do, what local placement has to fetch, or how well a window mixes, instead of batches")
		f.derived("cache-ratio", "none", "the cache holds `R` of what is read here in an epoch, 0 to 1", fraction(&r.options.Ratio))
		localShardsFlag(f, &r.options.LocalFrom, &r.options.LocalTo)
		rankFlag(f, &r.options.LocalFrom, &r.options.LocalTo)
		jsonFlag(c, f, "print JSON, one object per line")
		f.check(func() error { return r.complete(f) })
		return func(ctx context.Context, _ []string) error {
			r.source.Workers = c.machine.cpus
			err := r.plan(ctx)
			if _, bad := errors.AsType[*option.Error](err); bad && r.dataset != "" {
				return unfit(r.dataset, err)
			}
			return err
		}
	})
}

type planRequest struct {
	*console
	order   shard.Config
	dataset string // "" if the number of samples is given
	source  dataset.Options
	find    annotation.Options
	shards  [2]int // first and last, inclusive
	stats   bool   // instead of batches
	options profile.DryRunOptions
}

// choose finds out what to plan for.
func (r *planRequest) choose(f *flagSet) error {
	switch {
	case !f.Changed("samples"):
		if err := f.arguments("plan", f.args, "DATASET (or --samples N)"); err != nil {
			return err
		}
		r.dataset = f.args[0]
	case len(f.args) > 0:
		return f.surplus(f.args, usage("DATASET and --samples exclude each other: plan for one of them"))
	}
	return nil
}

// complete checks the flags together.
func (r *planRequest) complete(f *flagSet) error {
	for _, name := range []string{"cache-ratio", "local-shards"} {
		if f.Changed(name) && !r.stats {
			return usage("--%s is for --stats", name)
		}
	}
	r.options.Cached = f.Changed("cache-ratio")
	switch {
	case r.stats && f.Changed("shard"):
		return usage("--shard is for batches; --stats covers all shards, or those of --local-shards")
	case r.stats && !r.options.Cached && r.order.Window == 0 && r.order.Partition != shard.Local:
		return usage("--stats needs --cache-ratio, as in --cache-ratio 0.3, or --shuffle window=W, or --placement local")
	case r.stats && !f.Changed("epoch"):
		r.options.First, r.options.Last = 1, 1 // the first epoch in which a cache helps
	}
	switch {
	case f.Changed("shard"):
		r.shards[1] = r.shards[0]
	case f.Changed("rank"):
		r.shards = [2]int{r.options.LocalFrom, r.options.LocalFrom}
	default:
		r.shards[1] = r.order.Shards - 1
	}
	if err := checkLocalShards(f, r.options.LocalTo, r.order.Shards); err != nil {
		return err
	}
	if r.shards[1] >= r.order.Shards {
		return badValue("shard", fmt.Sprintf("below --shards, %d", r.order.Shards), f.text("shard"))
	}
	return nil
}

func (r *planRequest) plan(ctx context.Context) error {
	var ds *dataset.Dataset // nil: as many samples as r.order says
	if r.dataset != "" {
		a, err := r.openAsked(ctx, r.dataset, r.source, r.find)
		if err != nil {
			return err
		}
		defer a.Close()
		ds = a.Images
	}
	order, err := profile.NewDryRun(ds, r.order)
	if err != nil {
		return err
	}
	if r.stats {
		stats, err := order.Stats(ctx, r.options)
		if err != nil {
			return err
		}
		return r.show(planStats{stats})
	}
	for epoch := r.options.First; epoch <= r.options.Last; epoch++ {
		for s := r.shards[0]; s <= r.shards[1]; s++ {
			if err := ctx.Err(); err != nil {
				return err
			}
			if err := r.show(epochPlan{order.Epoch(s, epoch)}); err != nil {
				return err
			}
		}
	}
	return nil
}

// epochPlan is one line of plan --json.
type epochPlan struct{ profile.EpochBatches }

// print writes an epoch for people: one line per batch, long lines cut short.
func (e epochPlan) print(out io.Writer) {
	const few = 10
	fmt.Fprintf(out, "shard %d, epoch %d: %s\n", e.Shard, e.Epoch, count(len(e.Batches), "batch"))
	for _, b := range e.Batches {
		words, more := strings.Trim(fmt.Sprint(b.IDs[:min(few, len(b.IDs))]), "[]"), ""
		if len(b.IDs) > few {
			more = " ..."
		}
		fmt.Fprintf(out, "  batch %5d  %4d valid of %4d  samples %s%s\n", b.Batch, b.Valid, len(b.IDs), words, more)
	}
}

// planStats is the output of plan --stats.
type planStats struct{ *profile.DryRunStats }

func (s planStats) print(out io.Writer) {
	t := newTable(out)
	defer t.Flush()
	if p := s.Placement; p != nil {
		t.row("fetched", "%.2f %% of %s, from the %d nodes that own them; expected %.2f %%", 100*p.Fetched, count(s.Read, "sample"), p.Nodes, 100*p.Expected)
	}
	if q := s.Shuffle; q != nil {
		t.row("window", "%d of %s; in brackets: a shuffle of all samples", q.Window, count(q.Blocks, "block"))
		t.row("label variance", "%.2f (%.2f) times that of independent draws, if each block has a label of its own", q.LabelVariance.Measured, q.LabelVariance.Full)
	}
	if s.RawPerBatch.Known {
		t.row("raw per full batch", "%v of %d", s.RawPerBatch, s.BatchSize)
	}
	if s.PackedPerBatch.Known {
		t.row("packed per full batch", "%v of %d", s.PackedPerBatch, s.BatchSize)
	}
	if s.Seconds == 0 { // no cache was simulated
		return
	}
	t.row("cache", "%v of the %s read here in an epoch", s.CacheRatio, count(s.Read, "sample"))
	t.row("hits per full batch", "%v of %d", s.HitsPerBatch, s.BatchSize)
	t.row("kept per full batch", "%v", s.KeptPerBatch)
	t.row("held at a time", "%v", s.Occupancy)
	t.row("kept in all", "%v of %v that are read again", s.KeptEachEpoch, s.Candidates)
	t.row("form", "encoded or packed, as a mount measures what is faster (--cache-form)")
	t.row("planned in", "%.3f s, with %s", s.Seconds, formatBytes(s.PeakBytes))
}
