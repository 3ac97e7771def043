package dataset

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Report gives the numbers of a dataset and of opening it.
type Report struct {
	Samples    int
	Classes    int            // class names; 0 if labels are numbers or absent
	Formats    map[string]int // readable samples by format
	Bytes      int64          // total of the known file sizes
	Ignored    int            // files in the directories that are not samples
	IgnoredBy  map[string]int // those by extension; "." hidden, "" none, "other" the rest
	Unreadable int            // samples with a Problem, or Unread
	MaxHeight  int            // pixels, after orientation
	MaxWidth   int

	Scanned int // headers read by this Open
	Reused  int // samples whose header came from the index

	// IndexProblem says why no index is kept, "" if one is kept or none was requested.
	IndexProblem string
}

// IgnoredKinds describes how many files of which kinds are not samples, most frequent first: "3
// .txt, 1 hidden"; "" if there are none.
func (r *Report) IgnoredKinds() string { return kindsOf(r.IgnoredBy) }

func kindsOf(ignored map[string]int) string {
	const most = 5
	kinds := slices.SortedFunc(maps.Keys(ignored), func(a, b string) int {
		return cmp.Or(cmp.Compare(ignored[b], ignored[a]), cmp.Compare(a, b))
	})
	var words []string
	rest := 0
	for k, kind := range kinds {
		if k >= most {
			rest += ignored[kind]
			continue
		}
		name := "." + kind
		switch kind {
		case ".":
			name = "hidden"
		case "":
			name = "without extension"
		case "other":
			name = "other"
		}
		words = append(words, fmt.Sprintf("%d %s", ignored[kind], name))
	}
	if rest > 0 {
		words = append(words, fmt.Sprintf("%d of %d more kinds", rest, len(kinds)-most))
	}
	return strings.Join(words, ", ")
}

// count fills in what the table knows.
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
