package dataset

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Report has counts about a dataset and its opening.
type Report struct {
	Samples int `json:"samples"`
	Classes int `json:"classes"` // class names; 0 if labels are numbers or absent
	// EmptyClasses are the classes without samples, by label. torchvision's ImageFolder refuses
	// them.
	EmptyClasses []string       `json:"empty_classes,omitempty"`
	Formats      map[string]int `json:"formats"`    // readable samples by format
	Bytes        int64          `json:"bytes"`      // total of the known file sizes
	Ignored      int            `json:"ignored"`    // files in the directories that are not samples
	IgnoredBy    map[string]int `json:"ignored_by"` // Ignored by extension; "." hidden, "" none, "other" the rest
	Unreadable   int            `json:"-"`          // samples with a Problem, or Unread
	Unlabeled    int            `json:"unlabeled"`  // samples without a label
	MaxLabel     int            `json:"max_label"`  // -1: no sample has a label
	MaxHeight    int            `json:"max_height"` // pixels, after orientation
	MaxWidth     int            `json:"max_width"`

	// Unended are the archives without an end mark. They may have been cut off between two members.
	Unended []string `json:"unended,omitempty"`
	// Numbers are the columns of whole numbers in archives, or a manifest, without labels.
	Numbers []string `json:"numbers,omitempty"`

	Scanned int `json:"scanned"` // headers read by this Open
	Reused  int `json:"reused"`  // samples whose header came from the index

	// IndexProblem says why no index is kept, "" if one is kept or none was requested.
	IndexProblem string `json:"index_problem,omitempty"`
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
		name, special := map[string]string{".": "hidden", "": "without extension", "other": "other"}[kind]
		switch {
		case k >= most:
			rest += ignored[kind]
			continue
		case !special:
			name = "." + kind
		}
		words = append(words, fmt.Sprintf("%d %s", ignored[kind], name))
	}
	if rest > 0 {
		words = append(words, fmt.Sprintf("%d of %d more kinds", rest, len(kinds)-most))
	}
	return strings.Join(words, ", ")
}

// addObjects adds facts about the archives of an index.
func (r *Report) addObjects(x *index) {
	for k, c := range x.objects {
		if c.Unended {
			r.Unended = append(r.Unended, x.table.objects[k].name)
		}
		r.Numbers = append(r.Numbers, c.Numbers...)
	}
	r.Numbers = append(r.Numbers, x.Numbers...)
	slices.Sort(r.Numbers)
	r.Numbers = slices.Compact(r.Numbers)
}

// count fills in the counts that follow from the index.
func (r *Report) count(x *index) {
	s := x.table
	r.Samples, r.Unreadable, r.Classes, r.IgnoredBy = s.rows(), len(s.bad), len(x.classes), x.Ignored
	for _, n := range x.Ignored {
		r.Ignored += n
	}
	r.addObjects(x)
	counts, has := make([]int, len(formats)), make([]bool, len(x.classes))
	r.MaxLabel = -1
	for i := range s.rows() {
		if r.MaxLabel = max(r.MaxLabel, int(s.row[i].label)); s.row[i].label < 0 {
			r.Unlabeled++
		} else if x.classes != nil {
			has[s.row[i].label] = true
		}
		counts[s.row[i].format]++
		r.Bytes += s.row[i].id.Size
		r.MaxHeight = max(r.MaxHeight, int(s.row[i].height))
		r.MaxWidth = max(r.MaxWidth, int(s.row[i].width))
	}
	for label, class := range x.classes {
		if !has[label] {
			r.EmptyClasses = append(r.EmptyClasses, class)
		}
	}
	r.Formats = map[string]int{}
	for k, n := range counts {
		if k > 0 && n > 0 {
			r.Formats[formats[k]] = n
		}
	}
}
