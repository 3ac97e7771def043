package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"math"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/batchfs/batchfs/engine"
	"github.com/batchfs/batchfs/shard"
	"github.com/batchfs/batchfs/shard/keep"
)

func planCommand(c *console) *cli.Command {
	return command(cli.Command{
		Name:      "plan",
		Usage:     "print which samples are in which batch, or what a cache would do",
		ArgsUsage: "[DATASET | --samples N]",
		Description: "Prints the batches of a shard in an epoch, or in a range of epochs, without reading any image. With --json,\n" +
			"one object a line for each epoch.\n\n" +
			"With --stats it prints what a cache would do that holds a part of the samples: how often each batch finds a\n" +
			"sample in it, how many each batch leaves there for the next epoch, how many it holds at a time, and what it\n" +
			"takes to plan that. It looks at epoch 1, unless --epoch says otherwise; epoch 0 starts with nothing.",
		Flags: join(orderFlags(), datasetFlags(), []cli.Flag{
			derivedSetting("", "samples", "those of DATASET", "plan for `N` samples instead of a dataset"),
			derivedSetting("", "shard", "all", "the shard, `S` from 0"),
			derivedSetting("", "epoch", "0; with --stats 1", "the epoch, `A` or A..B with B included"),
			switchFlag("", "stats", false, "print what a cache would do, instead of batches"),
			derivedSetting("", "cache-ratio", "needed by --stats", "a cache that holds `R` of what is read here in an epoch, 0 to 1"),
			localShardsFlag(""),
			jsonFlag("print JSON, one object a line"),
		}),
		Action: func(ctx *cli.Context) error {
			r, err := c.planRequest(ctx)
			if err != nil {
				return err
			}
			return c.plan(ctx.Context, r)
		},
	}, "batchfs plan --samples 1000 --batch-size 32 --shards 4 --shuffle --seed 7 --shard 3 --epoch 0..2 --json\n"+
		"   batchfs plan photos/ --batch-size 256 --shards 8 --shuffle --cache-ratio 0.3 --stats")
}

type planRequest struct {
	order       shard.Config
	dataset     string // "" if the number of samples is given
	source      datasetOptions
	shards      [2]int // first and last, inclusive
	first, last int    // epochs, inclusive
	asJSON      bool

	stats bool // of a cache, instead of batches
	cache keep.Config
}

func (c *console) planRequest(ctx *cli.Context) (planRequest, error) {
	v := &flagValues{flags: ctx}
	r := planRequest{order: v.orderOptions(), asJSON: v.on("json")}
	if v.given("samples") {
		if v.flags.NArg() > 0 {
			v.refuse(&usageError{surplus: true, message: "DATASET and --samples exclude each other: plan for one of them"})
		}
		r.order.Samples = v.number("samples", 1, math.MaxInt64)
	} else {
		r.dataset = v.arguments("DATASET (or --samples N)")[0]
	}
	r.source = v.datasetOptions(c.machine.cpus, discardLog())
	v.planShards(&r)
	v.planEpochs(&r)
	v.planStats(&r)
	return r, v.err
}

func (v *flagValues) planShards(r *planRequest) {
	r.shards[1] = r.order.Shards - 1
	if v.given("shard") {
		s := int(v.number("shard", 0, int64(r.order.Shards-1)))
		r.shards = [2]int{s, s}
	}
}

func (v *flagValues) planEpochs(r *planRequest) {
	text := v.text("epoch")
	if !v.given("epoch") {
		text = "0"
		if v.on("stats") {
			text = "1" // the first epoch in which a cache helps
		}
	}
	var err error
	if r.first, r.last, err = parseSpan(text); err != nil {
		v.refuse(badValue("epoch", "an epoch or a range of them, A..B with A at most B, as in 3 or 0..9", text))
	}
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
		return optionError(r.dataset, err)
	}
	if r.stats {
		return c.planStats(ctx, plan, r)
	}
	out := bufio.NewWriter(c.out)
	for epoch := r.first; epoch <= r.last; epoch++ {
		for s := r.shards[0]; s <= r.shards[1]; s++ {
			if ctx.Err() != nil {
				return errInterrupted
			}
			if err := show(out, planEpoch(plan, s, epoch), r.asJSON); err != nil {
				return err
			}
		}
	}
	return out.Flush()
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
func (e epochPlan) print(out io.Writer) error {
	if _, err := fmt.Fprintf(out, "shard %d, epoch %d: %s\n", e.Shard, e.Epoch, count(len(e.Batches), "batch")); err != nil {
		return err
	}
	for _, b := range e.Batches {
		if _, err := fmt.Fprintf(out, "  batch %5d  %4d valid of %4d  samples %s\n", b.Batch, b.Valid, len(b.IDs), firstFew(b.IDs)); err != nil {
			return err
		}
	}
	return nil
}

func firstFew(ids []int64) string {
	const few = 10
	words := make([]string, 0, few+1)
	for i, id := range ids {
		if i == few {
			words = append(words, "...")
			break
		}
		words = append(words, fmt.Sprint(id))
	}
	return strings.Join(words, " ")
}
