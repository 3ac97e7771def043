package main

import (
	"context"
	"fmt"
	"io"
	"math"
	"strings"

	"github.com/spf13/cobra"

	"github.com/batchfs/batchfs/dataset"
	"github.com/batchfs/batchfs/engine"
	"github.com/batchfs/batchfs/shard"
	"github.com/batchfs/batchfs/shard/keep"
)

func planCommand(c *console) *cobra.Command {
	r := &planRequest{}
	cmd := command("plan [DATASET | --samples N]", func(f *flagSet) runner {
		orderFlags(f, &r.order)
		datasetFlags(f, &r.source)
		f.group = ""
		f.derived("samples", "those of DATASET", "plan for `N` samples instead of a dataset", number(&r.order.Samples, 1, math.MaxInt64))
		f.derived("shard", "all", "the shard, `S` from 0", number(&r.shards[0], 0, math.MaxInt32))
		f.derived("epoch", "0, or 1 with --stats", "the epoch `A`, or A..B with B included",
			pair(&r.first, &r.last, "an epoch or a range of them, A..B with A at most B, as in 3 or 0..9",
				func(text string) (int, int, bool) { return parseSpan(text, "..") }))
		f.toggle(&r.stats, "stats", false, "print what a cache would do, instead of batches")
		f.derived("cache-ratio", "none, --stats needs it", "the cache holds `R` of what is read here in an epoch, 0 to 1", fraction(&r.cache.Ratio))
		localShardsFlag(f, &r.cache.LocalFrom, &r.cache.LocalTo)
		jsonFlag(f, &r.asJSON, "print JSON, one object per line")
		return func(ctx context.Context, args []string) error {
			if r.source.Workers = c.machine.cpus; len(args) > 0 {
				r.dataset = args[0]
			}
			if err := r.complete(f); err != nil {
				return err
			}
			return c.plan(ctx, *r)
		}
	})
	cmd.Args = func(cmd *cobra.Command, args []string) error {
		switch {
		case !cmd.Flags().Changed("samples"):
			return arguments("DATASET (or --samples N)")(cmd, args)
		case len(args) > 0:
			return surplus(cmd, args, usage("DATASET and --samples exclude each other: plan for one of them"))
		}
		return nil
	}
	return cmd
}

type planRequest struct {
	order       shard.Config
	dataset     string // "" if the number of samples is given
	source      dataset.Options
	shards      [2]int // first and last, inclusive
	first, last int    // epochs, inclusive
	asJSON      bool

	stats bool // of a cache, instead of batches
	cache keep.Config
}

// complete checks the flags together.
func (r *planRequest) complete(f *flagSet) error {
	for _, name := range []string{"cache-ratio", "local-shards"} {
		if f.Changed(name) && !r.stats {
			return usage("--%s is for --stats", name)
		}
	}
	switch {
	case r.stats && f.Changed("shard"):
		return usage("--shard is for batches; --stats covers all shards, or those of --local-shards")
	case r.stats && !f.Changed("cache-ratio"):
		return usage("--stats needs --cache-ratio, as in --cache-ratio 0.3")
	case r.stats && !f.Changed("epoch"):
		r.first, r.last = 1, 1 // the first epoch in which a cache helps
	}
	if r.shards[1] = r.shards[0]; !f.Changed("shard") {
		r.shards[1] = r.order.Shards - 1
	}
	if r.shards[1] >= r.order.Shards {
		return badValue("shard", fmt.Sprintf("a whole number from 0 to %d", r.order.Shards-1), f.text("shard"))
	}
	return checkLocalShards(f, r.cache.LocalTo, r.order.Shards)
}

func (c *console) plan(ctx context.Context, r planRequest) error {
	if r.dataset != "" {
		ds, err := c.openDataset(ctx, r.dataset, r.source)
		if err != nil {
			return err
		}
		defer ds.Close()
		r.order.Samples = int64(ds.Len())
		if r.order.Shuffle {
			r.order.Raw = engine.RawSamples(ds)
		}
	}
	plan, err := shard.New(r.order)
	if err != nil {
		return r.unfit(err)
	}
	if r.stats {
		return c.planStats(ctx, plan, r)
	}
	for epoch := r.first; epoch <= r.last; epoch++ {
		for s := r.shards[0]; s <= r.shards[1]; s++ {
			if ctx.Err() != nil {
				return errInterrupted
			}
			if err := show(c.out, planEpoch(plan, s, epoch), r.asJSON); err != nil {
				return err
			}
		}
	}
	return nil
}

// unfit is the error of a plan for as many samples as there are.
func (r planRequest) unfit(err error) error {
	if r.dataset == "" {
		return err
	}
	return unfit(r.dataset, err)
}

// epochPlan is one line of plan --json.
type epochPlan struct {
	Shard   int         `json:"shard"`
	Epoch   int         `json:"epoch"`
	Batches []batchPlan `json:"batches"`
}

type batchPlan struct {
	Batch     int     `json:"batch"`
	Positions []int64 `json:"positions"`
	IDs       []int64 `json:"ids"`
	Valid     int     `json:"valid"`
}

func planEpoch(plan *shard.Plan, s, epoch int) epochPlan {
	e := epochPlan{Shard: s, Epoch: epoch, Batches: make([]batchPlan, plan.Batches(s, epoch))}
	var slots []shard.Slot
	for i := range e.Batches {
		var valid int
		slots, valid = plan.Batch(s, epoch, i, slots[:0])
		b := batchPlan{Batch: i, Positions: make([]int64, len(slots)), IDs: make([]int64, len(slots)), Valid: valid}
		for j, slot := range slots {
			b.Positions[j], b.IDs[j] = slot.Position, slot.ID
		}
		e.Batches[i] = b
	}
	return e
}

// print writes an epoch for people: one line per batch, long lines cut short.
func (e epochPlan) print(out io.Writer) {
	fmt.Fprintf(out, "shard %d, epoch %d: %s\n", e.Shard, e.Epoch, count(len(e.Batches), "batch"))
	for _, b := range e.Batches {
		fmt.Fprintf(out, "  batch %5d  %4d valid of %4d  samples %s\n", b.Batch, b.Valid, len(b.IDs), firstFew(b.IDs))
	}
}

func firstFew(ids []int64) string {
	const few = 10
	words := strings.Trim(fmt.Sprint(ids[:min(few, len(ids))]), "[]")
	if len(ids) > few {
		words += " ..."
	}
	return words
}
