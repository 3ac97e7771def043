package convert

// Plan is what will be done, known before it begins.
type Plan struct {
	Out     string  // where the result will be, absolute
	Staging string  // where it grows, absolute
	Resumed bool    // an unfinished run is continued
	Ratio   float64 // the share that was asked for, or found

	Samples    int
	Raw        int // raw in the end
	AlreadyRaw int // of these, raw before
	Linked     int // kept as hard links, as far as can be told beforehand
	Cloned     int // kept as clones, which share their blocks with the original
	Copied     int // kept as copies
	Moved      int // at most so many samples may get another number, as no name fits between their neighbours'; 0 with a manifest

	RawBytes  int64 // of the samples to convert; where they may become PGM, at most
	CopyBytes int64 // of the files to copy
	NeedBytes int64 // what the disk must still have, in whole blocks
	FreeBytes int64 // what it has
}

// Report is what was done.
type Report struct {
	Plan
	Finished bool // all was done by an earlier run, and nothing by this one

	Converted int // made raw by this run
	Reused    int // files found complete that an earlier run made
	Symlinked int // kept by a symbolic link, since they could be neither linked nor read

	// Unreadable are the samples that were kept because they cannot be read, by ID. Of
	// those that seem fine, only the ones chosen to be raw were looked at.
	Unreadable []Unreadable
	// Manifest is the result's manifest, absolute; "" where the dataset is a directory.
	Manifest string
}

// Unreadable is a sample that cannot be read, and why.
type Unreadable struct {
	ID     int
	Path   string // from the dataset's root
	Reason string
}
