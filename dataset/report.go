package dataset

// Report says in numbers what a dataset is and what opening it took.
type Report struct {
	Samples    int
	Classes    int            // class names; 0 where labels are numbers or absent
	Formats    map[string]int // readable samples by format
	Bytes      int64          // of the files whose size is known
	Ignored    int            // files in the directories that are no samples
	IgnoredBy  map[string]int // those by extension; "." hidden, "" none, "other" the rest
	Unreadable int            // samples with a Problem, or Unread
	MaxHeight  int            // pixels, after orientation
	MaxWidth   int

	Scanned int // headers read by this Open
	Reused  int // samples whose header came from the index

	// IndexProblem says why no index is kept, "" if one is or none was wanted.
	IndexProblem string
}

// count fills in what the table says.
func (r *Report) count(s *store) {
	r.Samples, r.Unreadable = s.rows(), len(s.bad)
	formats := make([]int, len(s.formatNames))
	for i := range s.rows() {
		formats[s.formats[i]]++
		id, _ := s.identity(i)
		r.Bytes += id.Size
		r.MaxHeight = max(r.MaxHeight, int(s.heights[i]))
		r.MaxWidth = max(r.MaxWidth, int(s.widths[i]))
	}
	r.Formats = map[string]int{}
	for k, n := range formats {
		if k > 0 && n > 0 {
			r.Formats[s.formatNames[k]] = n
		}
	}
}
