package dataset

// listing describes a dataset before any header is read.
type listing struct {
	table   *store
	classes []string // in label order; nil if there are none
	dirs    []dirStamp
	// manifest is the manifest's stamp and size; zero for a directory.
	manifest     stamp
	manifestSize int64
	outside      bool // some path leaves the root
	ignored      map[string]int
}

// dirStamp is a listed directory, by its path relative to the root.
type dirStamp struct {
	path string
	stamp
}

func (l *listing) ignore(name string) {
	if l.ignored == nil {
		l.ignored = map[string]int{}
	}
	l.ignored[extensionKey(name)]++
}

// newest is the newest modification time of the manifest and the listed directories.
func (l *listing) newest() int64 {
	t := l.manifest.Time
	for i, d := range l.dirs {
		if i == 0 || d.Time > t {
			t = d.Time
		}
	}
	return t
}
