package shard

import (
	"cmp"
	"fmt"
	"strconv"

	"github.com/batchfs/batchfs/internal/option"
)

// Limits of a plan, so that no offset overflows. The index alone of a dataset this large would take
// terabytes.
const (
	maxSamples   = 1 << 36   // samples in a dataset
	MaxBatchSize = 1<<31 - 1 // samples in a batch
	MaxEpochs    = 1 << 26   // epochs with batches
)

// Config is everything a plan depends on.
type Config struct {
	Samples   int64 // in the dataset
	Shards    int   // at most the number of samples
	BatchSize int   // samples of one shard

	Shuffle bool
	Seed    uint64 // of the shuffle; ignored without Shuffle
	Window  int    // how many blocks a shuffle mixes at a time; 0: the whole dataset

	// Blocks are the sizes, in samples, of what is stored together, such as the archives of a
	// dataset, in the order of the ids. nil: Window uses blocks of BlockSamples, and nodes own
	// single samples.
	Blocks []int64

	Partition Partition
	Nodes     int // with Local: machines, each with the same number of consecutive shards; 0: one per shard

	StickToShard bool // a shard reads the same range in every epoch
	PadLastBatch bool // repeat a range's last sample, so that every epoch starts with a new batch
	LastBatch    LastBatch

	// Costs says what the samples cost, for a shuffle that gives every batch the same mix. nil: all
	// cost the same.
	Costs *Costs
}

// BlockSamples is the block size for a dataset without Blocks.
const BlockSamples = 1024

// Partition says which positions of an epoch a shard gets.
type Partition uint8

const (
	// Ranges gives a shard a range of consecutive positions.
	Ranges Partition = iota
	// Elastic gives a shard a part of every Shards·BatchSize consecutive positions. Such a step has
	// the same samples for any number of shards.
	Elastic
	// Local has the steps of Elastic, but every node first takes the samples it owns.
	Local
)

// LastBatch says what happens to a batch that a range cannot fill.
type LastBatch uint8

const (
	// Fill completes it: with repeated samples in a padded plan, with samples of the next range in
	// an unpadded one.
	Fill LastBatch = iota
	// Partial keeps it short, even empty.
	Partial
	// Drop leaves it out.
	Drop
)

var lastBatches = []string{Fill: "fill", Partial: "partial", Drop: "drop"}

// String is the option's value on the command line.
func (l LastBatch) String() string { return lastBatches[l] }

// Set implements [flag.Value].
func (l *LastBatch) Set(name string) error {
	return option.Named(l, "last batch", lastBatches, name)
}

// validate reports the first invalid field.
func (c *Config) validate() error {
	shards := "shards"
	if c.Partition != Ranges {
		shards = "world size"
	}
	if err := cmp.Or(
		within("samples", c.Samples, maxSamples),
		within(shards, int64(c.Shards), maxSamples),
		within("batch size", int64(c.BatchSize), MaxBatchSize),
	); err != nil {
		return err
	}
	switch {
	case int64(c.Shards) > c.Samples:
		rule := fmt.Sprintf("at most the number of samples, %d", c.Samples)
		return &option.Error{Field: shards, Rule: rule, Value: strconv.Itoa(c.Shards)}
	case c.Costs != nil && c.Costs.Len() != c.Samples:
		rule := fmt.Sprintf("those of all %d samples", c.Samples)
		return &option.Error{Field: "costs", Rule: rule, Value: fmt.Sprintf("of %d", c.Costs.Len())}
	}
	return cmp.Or(c.checkBlocks(), c.checkPartition())
}

// checkBlocks reports an invalid window or block.
func (c *Config) checkBlocks() error {
	var sum int64
	for _, size := range c.Blocks {
		if size < 0 || size > c.Samples-sum {
			sum = -1
			break
		}
		sum += size
	}
	switch {
	case c.Window < 0 || c.Window > 0 && !c.Shuffle:
		return &option.Error{Field: "window", Rule: "0, or a number of blocks for a shuffle", Value: strconv.Itoa(c.Window)}
	case c.Blocks != nil && sum != c.Samples:
		rule := fmt.Sprintf("sizes whose sum is the number of samples, %d", c.Samples)
		return &option.Error{Field: "blocks", Rule: rule, Value: fmt.Sprintf("%d other sizes", len(c.Blocks))}
	}
	return nil
}

// checkPartition reports fields that contradict the partition.
func (c *Config) checkPartition() error {
	steps, local := c.Partition != Ranges, c.Partition == Local
	switch {
	case c.Nodes != 0 && (!local || c.Nodes < 0 || c.Shards%c.Nodes != 0):
		rule := fmt.Sprintf("0, or with local placement a divisor of the number of shards, %d", c.Shards)
		return &option.Error{Field: "nodes", Rule: rule, Value: strconv.Itoa(c.Nodes)}
	case steps && c.BatchSize > MaxBatchSize/c.Shards:
		rule := fmt.Sprintf("at most %d in all shards", MaxBatchSize)
		return &option.Error{Field: "batch size", Rule: rule, Value: fmt.Sprintf("%d in each of %d", c.BatchSize, c.Shards)}
	case steps && (c.StickToShard || !c.PadLastBatch):
		return &option.Error{Field: "partition", Rule: "ranges, unless the last batch is padded and shards do not stick", Value: "elastic"}
	case local && (!c.Shuffle || c.Window > 0):
		return &option.Error{Field: "placement", Rule: "that of positions, unless all samples are shuffled together", Value: "local"}
	}
	return nil
}

// within checks 1 <= value <= most.
func within(field string, value, most int64) error {
	if value > most {
		return &option.Error{Field: field, Rule: fmt.Sprintf("at most %d", most), Value: strconv.FormatInt(value, 10)}
	}
	return option.AtLeast(field, value, 1)
}
