package profile

import (
	"encoding/json"
	"math"
)

// Rate is images a second; infinite where nothing has to be done for an image. JSON
// has no infinity: it is null there.
type Rate float64

// MarshalJSON writes a number, or null.
func (r Rate) MarshalJSON() ([]byte, error) {
	if math.IsInf(float64(r), 0) || math.IsNaN(float64(r)) {
		return []byte("null"), nil
	}
	return json.Marshal(float64(r))
}

// rateOf is the rate of so many seconds an image.
func rateOf(seconds float64) Rate {
	if seconds <= 0 {
		return Rate(math.Inf(1))
	}
	return Rate(1 / seconds)
}

func (r Rate) seconds() float64 {
	if math.IsInf(float64(r), 1) {
		return 0
	}
	return 1 / float64(r)
}

// Limit is which of the two is the slower.
type Limit string

// What limits a mix.
const (
	Loading  Limit = "loading"
	Decoding Limit = "decoding"
)

// Point is a mix and how fast it is, measured or by the model.
type Point struct {
	RawRatio float64 `json:"raw_ratio"` // share of the images that are raw
	HitRatio float64 `json:"hit_ratio"` // share of the reads that the mount's cache answers
	Storage  Rate    `json:"storage_images_per_second"`
	Loading  Rate    `json:"loading_images_per_second"` // Storage, with the cache's help
	Decoding Rate    `json:"decoding_images_per_second"`
}

// Throughput is the slower of loading and decoding.
func (p Point) Throughput() Rate { return min(p.Loading, p.Decoding) }

// Limit is which of them that is.
func (p Point) Limit() Limit {
	if p.Loading < p.Decoding {
		return Loading
	}
	return Decoding
}

// Step is a mix of the search, and what it taught.
type Step struct {
	Point
	Throughput Rate  `json:"images_per_second"`
	Limit      Limit `json:"limit"`
	// From and To are the raw ratios of the mixes that may be best after this step, both
	// included; one number twice after the last one.
	From float64 `json:"candidates_from"`
	To   float64 `json:"candidates_to"`
}

// Trial is what the engine did with a mix: everything a mount does.
type Trial struct {
	RawRatio     float64 `json:"raw_ratio"`
	HitRatio     float64 `json:"hit_ratio"`
	Throughput   Rate    `json:"images_per_second"`
	StorageBytes float64 `json:"storage_bytes_per_image"`
	Images       int     `json:"images"` // of the sample that it ran over

	turns []float64 // seconds an image, each time; Throughput is that of the median
}

// over is how many times as fast t was as other, turn by turn.
func (t *Trial) over(other *Trial) float64 {
	ratios := make([]float64, min(len(t.turns), len(other.turns)))
	for i := range ratios {
		ratios[i] = other.turns[i] / t.turns[i]
	}
	if len(ratios) == 0 {
		return float64(t.Throughput / other.Throughput)
	}
	return median(ratios)
}

// Cost is what an image of one kind costs: seconds of the whole machine.
type Cost struct {
	Load   float64 `json:"load_seconds"` // from storage
	Decode float64 `json:"decode_seconds"`
	Bytes  float64 `json:"bytes"` // its file, on average
}

// Note is something to know about a result.
type Note string

const (
	// OtherStorage: the raw copies were on another device than the dataset.
	OtherStorage Note = "other_storage"
	// PageCache: files were read through the page cache, which holds all of the sample,
	// but not all of a larger dataset.
	PageCache Note = "page_cache"
	// Waiting: the engine was slower than loading and decoding for themselves.
	Waiting Note = "waiting"
	// OtherWins: another run was clearly faster than the one than where the curves cross.
	OtherWins Note = "other_wins"
	// RawSmaller: raw files are the smaller, so loading, too, gets faster with more of them,
	// unless the cache holds everything.
	RawSmaller Note = "raw_is_smaller"
)

// Result is the answer and how it was found.
type Result struct {
	Dataset string `json:"dataset"`
	Work    string `json:"work"` // where the raw copies were; they are gone
	Samples int    `json:"samples"`
	Images  int    `json:"images"`     // that were measured with
	Skipped int    `json:"unreadable"` // as far as the index knows, and of those chosen

	RawRatio     float64 `json:"raw_ratio"` // the answer
	EncodedRatio float64 `json:"encoded_ratio"`
	AlreadyRaw   float64 `json:"already_raw_ratio"` // no mix can have less
	Verified     Rate    `json:"verified_images_per_second"`
	Predicted    Rate    `json:"predicted_images_per_second"`
	EncodedOnly  Rate    `json:"encoded_images_per_second"` // a run with no more raw images than there are
	BestOf11     float64 `json:"best_of_11_raw_ratio"`      // the search's answer
	Crossing     float64 `json:"crossing_raw_ratio"`        // the model's

	CacheBytes int64   `json:"cache_bytes"`
	Workers    int     `json:"workers"`
	Encoded    Cost    `json:"encoded"`
	Raw        Cost    `json:"raw"`
	Steps      []Step  `json:"steps"`
	Runs       []Trial `json:"runs"`
	Notes      []Note  `json:"notes"`
	// Curve is the model from no raw images to only raw ones, in equal steps.
	Curve []Point `json:"curve"`
}

// fastest is the run with the highest throughput.
func (r *Result) fastest() (best int) {
	for k, run := range r.Runs {
		if run.Throughput > r.Runs[best].Throughput {
			best = k
		}
	}
	return best
}
