package shard

import (
	"cmp"
	"fmt"
	"strconv"

	"github.com/batchfs/batchfs/internal/option"
)

// Limits of a plan. The index alone of a dataset this large would take terabytes; the limits
// exist so that no offset overflows.
const (
	MaxSamples   = 1 << 36   // samples in a dataset
	MaxBatchSize = 1<<31 - 1 // samples in a batch
	MaxEpochs    = 1 << 26   // epochs with batches
)

// Config is everything a plan depends on.
type Config struct {
	Samples   int64 // in the dataset
	Shards    int   // at most the number of samples
	BatchSize int   // samples

	Shuffle bool
	Seed    uint64 // of the shuffle; ignored without Shuffle

	StickToShard bool // a shard reads the same range in every epoch
	PadLastBatch bool // repeat a range's last sample, so that every epoch starts with a new batch
	LastBatch    LastBatch

	// Raw says which samples are raw, for a shuffle that gives every batch the same mix of raw
	// and encoded samples. nil: all samples are of one class.
	Raw *RawSet
}

// LastBatch says what happens to a batch that a range cannot fill.
type LastBatch uint8

const (
	// Fill fills it up: with repeated samples in a padded plan, with samples of the next range
	// in an unpadded one.
	Fill LastBatch = iota
	// Partial keeps it short, even empty.
	Partial
	// Drop leaves it out.
	Drop
)

// String is the option's value on the command line.
func (l LastBatch) String() string {
	if names := [...]string{Fill: "fill", Partial: "partial", Drop: "drop"}; int(l) < len(names) {
		return names[l]
	}
	return fmt.Sprintf("LastBatch(%d)", uint8(l))
}

// validate reports the first invalid field.
func (c *Config) validate() error {
	if err := cmp.Or(
		within("samples", c.Samples, MaxSamples),
		within("shards", int64(c.Shards), MaxSamples),
		within("batch size", int64(c.BatchSize), MaxBatchSize),
	); err != nil {
		return err
	}
	switch {
	case int64(c.Shards) > c.Samples:
		rule := fmt.Sprintf("at most the number of samples, %d", c.Samples)
		return &option.Error{Field: "shards", Rule: rule, Value: strconv.Itoa(c.Shards)}
	case c.LastBatch > Drop:
		return &option.Error{Field: "last batch", Rule: "fill, partial or drop", Value: c.LastBatch.String()}
	case c.Raw != nil && c.Raw.Len() != c.Samples:
		rule := fmt.Sprintf("a set over all %d samples", c.Samples)
		return &option.Error{Field: "raw", Rule: rule, Value: fmt.Sprintf("over %d", c.Raw.Len())}
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
