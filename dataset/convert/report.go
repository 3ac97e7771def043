package convert

// Plan describes the work before it begins.
type Plan struct {
	Out     string  `json:"out"`       // path of the result, absolute
	Staging string  `json:"-"`         // where the result grows, absolute
	Resumed bool    `json:"resumed"`   // an unfinished run is continued
	Ratio   float64 `json:"raw_ratio"` // the share that was requested or determined

	Samples    int `json:"samples"`
	Raw        int `json:"raw"`         // raw in the end
	AlreadyRaw int `json:"already_raw"` // of these, already raw before
	Linked     int `json:"linked"`      // kept as hard links, as far as can be told in advance
	Cloned     int `json:"cloned"`      // kept as clones, which share their blocks with the original
	Copied     int `json:"copied"`      // kept as copies

	RawBytes  int64 `json:"raw_bytes"`    // of the samples to convert; an upper bound if they may become PGM
	CopyBytes int64 `json:"copied_bytes"` // of the files to copy
	NeedBytes int64 `json:"needed_bytes"` // free space that is still needed, in whole blocks
	FreeBytes int64 `json:"free_bytes"`   // free space
}

// Report describes what was done.
type Report struct {
	Plan
	Finished bool `json:"finished_before"` // an earlier run did everything, and this one nothing

	Converted int `json:"converted"` // made raw by this run
	Reused    int `json:"reused"`    // complete files of an earlier run
	Symlinked int `json:"symlinked"` // kept as symbolic links, because they could be neither linked nor read

	// Unreadable are the samples that were kept because they cannot be read, by ID. Samples
	// that seem fine were only read if they were chosen to be raw.
	Unreadable []Unreadable `json:"-"`
	// Manifest is the absolute path of the result's manifest; "" for a directory dataset.
	Manifest string `json:"manifest,omitempty"`
}

// Unreadable is a sample that cannot be read, and why.
type Unreadable struct {
	ID     int
	Path   string // relative to the dataset's root
	Reason string
}
