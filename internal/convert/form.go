package convert

import (
	"fmt"

	"github.com/batchfs/batchfs/decode"
	"github.com/batchfs/batchfs/internal/dataset"
	"github.com/batchfs/batchfs/internal/option"
	"github.com/batchfs/batchfs/shard"
)

// LikelyPacked estimates the packed size of sample i in bytes, and tends to be too high: only
// packing it gives the exact size.
func LikelyPacked(ds *dataset.Dataset, i int) int64 {
	size := ds.Stat(i).Size
	switch f, _ := decode.ParseFormat(ds.Format(i)); {
	case f == decode.JPEG:
		return size + size/8
	case f.Raw():
		return size
	}
	return size + size/2
}

// Shares are the shares of samples that are raw and packed in the result, each 0 to 1, and together
// at most 1.
type Shares struct {
	Raw    float64 `json:"raw_ratio"`
	Packed float64 `json:"packed_ratio"`
}

// Of is a form's share.
func (s Shares) Of(f shard.Cost) float64 {
	return [...]float64{shard.Encoded: 1 - s.Raw - s.Packed, shard.Packed: s.Packed, shard.Raw: s.Raw}[f]
}

// Validate returns an [option.Error] for impossible shares.
func (s Shares) Validate() error {
	const slack = 1e-9 // for sums such as 0.58 + 0.42
	for _, f := range []shard.Cost{shard.Raw, shard.Packed} {
		if share := s.Of(f); !(share >= 0 && share <= 1) {
			return &option.Error{Field: shareSetting(f), Rule: "a number from 0 to 1", Value: fmt.Sprint(share)}
		}
	}
	if s.Raw+s.Packed > 1+slack {
		return &option.Error{Field: shareSetting(shard.Packed), Rule: fmt.Sprintf("at most what a raw ratio of %v leaves of 1", s.Raw), Value: fmt.Sprint(s.Packed)}
	}
	return nil
}

// shareSetting is the name of the setting for a form's share.
func shareSetting(f shard.Cost) string { return f.String() + " ratio" }

// state is what is known about a sample.
type state struct {
	from, to   shard.Cost // in the dataset and in the result
	unreadable bool       // so it can only be kept
	unpackable bool       // it has no packed form
	turned     bool       // so it cannot be raw; see isTurned
	made       bool       // its file is in place
	ext        string     // what its name gets added
}

// becomes says whether the sample gets a form that it did not have.
func (s *state) becomes(f shard.Cost) bool { return s.to == f && s.from != f }

// unchanged says whether the sample stays as it is.
func (s *state) unchanged() bool { return s.to == s.from }

// standing says whether the sample can be chosen for a form. A sample keeps another form that it
// has, if that form has a share.
func (s *state) standing(f shard.Cost, shares Shares) standing {
	switch {
	case s.from == f && !s.unreadable:
		return counted
	case s.unreadable, s.turned && f == shard.Raw, s.from != shard.Encoded && shares.Of(s.from) > 0, f == shard.Packed && (s.unpackable || s.to == shard.Raw && s.from != shard.Raw):
		return excluded
	}
	return eligible
}

// code encodes what is known about a sample before anything is made.
func (s *state) code() byte {
	if s.unreadable {
		return 3
	}
	return [...]byte{shard.Encoded: 0, shard.Raw: 2, shard.Packed: 4}[s.from]
}
