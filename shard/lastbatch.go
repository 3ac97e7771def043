package shard

import "fmt"

// LastBatch says what becomes of a batch that a range cannot fill.
type LastBatch uint8

const (
	// Fill makes it full: with repeated samples in a padded plan, with those of
	// the next range in an unpadded one.
	Fill LastBatch = iota
	// Partial keeps it short, even empty.
	Partial
	// Drop leaves it out.
	Drop
)

const lastBatchRule = "fill, partial or drop"

// String is the word that users write.
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

// ParseLastBatch reads the word that users write.
func ParseLastBatch(s string) (LastBatch, error) {
	for _, l := range []LastBatch{Fill, Partial, Drop} {
		if s == l.String() {
			return l, nil
		}
	}
	return Fill, fmt.Errorf("must be %s, not %q", lastBatchRule, s)
}
