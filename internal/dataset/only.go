package dataset

import (
	"fmt"
	"slices"
)

// keepOnly drops the rows that are not wanted, and returns how many it dropped. The stored index
// has all rows, and so serves any choice.
func (x *index) keepOnly(wanted func(path string) bool, src *source) (left int, err error) {
	t := x.table
	o := order{rows: make([]int32, 0, t.rows())}
	for i := range t.rows() {
		if wanted(t.path(i)) {
			o.rows = append(o.rows, int32(i))
		}
	}
	if len(o.rows) == 0 {
		return 0, fmt.Errorf("%s: %w", src.name(), ErrNone)
	}
	if left = t.rows() - len(o.rows); left == 0 {
		return 0, nil
	}
	for _, e := range src.entries {
		e.first, _ = slices.BinarySearch(o.rows, int32(e.first))
		e.end, _ = slices.BinarySearch(o.rows, int32(e.end))
	}
	t.arrange(&o)
	t.clip()
	x.Digest = digest(t, x.classes)
	return left, nil
}
