package shard

import "fmt"

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

const lastBatchRule = "fill, partial or drop"

// String is the option's value on the command line.
func (l LastBatch) String() string {
	switch l {
	case Fill:
		return "fill"
	case Partial:
		return "partial"
	case Drop:
		return "drop"
	}
	return fmt.Sprintf("LastBatch(%d)", uint8(l))
}

// ParseLastBatch parses the option's value.
func ParseLastBatch(s string) (LastBatch, error) {
	for _, l := range []LastBatch{Fill, Partial, Drop} {
		if s == l.String() {
			return l, nil
		}
	}
	return Fill, fmt.Errorf("must be %s, not %q", lastBatchRule, s)
}
