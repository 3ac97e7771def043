package profile

import (
	"encoding/json"
	"math"
	"slices"

	"github.com/batchfs/batchfs/internal/convert"
	"github.com/batchfs/batchfs/internal/throughput"
	"github.com/batchfs/batchfs/shard"
)

// Rate is images per second; infinite if an image needs no work. JSON has no infinity, so
// it is null there.
type Rate float64

// MarshalJSON writes a number, or null.
func (r Rate) MarshalJSON() ([]byte, error) {
	if math.IsInf(float64(r), 0) || math.IsNaN(float64(r)) {
		return []byte("null"), nil
	}
	return json.Marshal(float64(r))
}

// rateOf converts seconds per image to a rate.
func rateOf(seconds float64) Rate { return Rate(1 / max(seconds, 0)) }

// Limit tells whether loading or decoding is slower.
type Limit string

// The limits of a mix, and of training.
const (
	Loading  Limit = "loading"
	Decoding Limit = "decoding"
	Consumer Limit = "consumer"
)

// Point is a mix and its speed, measured or modeled.
type Point struct {
	convert.Shares
	HitRatio   float64 `json:"hit_ratio"` // share of the reads served by the mount's cache
	Storage    Rate    `json:"storage_images_per_second"`
	Loading    Rate    `json:"loading_images_per_second"` // Storage, improved by the cache
	Decoding   Rate    `json:"decoding_images_per_second"`
	Throughput Rate    `json:"images_per_second"` // the slower of Loading and Decoding
	Limit      Limit   `json:"limit"`             // which one that is
}

// pointOf takes the seconds that an image takes to load from storage and to decode.
func pointOf(s convert.Shares, hits, load, decode float64) Point {
	p := Point{s, hits, rateOf(load), rateOf((1 - hits) * load), rateOf(decode), 0, Decoding}
	if p.Throughput = min(p.Loading, p.Decoding); p.Loading < p.Decoding {
		p.Limit = Loading
	}
	return p
}

// Step is a mix measured in the search and the conclusion from it.
type Step struct {
	Point
	// From and To are the numbers of the mixes that may be best after this step, inclusive; equal
	// after the last step. Mix 10·k is the k-th of the Result's Forms alone. Mixes between two
	// forms have tenths of each.
	From int `json:"candidates_from"`
	To   int `json:"candidates_to"`
}

// Trial is a run of the engine with a mix. It does everything a mount does.
type Trial struct {
	convert.Shares
	HitRatio   float64 `json:"hit_ratio"`
	FirstEpoch Rate    `json:"first_epoch_images_per_second"` // measured once, with an empty cache
	Throughput Rate    `json:"images_per_second"`             // in later epochs
	Noise      float64 `json:"noise"`                         // half the range of its turns, relative to Throughput

	turns []float64 // seconds per image, for each turn; Throughput is from their median
}

// newTrial sums up the seconds that an image took, in the first epoch and in each turn.
func newTrial(s convert.Shares, hits, first float64, turns []float64) Trial {
	middle := throughput.Median(turns)
	noise := (slices.Max(turns) - slices.Min(turns)) / 2 / middle
	return Trial{s, hits, rateOf(first), rateOf(middle), noise, turns}
}

// beats says whether t is faster than other by more than noise: compared turn by turn, in all turns
// but one.
func (t *Trial) beats(other *Trial) bool {
	ratios := make([]float64, len(t.turns))
	for i := range ratios {
		ratios[i] = other.turns[i] / t.turns[i]
	}
	slices.Sort(ratios)
	return throughput.Median(ratios) > certainly && ratios[min(1, len(ratios)-1)] > 1
}

// Cost is the cost of an image of one form, in seconds of the whole machine.
type Cost struct {
	Load   float64 `json:"load_seconds"` // from storage
	Decode float64 `json:"decode_seconds"`
	Bytes  float64 `json:"bytes"` // mean file size
}

// Note is a remark about a result.
type Note string

const (
	// OtherStorage means that the copies were on another device than the dataset.
	OtherStorage Note = "other_storage"
	// CopiedOut means that the dataset is in archives or in a store, and that the measured images
	// were copied out of it.
	CopiedOut Note = "copied_out"
	// PageCache means that the mount would read through the page cache. The page cache holds all
	// measured images but not a whole larger dataset, so files were read past it.
	PageCache Note = "page_cache"
	// Waiting means that the engine was slower than loading and decoding alone.
	Waiting Note = "waiting"
	// OtherWins means that another run was clearly faster than the one at the crossing.
	OtherWins Note = "other_wins"
	// WithinNoise means that the mix that should be fastest was not faster than the unchanged
	// dataset by LeastGain and by more than noise. The unchanged dataset is the answer.
	WithinNoise Note = "within_noise"
	// Noisy means that the turns of a run differed more than on an otherwise idle machine.
	Noisy Note = "noisy"
	// SmallDataset means that the cache would hold all samples, even in the largest form, and was
	// ignored; see Options.Samples.
	SmallDataset Note = "small_dataset"
	// RawSmaller means that raw files are smaller, so more of them make loading faster, too, unless
	// the cache holds everything.
	RawSmaller Note = "raw_is_smaller"
	// NoPackedForm means that packed images were a candidate, but no measured image has a packed
	// form.
	NoPackedForm Note = "no_packed_form"
)

// Result is the answer and how it was found.
type Result struct {
	Dataset string `json:"dataset"`
	Work    string `json:"work"` // where the copies were; they have been removed
	Samples int    `json:"samples"`
	Images  int    `json:"images"`     // used for measuring
	Skipped int    `json:"unreadable"` // of the images chosen for measuring

	convert.Shares         // the answer
	EncodedRatio   float64 `json:"encoded_ratio"`
	AlreadyRaw     float64 `json:"already_raw_ratio"` // the least share that any mix can have
	AlreadyPacked  float64 `json:"already_packed_ratio"`
	AsItIs         bool    `json:"best_as_it_is"` // no mix is faster by LeastGain
	Verified       Rate    `json:"verified_images_per_second"`
	EncodedOnly    Rate    `json:"encoded_images_per_second"` // of the dataset as it is

	Forms      []string       `json:"forms"`          // from the smallest files to the largest
	BestTenths convert.Shares `json:"best_of_tenths"` // the search's answer
	Crossing   convert.Shares `json:"crossing"`       // the model's

	CacheBytes int64   `json:"cache_bytes"`
	Workers    int     `json:"workers"`
	Encoded    Cost    `json:"encoded"`
	Packed     Cost    `json:"packed"` // zero if it is not a candidate, like Raw
	Raw        Cost    `json:"raw"`
	Steps      []Step  `json:"steps"`
	Runs       []Trial `json:"runs"`
	Notes      []Note  `json:"notes"`
	// Training is nil without Options.Consumer.
	Training *Training `json:"training,omitempty"`
	// Curve is the model from the first form alone to the last one alone, in equal steps.
	Curve []Point `json:"curve"`
}

// costs are the costs of an image by its form.
func (r *Result) costs() [shard.NumCosts]*Cost {
	return [...]*Cost{shard.Encoded: &r.Encoded, shard.Packed: &r.Packed, shard.Raw: &r.Raw}
}

// fileBytes is the mean size of the files of a mix.
func (r *Result) fileBytes(s convert.Shares) (bytes float64) {
	for f, cost := range r.costs() {
		bytes += s.Of(shard.Cost(f)) * cost.Bytes
	}
	return bytes
}
