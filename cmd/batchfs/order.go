package main

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/batchfs/batchfs/shard"
)

// This file has the flags that decide which samples are in a batch, and which shards are read.

// orderFlags decide which samples are in a batch.
func orderFlags(f *flagSet, o *shard.Config) {
	var global int64 // samples in a step of all ranks
	var local bool   // use local placement for the steps
	f.group = aboutOrder
	f.add("batch-size", "32", "`N` samples per batch",
		number(&o.BatchSize, 1, maxCount)).everyday().value = field(&o.BatchSize)
	f.add("shards", "1", "divide the dataset into `K` parts, one for each training process",
		number(&o.Shards, 1, math.MaxInt32)).everyday().value = field(&o.Shards)
	f.switchable("shuffle", "read in pseudo-random order, a new one in each epoch; window=W mixes W archives, or blocks of "+
		strconv.Itoa(shard.BlockSamples)+" samples at a time", shuffle(o)).everyday()
	f.add("seed", "0", "derive the order and all random choices from `N`", seed(&o.Seed)).everyday()
	f.add("last-batch", "fill", "an incomplete last batch: `fill|partial|drop`",
		named(&o.LastBatch)).everyday()
	f.toggle(&o.PadLastBatch, "pad-last-batch", true, "repeat a shard's last sample until all shards have equally many batches; false, as in DALI: read on into the next epoch, so that an epoch may have samples twice, and lack others")
	f.toggle(&o.StickToShard, "stick-to-shard", false, "a shard reads the same part in every epoch, instead of the next one")
	f.add("partition", "ranges", "`ranges|elastic`: a shard reads a part of the epoch, or of each step, which has the same samples for every world size",
		pick(&o.Partition, "ranges|elastic", shard.Ranges, shard.Elastic))
	f.derived("global-batch", "none", "a step of all ranks has `B` samples; elastic needs it", number(&global, 1, shard.MaxBatchSize))
	f.derived("world-size", "none", "`K` ranks divide a step, each with a shard; elastic needs it", number(&o.Shards, 1, math.MaxInt32))
	f.add("placement", "position", "`position|local`: ranks get a step's samples in order, or every node those that it owns first",
		pick(&local, "position|local", false, true))
	f.derived("nodes", "one for each rank", "with local, `N` nodes have equally many ranks each", number(&o.Nodes, 1, math.MaxInt32))
	f.check(func() error { return completeSteps(f, o, global, local) })
}

// shuffle accepts true, false, and the size of a window.
func shuffle(o *shard.Config) parser {
	return func(text string) string {
		on, err := strconv.ParseBool(text)
		blocks, isWindow := strings.CutPrefix(text, "window=")
		switch {
		case err == nil:
			o.Shuffle, o.Window = on, 0
			return ""
		case isWindow && number(&o.Window, 1, math.MaxInt32)(blocks) == "":
			o.Shuffle = true
			return ""
		}
		return "true, false, or window=W with W at least 1, as in window=16"
	}
}

// completeSteps checks the flags of a partition together, so that none is silently ignored.
func completeSteps(f *flagSet, o *shard.Config, global int64, local bool) error {
	wrong, advice := []string{"shards", "batch-size", "stick-to-shard"}, "ranges; elastic has --world-size and --global-batch"
	elastic, world := o.Partition != shard.Ranges, o.Shards
	if !elastic {
		wrong, advice = []string{"global-batch", "world-size", "placement", "nodes", "rank"}, "elastic"
	}
	if i := slices.IndexFunc(wrong, f.Changed); i >= 0 {
		err := usage("--%s is for --partition %s", wrong[i], advice)
		if ours := otherWords[normalized(wrong[i])]; !elastic && ours != "" {
			return hint(err, "%s", ours)
		}
		return err
	}
	switch {
	case !elastic:
		return nil
	case global == 0 || !f.Changed("world-size"):
		return usage("--partition elastic needs --global-batch and --world-size, as in --global-batch 1024 --world-size 8")
	case !o.PadLastBatch:
		return usage("--pad-last-batch=false is for --partition ranges: a step never reads on into the next epoch")
	case global%int64(world) != 0:
		return badValue("world-size", fmt.Sprintf("a divisor of --global-batch %d, so that all ranks get equally many samples, such as %d",
			global, divisor(global, world)), f.text("world-size"))
	case global/int64(world) > maxCount:
		return badValue("global-batch", fmt.Sprintf("at most %d for each rank", maxCount), f.text("global-batch"))
	case o.Nodes > 0 && !local:
		return usage("--nodes is for --placement local")
	case o.Nodes > 0 && world%o.Nodes != 0:
		return badValue("nodes", fmt.Sprintf("a divisor of --world-size %d, so that all nodes have equally many ranks", world), f.text("nodes"))
	case local && (!o.Shuffle || o.Window > 0):
		return usage("--placement local needs --shuffle: in order, or in a window, a step has the samples of a few nodes only")
	}
	o.BatchSize = int(global) / world
	if local {
		o.Partition = shard.Local
	}
	return nil
}

// divisor is the largest world size below the given one that divides the global batch.
func divisor(global int64, world int) int64 {
	n := min(int64(world), global)
	for global%n != 0 {
		n--
	}
	return n
}

// localShardsFlag reads A-B, inclusive, or one shard. 0, 0 means all; checkLocalShards knows
// how many there are.
func localShardsFlag(f *flagSet, from, to *int) {
	f.derived("local-shards", "all", "this machine reads shards `A-B`; its cache keeps what they will read again",
		pair(from, to, "the first and the last shard, as in 0-3", func(text string) (int, int, bool) {
			first, last, ok := parseSpan(text, "-")
			return first, last + 1, ok
		}))
}

// rankFlag is for partitions with steps. It means the same as --local-shards with one shard.
func rankFlag(f *flagSet, from, to *int) {
	f.derived("rank", "all", "with elastic, this is for rank `R` alone, from 0, which reads shard R",
		pair(from, to, "a whole number, at least 0", func(text string) (int, int, bool) {
			rank, err := strconv.Atoi(text)
			return rank, rank + 1, err == nil && rank >= 0 && rank < math.MaxInt32
		}))
}

func checkLocalShards(f *flagSet, to, shards int) error {
	switch {
	case f.Changed("rank") && f.Changed("local-shards"):
		return usage("--rank and --local-shards exclude each other: both say which shards are read here")
	case f.Changed("rank") && to > shards:
		return badValue("rank", fmt.Sprintf("below --world-size, which is %d", shards), f.text("rank"))
	case to > shards:
		return badValue("local-shards", fmt.Sprintf("the first and the last of shards 0 to %d", shards-1), f.text("local-shards"))
	}
	return nil
}
