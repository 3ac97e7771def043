package convert

// Plan describes the work before it begins.
type Plan struct {
	Out     string  // path of the result, absolute
	Staging string  // where the result grows, absolute
	Resumed bool    // an unfinished run is continued
	Ratio   float64 // the share that was requested or determined

	Samples    int
	Raw        int // raw in the end
	AlreadyRaw int // of these, already raw before
	Linked     int // kept as hard links, as far as can be told in advance
	Cloned     int // kept as clones, which share their blocks with the original
	Copied     int // kept as copies

	RawBytes  int64 // of the samples to convert; an upper bound if they may become PGM
	CopyBytes int64 // of the files to copy
	NeedBytes int64 // free space that is still needed, in whole blocks
	FreeBytes int64 // free space
}

// Report describes what was done.
type Report struct {
	Plan
	Finished bool // an earlier run did everything, and this one nothing

	Converted int // made raw by this run
	Reused    int // complete files of an earlier run
	Symlinked int // kept as symbolic links, because they could be neither linked nor read

	// Unreadable are the samples that were kept because they cannot be read, by ID. Samples
	// that seem fine were only read if they were chosen to be raw.
	Unreadable []Unreadable
	// Manifest is the absolute path of the result's manifest; "" for a directory dataset.
	Manifest string
}

// Unreadable is a sample that cannot be read, and why.
type Unreadable struct {
	ID     int
	Path   string // relative to the dataset's root
	Reason string
}
